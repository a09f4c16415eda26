/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and reads the blocks of the span index; span_block.h has the byte table. */
#include "span/span_block.h"

#include <errno.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/mem.h"

const char *const span_kind_names[SPAN_KINDS + 1] = {"unspecified", "internal", "server", "client", "producer", "consumer"};
const char *const span_status_names[SPAN_STATUSES + 1] = {"unset", "ok", "error"};

bool span_is_request(const struct span_row *s)
{
    static const uint8_t none[8];

    return s->kind == SPAN_SERVER || s->kind == SPAN_CONSUMER || memcmp(s->parent, none, sizeof none) == 0;
}

/* --- writing --- */

void span_writer_init(struct span_writer *w, int64_t received, size_t limit)
{
    *w = (struct span_writer){.received = received};
    buf_init(&w->out, limit);
}

void span_writer_done(struct span_writer *w)
{
    buf_done(&w->out);
    buf_done(&w->strings);
    buf_done(&w->rows);
    mem_free(w->names);
    mem_free(w->senders);
    map_done(&w->name_map);
    *w = (struct span_writer){0};
}

static void writer_fail(struct span_writer *w, int r)
{
    if (r < 0 && !w->err)
        w->err = r;
}

/* The number of a string in this block. */
static uint32_t put_string(struct span_writer *w, struct str s)
{
    uint64_t h;

    if (w->err)
        return 0;
    s = str_slice(s, 0, SPAN_STRING_MAX);
    h = hash64_str(s);
    for (struct map_pos p = map_find(&w->name_map, h); p.index != MAP_NONE; p = map_next(&w->name_map, p)) {
        const struct span_string *x = &w->names[p.index];

        if (x->n == s.n && memcmp(w->strings.p + x->at, s.p ? s.p : "", s.n) == 0)
            return p.index;
    }
    put_u32(&w->strings, s.n);
    buf_put_str(&w->strings, s);
    writer_fail(w, buf_error(&w->strings));
    if (!w->err)
        writer_fail(w, map_insert(&w->name_map, h, w->n_names));
    if (!w->err)
        writer_fail(w, array_push(w->names, w->n_names, w->cap_names, UINT32_MAX,
                                  (struct span_string){w->strings.n - s.n, s.n}));
    return w->err ? 0 : w->n_names - 1;
}

/* The spans of a request come from few senders, mostly one after the other: the newest is looked at first. */
static uint32_t put_sender(struct span_writer *w, const struct span_row *s)
{
    struct span_sender x = {{put_string(w, s->service), put_string(w, s->version), put_string(w, s->instance)}};

    for (uint32_t i = w->n_senders; i-- > 0 && i + 16 > w->n_senders;)
        if (memcmp(&w->senders[i], &x, sizeof x) == 0)
            return i;
    writer_fail(w, array_push(w->senders, w->n_senders, w->cap_senders, UINT32_MAX, x));
    return w->err ? 0 : w->n_senders - 1;
}

static void end_block(struct span_writer *w)
{
    size_t at = w->out.n, payload = w->strings.n + (size_t) w->n_senders * 12 + w->rows.n;

    if (!w->n_rows || w->err)
        return;
    buf_puts(&w->out, SPAN_BLOCK_MAGIC);
    put_u32(&w->out, 0);
    put_u32(&w->out, (uint32_t) payload);
    put_u32(&w->out, w->n_rows);
    put_u32(&w->out, w->n_names);
    put_u32(&w->out, w->n_senders);
    put_u64(&w->out, (uint64_t) w->first);
    put_u64(&w->out, (uint64_t) w->last);
    put_u64(&w->out, (uint64_t) w->received);
    buf_pad(&w->out, 0, 16);
    buf_put_buf(&w->out, &w->strings);
    for (uint32_t i = 0; i < w->n_senders; i++)
        for (int k = 0; k < 3; k++)
            put_u32(&w->out, w->senders[i].string[k]);
    buf_put_buf(&w->out, &w->rows);
    writer_fail(w, buf_error(&w->out));
    if (!w->err)
        store_u32(w->out.p + at + 4, crc32c(0, w->out.p + at + 8, w->out.n - at - 8));
    w->n += w->n_rows;
    w->n_rows = w->n_names = w->n_senders = 0;
    buf_reset(&w->strings);
    buf_reset(&w->rows);
    map_reset(&w->name_map);
}

