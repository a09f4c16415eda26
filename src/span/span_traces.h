/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which blocks of a file of the span index may have spans of a trace: a Bloom filter of the trace IDs of each block, in memory (about
 * 1.5 bytes per trace and block). The filters are made when blocks are appended, and again when the index is opened. Without memory for one the list is
 * `partial`, and the whole file is read instead.
 */
#ifndef SPAN_SPAN_TRACES_H
#define SPAN_SPAN_TRACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct span_head;

struct span_trace_block {
    uint64_t at;      /* of the block in the file */
    uint32_t n_words; /* of 32 bits */
    uint32_t words[];
};

struct span_traces {
    struct span_trace_block **v; /* in the order of the file */
    uint32_t n;
    size_t cap;
    bool partial;
};

/* Adds a block; p: header and payload, whose numbers are right. */
void span_traces_add(struct span_traces *t, uint64_t at, const struct span_head *h, const void *p);
/* Adds the blocks that begin at this place of the file. */
void span_traces_add_all(struct span_traces *t, uint64_t at, const void *blocks, size_t n);
/* Appends `more`, which is empty afterwards. */
void span_traces_join(struct span_traces *t, struct span_traces *more);
void span_traces_done(struct span_traces *t);

uint64_t span_trace_hash(const uint8_t trace_id[16]);
/* False: the block has no span of the trace with this hash. */
bool span_trace_block_has(const struct span_trace_block *b, uint64_t hash);

#endif
