/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of one type, summed by (stack, attributes, link) until they are consumed by an export or by a request for
 * /debug/pprof/profile. There are at most `limit` entries; further samples are added to one entry whose stack is
 * "[truncated]", so that totals stay right. Background thread only.
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
};

struct agg {
    struct agg_entry *v;
    uint32_t *frames;
    uint8_t *bytes;
    size_t n, cap, n_frames, cap_frames, n_bytes, cap_bytes;
    struct map index;
    uint32_t limit;
    uint64_t overflow; /* samples that went to "[truncated]" */
};

void agg_init(struct agg *a, uint32_t limit);
void agg_done(struct agg *a);
void agg_reset(struct agg *a); /* empties it, but keeps a small allocation */
/* Adds a record's stack and context with two values. */
void agg_add(struct agg *a, const struct ring_record *r, const uint32_t *frames, uint32_t n, int64_t v0, int64_t v1);

#endif
