/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of blobs and their encoding; see blobs.h. The contents of a blob are in blob_values.c. */
#include "store/engines/segment/format/blobs.h"

#include <errno.h>

enum { DEF_COUNTS = 0x7f, GAP_MAX = 1 << 24 };

int blobs_init(struct blobs *b)
{
    static _Atomic uint64_t serial;

    *b = (struct blobs){.serial = 1 + atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed)};
    arena_init(&b->arena, 0);
    for (int k = 0; k < BLOB_KINDS; k++)
        pinned_init(&b->tables[k], sizeof(struct str));
    for (int k = 0; k < BLOB_KINDS; k++)
        if (blobs_put(b, k, (struct str){0}) == UINT32_MAX)
            return -ENOMEM;
    return 0;
}

void blobs_done(struct blobs *b)
{
    for (int k = 0; k < BLOB_KINDS; k++) {
        pinned_done(&b->tables[k]);
        map_done(&b->maps[k]);
    }
    arena_done(&b->arena);
    buf_done(&b->defs);
    buf_done(&b->scratch);
    buf_done(&b->scratch2);
}

size_t blobs_bytes(const struct blobs *b)
{
    size_t n = sizeof *b + b->arena.used;

    for (int k = 0; k < BLOB_KINDS; k++) {
        for (uint32_t i = 0; i < PINNED_BLOCKS; i++)
            if (atomic_load_explicit(&b->tables[k].blocks[i], memory_order_relaxed))
                n += ((size_t) 64 << i) * b->tables[k].elem;
        n += b->maps[k].slots ? (b->maps[k].mask + (size_t) 1) * sizeof *b->maps[k].slots : 0;
    }
    return n;
}

/* Copies the bytes to the place of the next number, which is not published yet. */
static bool place(struct blobs *b, enum blob_kind kind, struct str bytes)
{
    struct str *at = pinned_next(&b->tables[kind]), copy = arena_str(&b->arena, bytes);

    if (!at || (bytes.n && !copy.p))
        return false;
    *at = copy;
    return true;
}

static uint32_t add(struct blobs *b, enum blob_kind kind, struct str bytes, uint64_t hash)
{
    if (b->recording && !buf_reserve(&b->defs, bytes.n + 16)) {
        b->defs.err = 0; /* definitions appended before are complete */
        return UINT32_MAX;
    }
    if (!place(b, kind, bytes) || map_insert(&b->maps[kind], hash, pinned_count(&b->tables[kind])) < 0)
        return UINT32_MAX;
    if (b->recording) {
        buf_putc(&b->defs, (char) (kind + 1));
        put_bytes(&b->defs, bytes.p, bytes.n);
    }
    return pinned_publish(&b->tables[kind]);
}

uint32_t blobs_put(struct blobs *b, enum blob_kind kind, struct str bytes)
{
    uint64_t h = hash64_str(bytes);

    for (struct map_pos p = map_find(&b->maps[kind], h); p.index != MAP_NONE; p = map_next(&b->maps[kind], p))
        if (str_eq(*(struct str *) pinned_at(&b->tables[kind], p.index), bytes))
            return p.index;
    return add(b, kind, bytes, h);
}

void blobs_put_start(const struct blobs *b, struct buf *out)
{
    buf_putc(out, DEF_COUNTS);
    for (int k = 0; k < BLOB_KINDS; k++)
        put_varint(out, pinned_count(&b->tables[k]));
}

static int apply_counts(struct blobs *b, struct cursor *r)
{
    for (int k = 0; k < BLOB_KINDS; k++) {
        uint32_t n = get_below(r, GAP_MAX);

        if (r->bad || n < pinned_count(&b->tables[k]))
            return -EINVAL;
        while (pinned_count(&b->tables[k]) < n) { /* lost blobs are empty, and never found by their bytes */
            if (!place(b, k, (struct str){0}))
                return -ENOMEM;
            pinned_publish(&b->tables[k]);
        }
    }
    return 0;
}

int blobs_apply(struct blobs *b, const void *p, size_t n)
{
    struct cursor r = cursor_of(p, n);
    bool before = b->recording;
    int rc = 0;

    b->recording = false;
    while (rc == 0 && r.p < r.end) {
        uint8_t op = *r.p++;

        if (op == DEF_COUNTS) {
            rc = apply_counts(b, &r);
        } else if (op >= 1 && op <= BLOB_KINDS) {
            struct str bytes = get_bytes(&r);

            rc = r.bad ? -EINVAL : add(b, op - 1, bytes, hash64_str(bytes)) == UINT32_MAX ? -ENOMEM : 0;
        } else {
            rc = -EINVAL;
        }
    }
    b->recording = before;
    return rc;
}

void blobs_encode(const struct blobs *b, struct buf *out)
{
    for (int k = 0; k < BLOB_KINDS; k++) {
        uint32_t n = pinned_count(&b->tables[k]);

        put_varint(out, n);
        for (uint32_t i = 1; i < n; i++) {
            struct str s = blobs_get(b, k, i);

            put_bytes(out, s.p, s.n);
        }
    }
}

