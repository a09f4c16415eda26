/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and looks up the traces of a segment; see segment_file.h. A trace spans many services and windows, so its
 * 16-byte ID is stored once per segment, and chunks refer to it by number.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "store/engines/segment/format/segment_writer.h"

uint32_t segment_trace_hash(const uint8_t id[16])
{
    return (uint32_t) hash_mix(load_u64(id) ^ 0xa0761d6478bd642full, load_u64(id + 8) ^ 0xe7037ed1a0b428dbull);
}

/* --- writing --- */

void trace_table_done(struct trace_table *t)
{
    mem_free(t->ids);
    mem_free(t->uses);
    mem_free(t->linked);
    map_done(&t->map);
    *t = (struct trace_table){0};
}

uint32_t trace_table_find(struct trace_table *t, const uint8_t id[16])
{
    uint64_t h = hash64(id, 16);

    for (struct map_pos p = map_find(&t->map, h); p.index != MAP_NONE; p = map_next(&t->map, p))
        if (memcmp(t->ids[p.index], id, 16) == 0)
            return p.index;
    if (array_reserve(t->ids, t->cap_ids, (size_t) t->n + 1, 1 << 28) < 0 || map_insert(&t->map, h, t->n) < 0)
        return UINT32_MAX;
    memcpy(t->ids[t->n], id, 16);
    return t->n++;
}

int trace_table_add_chunk(struct trace_table *t, uint64_t off, uint32_t len, const uint32_t *traces, uint32_t n)
{
    if (array_reserve(t->linked, t->cap_linked, (size_t) t->n_linked + 1, 1 << 28) < 0 ||
        array_reserve(t->uses, t->cap_uses, (size_t) t->n_uses + n, 1 << 30) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        t->uses[t->n_uses++] = (struct trace_use){traces[i], t->n_linked};
    t->linked[t->n_linked++] = (struct segment_linked){off, len};
    return 0;
}

struct hashed {
    uint32_t hash, trace;
};

static int hashed_cmp(const void *a, const void *b)
{
    const struct hashed *x = a, *y = b;

    return x->hash != y->hash ? (x->hash < y->hash ? -1 : 1) : x->trace < y->trace ? -1 : x->trace > y->trace;
}

/* Groups the chunks by trace, ascending: chunks[first[t] .. first[t + 1]). */
static void group_uses(const struct trace_table *t, uint32_t *first, uint32_t *chunks)
{
    for (uint32_t i = 0; i < t->n_uses; i++)
        first[t->uses[i].trace + 1]++;
    for (uint32_t i = 0; i < t->n; i++)
        first[i + 1] += first[i];
    for (uint32_t i = 0; i < t->n_uses; i++)
        chunks[first[t->uses[i].trace]++] = t->uses[i].chunk;
    for (uint32_t i = t->n; i > 0; i--) /* restores the start of each */
        first[i] = first[i - 1];
    first[0] = 0;
}

static void put_index_block(struct buf *b, const struct hashed *v, uint32_t n, const uint32_t *first,
                            const uint32_t *chunks)
{
    uint32_t hash = v[0].hash;

    put_varint(b, n);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t *c = chunks + first[v[i].trace], *end = chunks + first[v[i].trace + 1];
        uint32_t distinct = 0, last = 0;

        for (const uint32_t *k = c; k < end; k++)
            distinct += k == c || *k != k[-1];
        put_varint(b, v[i].hash - hash);
        hash = v[i].hash;
        put_varint(b, v[i].trace);
        put_varint(b, distinct);
        for (const uint32_t *k = c; k < end; k++)
            if (k == c || *k != k[-1]) {
                put_varint(b, *k - last);
                last = *k;
            }
    }
}

static int write_ids(struct segment_writer *w, struct buf *footer, struct err *e)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < w->traces.n; i += TRACE_BLOCK) {
        uint32_t n = MIN(w->traces.n - i, (uint32_t) TRACE_BLOCK);
        struct segment_block block;

        buf_reset(&w->scratch);
        buf_put(&w->scratch, w->traces.ids[i], (size_t) n * 16);
        r = segment_put_block(w, &w->scratch, &block, e);
        if (r == 0)
            segment_put_block_ref(footer, &block);
    }
    return r;
}