void span_writer_add(struct span_writer *w, const struct span_row *s)
{
    uint32_t name = put_string(w, s->name), sender = put_sender(w, s);

    if (w->err)
        return;
    w->first = w->n_rows ? MIN(w->first, s->start) : s->start;
    w->last = w->n_rows ? MAX(w->last, s->start) : s->start;
    buf_put(&w->rows, s->link.trace_id, 16);
    buf_put(&w->rows, s->link.span_id, 8);
    buf_put(&w->rows, s->parent, 8);
    put_u64(&w->rows, (uint64_t) s->start);
    put_u64(&w->rows, (uint64_t) s->duration);
    put_u32(&w->rows, name);
    put_u32(&w->rows, sender);
    buf_putc(&w->rows, (char) s->kind);
    buf_putc(&w->rows, (char) s->status);
    buf_pad(&w->rows, 0, 6);
    writer_fail(w, buf_error(&w->rows));
    writer_fail(w, buf_error(&w->strings));
    w->n_rows++;
    if (w->rows.n + w->strings.n + (size_t) w->n_senders * 12 >= SPAN_BLOCK_FULL)
        end_block(w);
}

int span_writer_end(struct span_writer *w)
{
    end_block(w);
    return w->err;
}

/* --- reading --- */

int span_head_read(const void *p, struct span_head *ret)
{
    const uint8_t *b = p;
    struct span_head h = {
        .crc = load_u32(b + 4),
        .payload = load_u32(b + 8),
        .n_rows = load_u32(b + 12),
        .n_strings = load_u32(b + 16),
        .n_senders = load_u32(b + 20),
        .first = (int64_t) load_u64(b + 24),
        .last = (int64_t) load_u64(b + 32),
        .received = (int64_t) load_u64(b + 40),
    };

    if (memcmp(b, SPAN_BLOCK_MAGIC, 4) != 0 || h.payload > SPAN_BLOCK_MAX ||
        (uint64_t) h.n_rows * SPAN_BLOCK_ROW + (uint64_t) h.n_senders * 12 + (uint64_t) h.n_strings * 4 > h.payload)
        return -EBADMSG;
    *ret = h;
    return 0;
}

/* Finds the parts of the payload and checks every number in it, so that span_block_row() need not. */
static int read_parts(struct span_block *b, const uint8_t *p, const uint8_t *end)
{
    for (uint32_t i = 0; i < b->head.n_strings; i++) {
        uint32_t n;

        if (end - p < 4)
            return -EBADMSG;
        n = load_u32(p);
        p += 4;
        if (n > (size_t) (end - p))
            return -EBADMSG;
        b->strings[i] = (struct str){(const char *) p, n};
        p += n;
    }
    if ((uint64_t) (end - p) != (uint64_t) b->head.n_senders * 12 + (uint64_t) b->head.n_rows * SPAN_BLOCK_ROW)
        return -EBADMSG;
    b->senders = p;
    b->rows = p + (size_t) b->head.n_senders * 12;
    for (; p < b->rows; p += 4)
        if (load_u32(p) >= b->head.n_strings)
            return -EBADMSG;
    for (; p < end; p += SPAN_BLOCK_ROW)
        if (load_u32(p + 48) >= b->head.n_strings || load_u32(p + 52) >= b->head.n_senders || p[56] >= SPAN_KINDS ||
            p[57] >= SPAN_STATUSES || (int64_t) load_u64(p + 40) < 0)
            return -EBADMSG;
    return 0;
}

int span_block_read(struct span_block *b, const void *p, size_t n)
{
    const uint8_t *start = p;
    int r;

    if (n < SPAN_BLOCK_HEADER)
        return -EBADMSG;
    r = span_head_read(p, &b->head);
    if (r < 0 || n - SPAN_BLOCK_HEADER < b->head.payload)
        return -EBADMSG;
    if (crc32c(0, start + 8, SPAN_BLOCK_HEADER - 8 + (size_t) b->head.payload) != b->head.crc)
        return -EBADMSG;
    r = array_reserve(b->strings, b->cap, (size_t) b->head.n_strings + 1, SPAN_BLOCK_MAX);
    return r < 0 ? r : read_parts(b, start + SPAN_BLOCK_HEADER, start + SPAN_BLOCK_HEADER + b->head.payload);
}

void span_block_done(struct span_block *b)
{
    mem_free(b->strings);
    *b = (struct span_block){0};
}

void span_block_row(const struct span_block *b, uint32_t i, struct span_row *ret)
{
    const uint8_t *p = span_block_raw(b, i), *who = b->senders + (size_t) load_u32(p + 52) * 12;

    memcpy(ret->link.trace_id, p, 16);
    memcpy(ret->link.span_id, p + 16, 8);
    memcpy(ret->parent, p + 24, 8);
    ret->start = (int64_t) load_u64(p + 32);
    ret->duration = (int64_t) load_u64(p + 40);
    ret->name = b->strings[load_u32(p + 48)];
    ret->service = b->strings[load_u32(who)];
    ret->version = b->strings[load_u32(who + 4)];
    ret->instance = b->strings[load_u32(who + 8)];
    ret->kind = p[56];
    ret->status = p[57];
}
