/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of samples (agg.h): a hash map over entries, whose frames and attributes lie in two bounded pools. */
#include "sdk/agg.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "sdk/frame_table.h"

enum { FRAMES_POOL_MAX = 1 << 24, BYTES_MAX = 1 << 24, KEEP = 4096 };

void agg_init(struct agg *a, uint32_t limit)
{
    *a = (struct agg){.limit = limit};
}

void agg_done(struct agg *a)
{
    mem_free(a->v);
    mem_free(a->frames);
    mem_free(a->bytes);
    map_done(&a->index);
    agg_init(a, a->limit);
}

void agg_reset(struct agg *a)
{
    uint64_t overflow = a->overflow;

    if (a->cap > KEEP)
        agg_done(a);
    map_reset(&a->index);
    a->n = a->n_frames = a->n_bytes = 0;
    a->overflow = overflow;
}

static bool same(const struct agg *a, const struct agg_entry *e, const struct ring_record *r, const uint32_t *frames,
                 uint32_t n)
{
    return e->n == n && e->attrs_n == r->attrs && e->flags == (r->flags & RECORD_LINK) &&
           !memcmp(a->frames + e->stack, frames, n * sizeof *frames) &&
           !memcmp(a->bytes + e->attrs, r->pc + r->n, r->attrs) &&
           (!(e->flags & RECORD_LINK) || (!memcmp(e->trace_id, r->trace_id, sizeof e->trace_id) &&
                                          !memcmp(e->span_id, r->span_id, sizeof e->span_id)));
}

static uint64_t hash_of(const struct ring_record *r, const uint32_t *frames, uint32_t n)
{
    uint64_t h = hash64(frames, n * sizeof *frames);

    if (r->attrs)
        h = hash_mix(h, hash64(r->pc + r->n, r->attrs));
    if (r->flags & RECORD_LINK)
        h = hash_mix(h ^ 1, hash64(r->trace_id, sizeof r->trace_id) ^ hash64(r->span_id, sizeof r->span_id));
    return h;
}

static struct agg_entry *append(struct agg *a, uint64_t h, const struct ring_record *r, const uint32_t *frames,
                                uint32_t n)
{
    struct agg_entry *e;

    if (array_reserve(a->v, a->cap, a->n + 1, a->limit + 1ul) < 0 ||
        array_reserve(a->frames, a->cap_frames, a->n_frames + n, FRAMES_POOL_MAX) < 0 ||
        array_reserve(a->bytes, a->cap_bytes, a->n_bytes + r->attrs, BYTES_MAX) < 0 ||
        map_insert(&a->index, h, (uint32_t) a->n) < 0)
        return NULL;
    e = &a->v[a->n++];
    *e = (struct agg_entry){.stack = (uint32_t) a->n_frames,
                            .n = n,
                            .attrs = (uint32_t) a->n_bytes,
                            .attrs_n = r->attrs,
                            .flags = r->flags & RECORD_LINK};
    memcpy(e->trace_id, r->trace_id, sizeof e->trace_id);
    memcpy(e->span_id, r->span_id, sizeof e->span_id);
    memcpy(a->frames + a->n_frames, frames, n * sizeof *frames);
    memcpy(a->bytes + a->n_bytes, r->pc + r->n, r->attrs);
    a->n_frames += n;
    a->n_bytes += r->attrs;
    return e;
}

static struct agg_entry *find(struct agg *a, uint64_t h, const struct ring_record *r, const uint32_t *frames,
                              uint32_t n)
{
    for (struct map_pos p = map_find(&a->index, h); p.index != MAP_NONE; p = map_next(&a->index, p))
        if (same(a, &a->v[p.index], r, frames, n))
            return &a->v[p.index];
    return NULL;
}

void agg_add(struct agg *a, const struct ring_record *r, const uint32_t *frames, uint32_t n, int64_t v0, int64_t v1)
{
    static const struct ring_record plain;
    static const uint32_t truncated = FRAME_TRUNCATED;
    uint64_t h = hash_of(r, frames, n);
    struct agg_entry *e = find(a, h, r, frames, n);

    if (!e && a->n < a->limit)
        e = append(a, h, r, frames, n);
    if (!e) {
        a->overflow++;
        h = hash_of(&plain, &truncated, 1);
        e = find(a, h, &plain, &truncated, 1);
        if (!e)
            e = append(a, h, &plain, &truncated, 1);
        if (!e)
            return;
    }
    e->value[0] += v0;
    e->value[1] += v1;
}