static int write_index(struct segment_writer *w, struct buf *footer, struct err *e)
{
    const struct trace_table *t = &w->traces;
    _cleanup_(mem_freep) struct hashed *v = mem_alloc((t->n + 1) * sizeof *v);
    _cleanup_(mem_freep) uint32_t *first = mem_zalloc_array(t->n + 2, sizeof *first);
    _cleanup_(mem_freep) uint32_t *chunks = mem_alloc((t->n_uses + 1) * sizeof *chunks);
    int r = v && first && chunks ? 0 : -ENOMEM;

    if (r < 0)
        return r;
    group_uses(t, first, chunks);
    for (uint32_t i = 0; i < t->n; i++)
        v[i] = (struct hashed){segment_trace_hash(t->ids[i]), i};
    qsort(v, t->n, sizeof *v, hashed_cmp);
    for (uint32_t i = 0; r == 0 && i < t->n; i += TRACE_BLOCK) {
        struct segment_block block;

        buf_reset(&w->scratch);
        put_index_block(&w->scratch, v + i, MIN(t->n - i, (uint32_t) TRACE_BLOCK), first, chunks);
        r = segment_put_block(w, &w->scratch, &block, e);
        put_u32(footer, v[i].hash);
        if (r == 0)
            segment_put_block_ref(footer, &block);
    }
    return r;
}

int segment_write_traces(struct segment_writer *w, struct buf *footer, struct err *e)
{
    uint64_t last = 0;
    int r = 0;

    put_varint(footer, w->traces.n);
    if (w->traces.n) {
        r = write_ids(w, footer, e);
        if (r == 0)
            r = write_index(w, footer, e);
    }
    put_varint(footer, w->traces.n_linked);
    for (uint32_t i = 0; i < w->traces.n_linked; i++) {
        put_varint(footer, w->traces.linked[i].off - last);
        put_varint(footer, w->traces.linked[i].len);
        last = w->traces.linked[i].off;
    }
    return r;
}

/* --- reading --- */

static int bad_index(const struct segment *s, struct err *e)
{
    return err_set(e, -EBADMSG, "segment %llu: its trace index is damaged", (unsigned long long) s->meta.number);
}

static int is_trace(struct segment *s, const struct segment_footer *f, uint32_t number, const uint8_t id[16],
                    struct err *e)
{
    _cleanup_(buf_done) struct buf raw = BUF_INIT;
    int r;

    if (number >= f->n_traces)
        return bad_index(s, e);
    r = segment_read_block(s, &f->trace_ids[number / TRACE_BLOCK], "its traces are damaged", &raw, e);
    if (r < 0)
        return r;
    if (raw.n < (number % TRACE_BLOCK + 1) * 16)
        return bad_index(s, e);
    return memcmp(raw.p + (size_t) (number % TRACE_BLOCK) * 16, id, 16) == 0;
}

void trace_block_init(struct trace_block *b, const void *p, size_t n, uint32_t first)
{
    *b = (struct trace_block){.r = cursor_of(p, n), .hash = first};
    b->left = get_below(&b->r, TRACE_BLOCK + 1);
}

int trace_block_next(struct trace_block *b)
{
    for (; b->n_chunks; b->n_chunks--)
        get_varint(&b->r);
    if (b->left && !b->r.bad) {
        b->left--;
        b->hash += (uint32_t) get_varint(&b->r);
        b->number = (uint32_t) get_varint(&b->r);
        b->n_chunks = get_below(&b->r, (uint64_t) (b->r.end - b->r.p) + 1);
        b->chunk = 0;
        return b->r.bad ? -EBADMSG : 1;
    }
    return b->r.bad ? -EBADMSG : 0;
}

int trace_block_chunk(struct trace_block *b, uint32_t n_linked, uint32_t *ret)
{
    if (!b->n_chunks)
        return 0;
    b->n_chunks--;
    b->chunk += get_below(&b->r, n_linked);
    *ret = b->chunk;
    return b->r.bad || b->chunk >= n_linked ? -EBADMSG : 1;
}

