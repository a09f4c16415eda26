/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampled allocations: which are made and which are still in use, by stack.
 *
 * Each thread counts bytes down from an exponentially distributed number with mean `interval`; the allocation that
 * crosses zero is sampled. An allocation of s bytes is thus sampled with probability 1 - exp(-s / interval), and stands
 * for the inverse of that: counts and bytes are right for each size, and readers must not scale them again.
 *
 * free() looks up one bit in a counting filter to see whether the pointer may be a sampled one. If so, it searches the
 * table of live samples. Filter and table grow with the number of samples. Everything but the filter is guarded by one
 * lock, which is taken for sampled pointers only.
 */
#ifndef SDK_HEAP_H
#define SDK_HEAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

/* One bit per slot for free() to test, small enough to stay in the cache; after them one counter per slot, for
 * updates. */
struct heap_filter {
    uint32_t shift; /* 64 - log2(size) */
    uint32_t size;  /* slots */
    uint8_t bits[]; /* size / 8 bytes of bits, then size counters */
};

extern _Atomic(struct heap_filter *) heap_filter;
extern __thread int64_t heap_countdown; /* bytes until the next sample; 0 in a new thread */

/* heap_hooks.c: the malloc() that the hooks call. */
void *heap_allocator(void);

int heap_start(uint64_t interval, bool in_use);
void heap_stop(void); /* ends sampling; live samples are forgotten */
/* main() has ended: what is in use now stays in the profile, whatever destructors and handlers of exit() free. */
void heap_main_ended(void);

/* The slow paths of the hooks. heap_decide() is called with the countdown below zero and returns true if this
 * allocation is to be sampled. */
bool heap_decide(size_t size);
void heap_record(void *p, size_t size);
/* p may be sampled: forgets it. */
void heap_forget(void *p);

/* A live sample. */
struct heap_live {
    uintptr_t p; /* 0 = none */
    uint32_t stack;
    uint32_t count; /* weight in 1/65536, saturated */
    uint64_t bytes;
};

/* For realloc(), which may fail and leave the block as it was: heap_take() forgets p and returns its sample,
 * heap_put_back() restores it. */
void heap_take(void *p, struct heap_live *ret);
void heap_put_back(const struct heap_live *l);
/* Sampling begins: at once on the calling thread, on others when they next check. */
void heap_begin_thread(void);
/* The calling thread is libwick's own: its allocations are in no profile. */
void heap_exclude_thread(void);

static inline uint32_t heap_hash(const struct heap_filter *f, const void *p)
{
    return (uint32_t) ((((uintptr_t) p >> 4) * 0x9e3779b97f4a7c15ull) >> f->shift);
}

/* To be called before a pointer is freed. */
static inline bool heap_may_be_sampled(const void *p)
{
    const struct heap_filter *f = atomic_load_explicit(&heap_filter, memory_order_relaxed);

    uint32_t h;

    if (!f)
        return false;
    h = heap_hash(f, p);
    return __atomic_load_n(&f->bits[h >> 3], __ATOMIC_RELAXED) >> (h & 7) & 1;
}

/* To be called before an allocation: true if it is to be recorded. */
static inline bool heap_crosses(size_t n)
{
    return unlikely((heap_countdown -= (int64_t) n) < 0) && heap_decide(n);
}

/* --- reading, background only --- */
struct heap_stack {
    uint32_t off, n; /* program counters in the pool, leaf first */
    uint32_t generation;
    uint8_t flags;
    uint64_t hash;
    uint64_t alloc_count, alloc_bytes; /* counts in 1/65536 */
    uint64_t live_count, live_bytes;
    uint64_t peak_bytes; /* live_bytes when all stacks together had the most */
    uint64_t peak;       /* which peak that was (heap.c) */
};

uint32_t heap_stacks(void);
/* A copy of stack i's numbers and, if pc is not NULL, its frames (at most CORE_DEPTH_MAX). */
void heap_stack_at(uint32_t i, struct heap_stack *ret, uint64_t *pc);
uint64_t heap_live_samples(void);
uint64_t heap_lost(void); /* stacks or live samples for which there was no room */
uint64_t heap_samples(void);
/* Around fork(). */
void heap_fork_prepare(void);
void heap_fork_done(void);

#endif
