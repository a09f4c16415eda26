/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing array whose elements never move: one thread appends, and any number of others read published elements
 * without a lock. Block k holds 64 << k elements, so the table of blocks is small and fixed.
 */
#ifndef SEGMENT_PINNED_H
#define SEGMENT_PINNED_H

#include <errno.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "base/paged.h"

enum { PINNED_BLOCKS = 25 };

struct pinned {
    void *_Atomic blocks[PINNED_BLOCKS];
    _Atomic uint32_t n; /* published */
    uint32_t elem;
    uint32_t out; /* blocks that are in a file (paged.h), a bit for each */
};

static inline void pinned_init(struct pinned *s, size_t elem)
{
    *s = (struct pinned){.elem = (uint32_t) elem};
}

static inline size_t pinned_block_size(const struct pinned *s, int block)
{
    return ((size_t) 64 << block) * s->elem;
}

static inline void pinned_done(struct pinned *s)
{
    for (int i = 0; i < PINNED_BLOCKS; i++)
        paged_put(atomic_load_explicit(&s->blocks[i], memory_order_relaxed), pinned_block_size(s, i));
}

static inline uint32_t pinned_count(const struct pinned *s)
{
    return atomic_load_explicit(&s->n, memory_order_acquire);
}

static inline void *pinned_at(const struct pinned *s, uint32_t i)
{
    uint32_t k = i + 64, block = 31 - (uint32_t) __builtin_clz(k);

    return (char *) atomic_load_explicit(&s->blocks[block - 6], memory_order_relaxed) +
           (size_t) (k - (1u << block)) * s->elem;
}

/* The place of element i, which may be beyond the published ones by at most one block. NULL when memory runs out. */
static inline void *pinned_place(struct pinned *s, uint32_t i)
{
    uint32_t k = i + 64, block = 31 - (uint32_t) __builtin_clz(k);

    if (block - 6 >= PINNED_BLOCKS)
        return NULL;
    if (!atomic_load_explicit(&s->blocks[block - 6], memory_order_relaxed)) {
        void *p = paged_get(pinned_block_size(s, (int) block - 6));

        if (!p)
            return NULL;
        atomic_store_explicit(&s->blocks[block - 6], p, memory_order_release);
    }
    return pinned_at(s, i);
}

/* The place of the next element, not published yet: fill it, then call pinned_publish(). NULL when memory runs out. */
static inline void *pinned_next(struct pinned *s)
{
    return pinned_place(s, atomic_load_explicit(&s->n, memory_order_relaxed));
}

static inline uint32_t pinned_publish(struct pinned *s)
{
    return atomic_fetch_add_explicit(&s->n, 1, memory_order_release);
}

#endif