/* Searches one block. Returns 1 when the trace was found; its chunks come next. */
static int find_in_block(struct segment *s, const struct segment_footer *f, const uint8_t id[16], struct trace_block *b,
                         struct err *e)
{
    uint32_t want = segment_trace_hash(id);
    int r;

    while ((r = trace_block_next(b)) > 0)
        if (b->hash == want) {
            int is = is_trace(s, f, b->number, id, e);

            if (is != 0)
                return is;
        }
    return r < 0 ? bad_index(s, e) : 0;
}

/* Returns the first block that may contain the hash: the last one that begins below it. */
static uint32_t first_block(const struct segment_footer *f, uint32_t hash)
{
    uint32_t lo = 0, hi = (f->n_traces + TRACE_BLOCK - 1) / TRACE_BLOCK;

    while (hi - lo > 1) {
        uint32_t mid = (lo + hi) / 2;

        if (f->trace_first[mid] < hash)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

int segment_find_trace(struct segment *s, const uint8_t id[16], uint32_t *ret_number,
                       int (*fn)(void *ctx, uint64_t off, uint32_t len), void *ctx, struct err *e)
{
    const struct segment_footer *f;
    uint32_t hash = segment_trace_hash(id), blocks;
    int r = segment_footer(s, &f, e), found = 0;

    *ret_number = UINT32_MAX;
    if (r < 0 || !f->n_traces)
        return r;
    blocks = (f->n_traces + TRACE_BLOCK - 1) / TRACE_BLOCK;
    for (uint32_t b = first_block(f, hash); !found && b < blocks && f->trace_first[b] <= hash; b++) {
        _cleanup_(buf_done) struct buf raw = BUF_INIT;
        struct trace_block block;
        uint32_t chunk;
        int more;

        r = segment_read_block(s, &f->trace_index[b], "its trace index is damaged", &raw, e);
        if (r == 0)
            trace_block_init(&block, raw.p, raw.n, f->trace_first[b]);
        found = r < 0 ? r : find_in_block(s, f, id, &block, e);
        if (found <= 0)
            continue;
        *ret_number = block.number;
        while (r == 0 && (more = trace_block_chunk(&block, f->n_linked, &chunk)) != 0)
            r = more < 0 ? bad_index(s, e) : fn(ctx, f->linked[chunk].off, f->linked[chunk].len);
    }
    return found < 0 ? found : r;
}

int segment_trace_ids(struct segment *s, struct arena *a, const unsigned char **ret, uint32_t *ret_n, struct err *e)
{
    const struct segment_footer *f;
    const struct segment_block *last;
    unsigned char *ids;
    int r = segment_footer(s, &f, e);

    *ret = NULL;
    *ret_n = 0;
    if (r < 0 || !f->n_traces)
        return r;
    ids = arena_alloc(a, (size_t) f->n_traces * 16);
    if (!ids)
        return -ENOMEM;
    last = &f->trace_ids[(f->n_traces - 1) / TRACE_BLOCK]; /* they lie one after the other */
    if (last->off >= f->trace_ids[0].off)
        r = segment_prefetch(
            s, &(struct segment_range){f->trace_ids[0].off, (uint32_t) (last->off + last->len - f->trace_ids[0].off)},
            1, e);
    for (uint32_t i = 0; r == 0 && i < f->n_traces; i += TRACE_BLOCK) {
        _cleanup_(buf_done) struct buf raw = BUF_INIT;
        size_t n = MIN(f->n_traces - i, (uint32_t) TRACE_BLOCK) * 16;

        r = segment_read_block(s, &f->trace_ids[i / TRACE_BLOCK], "its traces are damaged", &raw, e);
        if (r == 0 && raw.n != n)
            r = err_set(e, -EBADMSG, "segment %llu: its traces are damaged", (unsigned long long) s->meta.number);
        if (r == 0)
            memcpy(ids + (size_t) i * 16, raw.p, n);
    }
    *ret = ids;
    *ret_n = f->n_traces;
    return r;
}
