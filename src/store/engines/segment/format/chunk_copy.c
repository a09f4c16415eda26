/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies a chunk into another segment; see chunk.h. Only its numbers of headers, attribute sets and traces are specific
 * to a segment and are rewritten; other columns and sections are copied unchanged, after their checksums are verified.
 */
#include <errno.h>

#include "base/err.h"
#include "store/engines/segment/format/chunk_encoder.h"
#include "store/engines/segment/format/column.h"

struct copying {
    struct chunk_encoder *c;
    const struct chunk_renumber *how;
    struct chunk_out *out;
    const unsigned char *from; /* of the section: end of what was copied */
};

static void copy_up_to(struct copying *k, struct buf *to, const unsigned char *end)
{
    buf_put(to, k->from, (size_t) (end - k->from));
    k->from = end;
}

/* Renumbers a column of differences to the previous value. Numbers from `limit` on are damage; those of traces are
 * listed. */
static int renumber(struct copying *k, struct cursor *r, struct buf *to, uint32_t (*number)(void *ctx, uint32_t),
                    uint64_t limit, bool is_trace)
{
    struct cursor in;
    uint64_t value = 0;
    uint32_t last = 0;

    copy_up_to(k, to, r->p);
    in = column_get(r, &k->c->arena);
    k->from = r->p;
    if (r->bad)
        return -EBADMSG;
    buf_reset(&k->c->column);
    while (in.p < in.end) {
        uint32_t v;

        value += (uint64_t) get_zigzag(&in);
        if (in.bad || value >= limit)
            return -EBADMSG;
        v = number(k->how->ctx, (uint32_t) value);
        if (v == UINT32_MAX)
            return -ENOMEM;
        put_zigzag(&k->c->column, (int64_t) v - last);
        last = v;
        if (is_trace &&
            array_reserve(k->out->traces, k->out->cap_traces, (size_t) k->out->n_traces + 1, UINT32_MAX) < 0)
            return -ENOMEM;
        if (is_trace)
            k->out->traces[k->out->n_traces++] = v;
    }
    column_put(k->c->zstd, to, &k->c->column, 1);
    return 0;
}

static void skip_columns(struct cursor *r, uint32_t n)
{
    while (n-- > 0)
        column_skip(r);
}

static int copy_profiles(struct copying *k, struct cursor *r, struct buf *to)
{
    get_varint(r); /* window */
    get_varint(r); /* entries */
    skip_columns(r, 5);
    return renumber(k, r, to, k->how->header, UINT32_MAX, false);
}

static int copy_extra(struct copying *k, struct cursor *r, struct buf *to)
{
    uint64_t n = get_varint(r), untimed = get_varint(r), lanes;

    if (untimed)
        skip_columns(r, 2);
    if (untimed < n) {
        skip_columns(r, 4);
        get_varint(r); /* unit */
        get_varint(r); /* period */
        lanes = get_varint(r);
        for (uint64_t i = 0; i < lanes && !r->bad; i++) {
            get_varint(r);
            get_varint(r);
        }
        skip_columns(r, 1);
        skip_columns(r, get_below(r, 9));
    }
    skip_columns(r, 2); /* values, known sets */
    return renumber(k, r, to, k->how->set, UINT32_MAX, false);
}

static int copy_section(struct copying *k, int section, const unsigned char *p, uint32_t n, struct buf *to)
{
    struct cursor r = cursor_of(p, n);
    int rc = 0;

    k->from = p;
    if (section == SEC_PROFILES)
        rc = copy_profiles(k, &r, to);
    else if (section == SEC_EXTRA)
        rc = copy_extra(k, &r, to);
    else if (section == SEC_LINKS && get_varint(&r))
        rc = renumber(k, &r, to, k->how->trace, k->how->n_traces, true);
    copy_up_to(k, to, p + n);
    return rc;
}

static int copy_sections(struct copying *k, const unsigned char *p, size_t n, struct err *e)
{
    struct buf *to = &k->out->bytes;
    unsigned char header[CHUNK_HEADER];
    size_t at = CHUNK_HEADER;
    int r = 0;

    memcpy(header, p, sizeof header);
    buf_put(to, header, sizeof header);
    for (int i = 0; r == 0 && i < SECTIONS; i++) {
        uint32_t size = load_u32(p + 8 + 12 * i), start = (uint32_t) to->n;

        if (size > n || at > n - size)
            return err_set(e, -EBADMSG, "a chunk is truncated");
        if (crc32c(0, p + at, size) != load_u32(p + 16 + 12 * i))
            return err_set(e, -EBADMSG, "section %d of a chunk has an invalid checksum", i);
        if (size)
            r = column_result(copy_section(k, i, p + at, size, to), &k->c->arena);
        if (r == 0)
            r = buf_error(to);
        if (r < 0)
            return r == -EBADMSG ? err_set(e, r, "a chunk's columns are damaged") : r;
        at += size;
        store_u32(header + 8 + 12 * i, (uint32_t) to->n - start);
        store_u32(header + 16 + 12 * i, crc32c(0, to->p + start, to->n - start));
        if (i == SEC_TOTALS)
            k->out->head = (uint32_t) to->n;
        if (i == SEC_LINKS)
            k->out->front = (uint32_t) to->n;
    }
    store_u32(header + 68, crc32c(0, header, 68));
    memcpy(to->p, header, sizeof header);
    return r;
}

int chunk_copy(struct chunk_encoder *c, const struct chunk_renumber *how, const void *bytes, size_t n,
               struct chunk_out *out, struct err *e)
{
    struct copying k = {.c = c, .how = how, .out = out};
    const unsigned char *p = bytes;

    arena_done(&c->arena);
    buf_reset(&out->bytes);
    out->n_entries = out->n_traces = 0;
    out->n_rows = 0;
    if (n < CHUNK_HEADER || load_u32(p) != CHUNK_MAGIC || crc32c(0, p, 68) != load_u32(p + 68) ||
        load_u32(p + 4) != (CHUNK_VERSION | SECTIONS << 16))
        return err_set(e, -EBADMSG, "a chunk's header is damaged");
    return copy_sections(&k, p, n, e);
}
