/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of the trace IDs of blocks; see span_traces.h. */
#include "span/span_traces.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "span/span_block.h"

enum {
    BITS_PER_TRACE = 12,
    PROBES = 5, /* with 12 bits, 1 block in 200 is read although it has no span of the trace */
    BLOCKS_MAX = 1 << 24,
};

uint64_t span_trace_hash(const uint8_t trace_id[16])
{
    return hash64(trace_id, 16);
}

/* Bit i of a hash in a filter of n bits: two halves of the hash make as many as are needed. */
static inline uint32_t bit_of(uint64_t hash, uint32_t i, uint32_t n)
{
    uint32_t x = (uint32_t) hash + i * ((uint32_t) (hash >> 32) | 1);

    return (uint32_t) (((uint64_t) x * n) >> 32);
}

bool span_trace_block_has(const struct span_trace_block *b, uint64_t hash)
{
    for (uint32_t i = 0; i < PROBES; i++) {
        uint32_t bit = bit_of(hash, i, b->n_words * 32);

        if (!(b->words[bit / 32] >> bit % 32 & 1))
            return false;
    }
    return true;
}

void span_traces_add(struct span_traces *t, uint64_t at, const struct span_head *h, const void *p)
{
    const uint8_t *rows = (const uint8_t *) p + SPAN_BLOCK_HEADER + h->payload - (size_t) h->n_rows * SPAN_BLOCK_ROW;
    struct span_trace_block *b;
    uint32_t traces = 0, words;

    for (uint32_t i = 0; i < h->n_rows; i++) /* the spans of a trace are often neighbours */
        traces +=
            i == 0 || memcmp(rows + (size_t) i * SPAN_BLOCK_ROW, rows + (size_t) (i - 1) * SPAN_BLOCK_ROW, 16) != 0;
    words = (traces * BITS_PER_TRACE + 63) / 32;
    b = mem_zalloc(sizeof *b + words * sizeof b->words[0]);
    if (!b || array_reserve(t->v, t->cap, (size_t) t->n + 1, BLOCKS_MAX) < 0) {
        mem_free(b);
        t->partial = true;
        return;
    }
    b->at = at;
    b->n_words = words;
    for (uint32_t i = 0; i < h->n_rows; i++) {
        uint64_t hash = span_trace_hash(rows + (size_t) i * SPAN_BLOCK_ROW);

        for (uint32_t k = 0; k < PROBES; k++) {
            uint32_t bit = bit_of(hash, k, words * 32);

            b->words[bit / 32] |= 1u << bit % 32;
        }
    }
    t->v[t->n++] = b;
}

void span_traces_add_all(struct span_traces *t, uint64_t at, const void *blocks, size_t n)
{
    const char *p = blocks;

    while (n >= SPAN_BLOCK_HEADER) {
        struct span_head h;
        size_t size;

        if (span_head_read(p, &h) < 0 || h.payload > n - SPAN_BLOCK_HEADER) {
            t->partial = true;
            return;
        }
        span_traces_add(t, at, &h, p);
        size = SPAN_BLOCK_HEADER + (size_t) h.payload;
        p += size;
        at += size;
        n -= size;
    }
}

void span_traces_join(struct span_traces *t, struct span_traces *more)
{
    t->partial |= more->partial;
    if (array_reserve(t->v, t->cap, (size_t) t->n + more->n, BLOCKS_MAX) < 0) {
        t->partial = true;
        span_traces_done(more);
        return;
    }
    for (uint32_t i = 0; i < more->n; i++)
        t->v[t->n++] = more->v[i];
    more->n = 0;
    span_traces_done(more);
}

void span_traces_done(struct span_traces *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        mem_free(t->v[i]);
    mem_free(t->v);
    *t = (struct span_traces){0};
}