int blobs_decode(struct blobs *b, const void *p, size_t n)
{
    struct cursor r = cursor_of(p, n);

    for (int k = 0; k < BLOB_KINDS; k++) {
        uint32_t count = get_below(&r, (uint64_t) n + 2);

        for (uint32_t i = 1; i < count; i++) {
            struct str bytes = get_bytes(&r);

            if (r.bad)
                return -EINVAL;
            if (!place(b, k, bytes))
                return -ENOMEM;
            pinned_publish(&b->tables[k]); /* read-only: nothing is looked up by its bytes */
        }
    }
    return r.bad || r.p != r.end ? -EINVAL : 0;
}

/* --- remapping --- */

int blob_remap_init(struct blob_remap *m, const struct blobs *from, struct blobs *to)
{
    m->from = from;
    m->to = to;
    m->attrs = mem_zalloc_array(pinned_count(&from->tables[BLOB_ATTR]) + 1, sizeof *m->attrs);
    m->sets = mem_zalloc_array(pinned_count(&from->tables[BLOB_SET]) + 1, sizeof *m->sets);
    m->headers = mem_zalloc_array(pinned_count(&from->tables[BLOB_HEADER]) + 1, sizeof *m->headers);
    return m->attrs && m->sets && m->headers ? 0 : -ENOMEM;
}

void blob_remap_done(struct blob_remap *m)
{
    mem_free(m->attrs);
    mem_free(m->sets);
    mem_free(m->headers);
}

static uint32_t remap_attr(struct blob_remap *m, uint32_t attr)
{
    if (attr >= pinned_count(&m->from->tables[BLOB_ATTR]))
        return 0;
    if (!m->attrs[attr])
        m->attrs[attr] = blobs_put(m->to, BLOB_ATTR, blobs_get(m->from, BLOB_ATTR, attr)) + 1;
    return m->attrs[attr] - 1;
}

uint32_t blob_remap_set(struct blob_remap *m, uint32_t set)
{
    struct str bytes;
    struct cursor r;
    uint32_t n;

    if (!set || set >= pinned_count(&m->from->tables[BLOB_SET]))
        return 0;
    if (m->sets[set])
        return m->sets[set] - 1;
    bytes = blobs_get(m->from, BLOB_SET, set);
    r = cursor_of(bytes.p, bytes.n);
    n = get_below(&r, bytes.n + 1);
    buf_reset(&m->to->scratch);
    put_varint(&m->to->scratch, n);
    while (n-- > 0 && !r.bad) {
        uint32_t a = remap_attr(m, get_below(&r, UINT32_MAX));

        if (a == UINT32_MAX)
            return UINT32_MAX;
        put_varint(&m->to->scratch, a);
    }
    if (buf_error(&m->to->scratch) < 0)
        return UINT32_MAX;
    m->sets[set] = blobs_put(m->to, BLOB_SET, buf_str(&m->to->scratch)) + 1;
    return m->sets[set] - 1;
}

static uint32_t remap_mappings(struct blob_remap *m, uint32_t mappings)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct str bytes = blobs_get(m->from, BLOB_MAPPINGS, mappings);
    struct cursor r = cursor_of(bytes.p, bytes.n);
    uint32_t n = mappings ? get_below(&r, bytes.n + 1) : 0;

    if (!n)
        return 0;
    put_varint(&out, n);
    while (n-- > 0 && !r.bad) {
        struct str name = get_bytes(&r);
        uint32_t set;

        put_bytes(&out, name.p, name.n);
        for (int k = 0; k < 3; k++)
            put_varint(&out, get_varint(&r));
        set = blob_remap_set(m, get_below(&r, UINT32_MAX));
        if (set == UINT32_MAX)
            return UINT32_MAX;
        put_varint(&out, set);
    }
    return buf_error(&out) < 0 ? UINT32_MAX : r.bad ? 0 : blobs_put(m->to, BLOB_MAPPINGS, buf_str(&out));
}

uint32_t blob_remap_header(struct blob_remap *m, uint32_t header)
{
    struct blob_header h;

    if (!header || header >= pinned_count(&m->from->tables[BLOB_HEADER]))
        return 0;
    if (m->headers[header])
        return m->headers[header] - 1;
    if (!blobs_read_header(m->from, header, &h))
        return 0;
    h.attrs = blob_remap_set(m, h.attrs);
    h.resource = blobs_put(m->to, BLOB_RESOURCE, blobs_get(m->from, BLOB_RESOURCE, h.resource));
    h.scope = blobs_put(m->to, BLOB_SCOPE, blobs_get(m->from, BLOB_SCOPE, h.scope));
    h.mappings = remap_mappings(m, h.mappings);
    h.payload = h.payload ? blobs_put(m->to, BLOB_PAYLOAD, blobs_get(m->from, BLOB_PAYLOAD, h.payload)) : 0;
    if (h.mappings == UINT32_MAX || h.payload == UINT32_MAX)
        return UINT32_MAX;
    if (h.attrs == UINT32_MAX || h.resource == UINT32_MAX || h.scope == UINT32_MAX)
        return UINT32_MAX;
    m->headers[header] = blobs_header(m->to, &h) + 1;
    return m->headers[header] - 1;
}
