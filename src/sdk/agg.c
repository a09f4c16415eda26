/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of samples (agg.h): a hash map over entries, whose frames and attributes lie in two bounded pools. */
#include "sdk/agg.h"

#include <string.h>

#include "base/clock.h"
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
    mem_free(a->times);
    map_done(&a->index);
    *a = (struct agg){.limit = a->limit, .timed = a->timed};
}

void agg_reset(struct agg *a)
{
    uint64_t overflow = a->overflow;

    if (a->cap > KEEP || a->cap_times > KEEP)
        agg_done(a);
    map_reset(&a->index);
    a->n = a->n_frames = a->n_bytes = a->n_times = 0;
    a->overflow = overflow;
}

/* What a sum is of. */
struct agg_key {
    const struct ring_record *r;
    const uint32_t *frames;
    uint32_t n;
    int32_t thread;
};

static bool same(const struct agg *a, const struct agg_entry *e, const struct agg_key *k)
{
    const struct ring_record *r = k->r;

    return e->n == k->n && e->thread == k->thread && e->attrs_n == r->attrs && e->flags == (r->flags & RECORD_LINK) &&
           !memcmp(a->frames + e->stack, k->frames, k->n * sizeof *k->frames) &&
           !memcmp(a->bytes + e->attrs, r->pc + r->n, r->attrs) &&
           (!(e->flags & RECORD_LINK) || (!memcmp(e->trace_id, r->trace_id, sizeof e->trace_id) &&
                                          !memcmp(e->span_id, r->span_id, sizeof e->span_id)));
}

static uint64_t hash_of(const struct agg_key *k)
{
    const struct ring_record *r = k->r;
    uint64_t h = hash64(k->frames, k->n * sizeof *k->frames);

    if (r->attrs)
        h = hash_mix(h, hash64(r->pc + r->n, r->attrs));
    if (r->flags & RECORD_LINK)
        h = hash_mix(h ^ 1, hash64(r->trace_id, sizeof r->trace_id) ^ hash64(r->span_id, sizeof r->span_id));
    return k->thread ? hash_mix(h ^ 2, (uint64_t) k->thread) : h;
}

static struct agg_entry *append(struct agg *a, uint64_t h, const struct agg_key *k)
{
    const struct ring_record *r = k->r;
    struct agg_entry *e;

    if (array_reserve(a->v, a->cap, a->n + 1, a->limit + 1ul) < 0 ||
        array_reserve(a->frames, a->cap_frames, a->n_frames + k->n, FRAMES_POOL_MAX) < 0 ||
        array_reserve(a->bytes, a->cap_bytes, a->n_bytes + r->attrs, BYTES_MAX) < 0 ||
        map_insert(&a->index, h, (uint32_t) a->n) < 0)
        return NULL;
    e = &a->v[a->n++];
    *e = (struct agg_entry){.stack = (uint32_t) a->n_frames,
                            .n = k->n,
                            .attrs = (uint32_t) a->n_bytes,
                            .attrs_n = r->attrs,
                            .flags = r->flags & RECORD_LINK,
                            .thread = k->thread};
    memcpy(e->trace_id, r->trace_id, sizeof e->trace_id);
    memcpy(e->span_id, r->span_id, sizeof e->span_id);
    memcpy(a->frames + a->n_frames, k->frames, k->n * sizeof *k->frames);
    memcpy(a->bytes + a->n_bytes, r->pc + r->n, r->attrs);
    a->n_frames += k->n;
    a->n_bytes += r->attrs;
    return e;
}

/* Finds the entry, or appends it while there are fewer than max. */
static struct agg_entry *entry_of(struct agg *a, const struct agg_key *k, size_t max)
{
    uint64_t h = hash_of(k);

    for (struct map_pos p = map_find(&a->index, h); p.index != MAP_NONE; p = map_next(&a->index, p))
        if (same(a, &a->v[p.index], k))
            return &a->v[p.index];
    return a->n < max ? append(a, h, k) : NULL;
}

/* Keeps the time of a sample, if it is known and there is room. */
static void add_time(struct agg *a, struct agg_entry *e, uint64_t time_ms, int64_t value)
{
    int64_t since;

    if (!a->n_times)
        a->epoch_ms = time_ms;
    since = (int64_t) (time_ms - a->epoch_ms);
    if (!time_ms || since != (int32_t) since ||
        array_reserve(a->times, a->cap_times, a->n_times + 1, AGG_TIMES_MAX) < 0)
        return;
    a->times[a->n_times++] = (struct agg_time){value, e->first_time, (int32_t) since};
    e->first_time = (uint32_t) a->n_times;
    e->n_times++;
}

int64_t agg_earliest(const struct agg *a)
{
    int64_t earliest = INT64_MAX;

    for (size_t i = 0; i < a->n_times; i++)
        earliest = MIN(earliest, ((int64_t) a->epoch_ms + a->times[i].time_ms) * NS_PER_MS);
    return earliest;
}

void agg_add(struct agg *a, const struct ring_record *r, const uint32_t *frames, uint32_t n, int64_t v0, int64_t v1)
{
    static const struct ring_record plain;
    static const uint32_t truncated = FRAME_TRUNCATED;
    struct agg_key k = {r, frames, n, a->timed ? a->thread : 0};
    struct agg_entry *e = entry_of(a, &k, k.thread ? a->limit / 2 : a->limit);

    if (!e && k.thread) {
        k.thread = 0;
        e = entry_of(a, &k, a->limit);
    }
    if (!e) {
        a->overflow++;
        e = entry_of(a, &(struct agg_key){&plain, &truncated, 1, 0}, a->limit + 1ul);
        if (!e)
            return;
    }
    e->value[0] += v0;
    e->value[1] += v1;
    if (a->timed)
        add_time(a, e, record_time_ms(r), v1);
}
