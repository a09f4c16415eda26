/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of one type, summed by (stack, attributes, link) until they are consumed by an export or by a request for
 * /debug/pprof/profile. There are at most `limit` entries; further samples are added to one entry whose stack is
 * "[truncated]", so that totals stay right. Background thread only.
 *
 * Where `timed` is set, sums are also by thread, and the time of each sample is kept, as far as there is room: beyond
 * half of the entries further ones are of no particular thread, and beyond AGG_TIMES_MAX samples have no time.
 */
#ifndef SDK_AGG_H
#define SDK_AGG_H

#include "base/map.h"
#include "sdk/core.h"

struct agg_entry {
    uint32_t stack, n; /* frame numbers in agg.frames, leaf first */
    uint32_t attrs;    /* offset in agg.bytes */
    uint16_t attrs_n;
    uint8_t flags; /* RECORD_LINK: trace_id and span_id are set */
    uint8_t trace_id[16], span_id[8];
    int64_t value[2];
    int32_t thread;      /* its kernel id; 0 = none in particular */
    uint32_t first_time; /* in agg.times, + 1; 0 = none */
    uint32_t n_times;
};

enum { AGG_TIMES_MAX = 1 << 15 };

/* A sample whose time is known. */
struct agg_time {
    int64_t value;   /* of value[1] of its entry */
    uint32_t next;   /* of the same entry, + 1; the newest is the first */
    int32_t time_ms; /* since agg.epoch_ms */
};

struct agg {
    struct agg_entry *v;
    uint32_t *frames;
    uint8_t *bytes;
    size_t n, cap, n_frames, cap_frames, n_bytes, cap_bytes;
    struct map index;
    bool timed;     /* set after agg_init() */
    int32_t thread; /* of the samples that are added next */
    struct agg_time *times;
    size_t n_times, cap_times;
    uint64_t epoch_ms;
    uint32_t limit;
    uint64_t overflow; /* samples that went to "[truncated]" */
};

void agg_init(struct agg *a, uint32_t limit);
void agg_done(struct agg *a);
void agg_reset(struct agg *a); /* empties it, but keeps a small allocation */
/* Adds a record's stack and context with two values; agg.thread is its thread. */
void agg_add(struct agg *a, const struct ring_record *r, const uint32_t *frames, uint32_t n, int64_t v0, int64_t v1);
/* The time of the earliest sample whose time is known, in nanoseconds; INT64_MAX: there is none. */
int64_t agg_earliest(const struct agg *a);

#endif
