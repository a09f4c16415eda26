/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and reads parcels; see click_parcel.h. */
#include "store/engines/clickhouse/click_parcel.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"

/* Appends the block of a table: 1, 0 if it has no rows, or a negative errno. */
static int encode_table(const struct click_block *b, enum click_table t, struct buf *out)
{
    int r;

    if (t == CLICK_SAMPLES || t == CLICK_LINKS)
        return click_samples_encode(&b->sample_rows, t, out);
    if (!b->rows[t].n)
        return 0;
    r = click_rows_encode(&b->rows[t], out);
    return r < 0 ? r : 1;
}

int click_parcel_encode(const struct click_block *b, struct buf *out)
{
    int r = 0;

    buf_puts(out, "WCP1");
    put_u32(out, b->n_keys);
    for (uint32_t i = 0; i < b->n_keys; i++) {
        buf_putc(out, (char) b->keys[i].kind);
        put_u64(out, b->keys[i].key.hi);
        put_u64(out, b->keys[i].key.lo);
        put_u64(out, (uint64_t) b->keys[i].time);
    }
    for (int t = 0; r >= 0 && t < CLICK_TABLES; t++) {
        size_t at = out->n;
        uint64_t n;

        buf_putc(out, (char) t);
        put_u64(out, 0);
        r = encode_table(b, (enum click_table) t, out);
        if (r < 0 || buf_error(out))
            break;
        n = out->n - at - 9;
        if (r == 0)
            out->n = at;
        else
            store_u64((unsigned char *) out->p + at + 1, n);
    }
    return r < 0 ? r : buf_error(out);
}

int click_parcel_open(struct str parcel, struct click_block *keys, struct click_parcel_reader *ret)
{
    const unsigned char *magic;
    uint32_t n;
    int r = 0;

    ret->in = cursor_of(parcel.p, parcel.n);
    magic = get_raw(&ret->in, 4);
    if (!magic || memcmp(magic, "WCP1", 4) != 0)
        return -EBADMSG;
    n = get_u32(&ret->in);
    for (uint32_t i = 0; r == 0 && i < n && !ret->in.bad; i++) {
        const unsigned char *kind = get_raw(&ret->in, 1);
        struct id128 key = {get_u64(&ret->in), 0};
        int64_t time;

        key.lo = get_u64(&ret->in);
        time = (int64_t) get_u64(&ret->in);
        if (time < CLOCK_MIN || time > CLOCK_MAX)
            return -EBADMSG;
        if (keys && !ret->in.bad)
            r = dedup_add(*kind ? &keys->places : &keys->dedup, key, time);
    }
    return ret->in.bad ? -EBADMSG : r;
}

int click_parcel_next(struct click_parcel_reader *r, enum click_table *ret, struct str *ret_block)
{
    const unsigned char *table, *p;
    uint64_t n;

    if (r->in.p >= r->in.end)
        return 0;
    table = get_raw(&r->in, 1);
    n = get_u64(&r->in);
    if (r->in.bad || *table >= CLICK_TABLES || n > (uint64_t) (r->in.end - r->in.p))
        return -EBADMSG;
    p = get_raw(&r->in, (size_t) n);
    *ret = (enum click_table) * table;
    *ret_block = (struct str){(const char *) p, (uint32_t) n};
    return r->in.bad ? -EBADMSG : 1;
}
