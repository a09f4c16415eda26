/* SPDX-License-Identifier: Apache-2.0 */
/* The columns that a question needs, as SQL, and the reading of the rows that the server answers; see click_load.h.
 * RowBinary: numbers little-endian, strings with their length as a varint. */
#include <string.h>

#include "store/engines/clickhouse/click_load.h"

/* Puts the columns that identify a profile, each followed by a comma; c is NULL in GROUP BY. */
static void put_identity(struct buf *sql, const struct click_want *w, bool typed, const struct store_column *c)
{
    if (!typed)
        buf_puts(sql, "type, ");
    if (w->series || w->time)
        buf_puts(sql, "series, ");
    if (w->meta || w->time)
        buf_puts(sql, "meta, ");
    if (w->time)
        buf_puts(sql, "time, seq, ");
    else if (w->step && c)
        buf_printf(sql, "toInt64(intDiv(time - toInt64(%lld), %lld)) AS step, ", (long long) c->from,
                   (long long) w->step);
    else if (w->step)
        buf_puts(sql, "step, ");
}

static void read_identity(struct cursor *r, const struct click_want *w, bool typed, struct click_row *row)
{
    const unsigned char *p;

    if (!typed)
        row->type = get_bytes(r);
    if (w->series || w->time)
        row->series = get_u64(r);
    if (w->meta || w->time)
        row->meta = get_u64(r);
    if (w->time) {
        row->time = (int64_t) get_u64(r);
        p = get_raw(r, 2);
        row->seq = p ? load_u16(p) : 0;
    } else if (w->step) {
        row->time = (int64_t) get_u64(r);
    }
}

void click_put_sample_columns(struct buf *sql, const struct click_want *w, bool typed, const struct store_column *c)
{
    put_identity(sql, w, typed, c);
    if (w->stack)
        buf_puts(sql, "stack, ");
    if (w->attrs)
        buf_puts(sql, "attrs, ");
    if (w->link)
        buf_puts(sql, "trace, span, ");
    if (w->ts)
        buf_puts(sql, "ts, ");
}

void click_read_sample(struct cursor *r, const struct click_want *w, bool typed, struct click_row *row)
{
    const unsigned char *p;

    *row = (struct click_row){.ts = CLICK_NO_TS};
    read_identity(r, w, typed, row);
    if (w->stack && (p = get_raw(r, 16)))
        row->stack = (struct id128){load_u64(p), load_u64(p + 8)};
    if (w->attrs)
        row->attrs = get_u64(r);
    if (w->link && (p = get_raw(r, 24))) {
        memcpy(row->link.trace_id, p, 16);
        memcpy(row->link.span_id, p + 16, 8);
    }
    if (w->ts)
        row->ts = (int64_t) get_u64(r);
    row->value = (int64_t) get_u64(r);
    row->count = get_u64(r);
}

void click_put_profile_columns(struct buf *sql, const struct click_want *w, bool typed, const struct store_column *c)
{
    put_identity(sql, w, typed, c);
    if (w->time)
        buf_puts(sql, "unit, duration, joined, id, value, samples, ");
}

void click_read_profile(struct cursor *r, const struct click_want *w, bool typed, struct click_row *row)
{
    const unsigned char *p;

    *row = (struct click_row){.is_profile = true};
    read_identity(r, w, typed, row);
    if (!w->time)
        return;
    row->unit = get_bytes(r);
    row->duration = (int64_t) get_u64(r);
    row->joined = get_u32(r);
    p = get_raw(r, 16);
    if (p)
        memcpy(row->id, p, 16);
    row->value = (int64_t) get_u64(r);
    row->count = get_u32(r);
}

#define CMP(x, y) ((x) < (y) ? -1 : (x) > (y) ? 1 : 0)

static int cmp_identity(const struct click_row *a, const struct click_row *b)
{
    int r = str_cmp(a->type, b->type);

    r = r ? r : CMP(a->meta, b->meta);
    r = r ? r : CMP(a->series, b->series);
    r = r ? r : CMP(a->time, b->time);
    return r ? r : CMP(a->seq, b->seq);
}

int click_row_cmp(const void *a, const void *b)
{
    const struct click_row *x = a, *y = b;
    int r = cmp_identity(x, y);

    return r ? r : CMP(y->is_profile, x->is_profile);
}

bool click_row_same_profile(const struct click_row *a, const struct click_row *b)
{
    return cmp_identity(a, b) == 0;
}
