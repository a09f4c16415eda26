/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remembers which profiles were stored recently: at most `max` of them and none older than the window. A ring in order
 * of arrival with a hash index; belongs to one thread.
 *
 * A key is {start as it was sent, a 63-bit hash of tenant, resource and content or profile ID}. For a key with a start,
 * the catalogue keeps 40 of these bits; such a short key matches every key with the same start and these bits. The
 * probability that two profiles of one tenant that start at the same nanosecond are taken for one is 2^-40.
 */
#ifndef STORE_DEDUP_H
#define STORE_DEDUP_H

#include <stdbool.h>

#include "base/hash.h"

struct dedup_entry {
    struct id128 key;
    int64_t time_ns; /* received */
};

struct dedup {
    struct dedup_entry *ring; /* cap = max rounded up as it grows */
    uint32_t *slots;          /* index into ring + 1, linear probing; 0 = free */
    uint32_t n, head, cap, n_slots, max;
    int64_t window;
};

#define DEDUP_SHORT ((1ull << 40) - 1)

static inline struct id128 dedup_key(int64_t start, struct id128 content)
{
    return (struct id128){(uint64_t) start, (content.hi ^ content.lo << 1) | 1ull << 63};
}

/* The short form of a key that the catalogue stores. */
static inline struct id128 dedup_short(struct id128 key)
{
    return key.hi ? (struct id128){key.hi, key.lo & DEDUP_SHORT} : key;
}

void dedup_init(struct dedup *d, uint32_t max, int64_t window);
void dedup_done(struct dedup *d);
/* Prefetches for a lookup that follows soon: the slot or, with `second`, the entry that the slot points to. */
void dedup_ahead(const struct dedup *d, struct id128 key, bool second);
bool dedup_has(const struct dedup *d, struct id128 key);
/* Adds a key; the oldest ones are evicted. On -ENOMEM, the key is not added. */
int dedup_add(struct dedup *d, struct id128 key, int64_t time_ns);
/* The i-th entry, oldest first. */
static inline const struct dedup_entry *dedup_at(const struct dedup *d, uint32_t i)
{
    uint32_t k = d->head + i;

    return &d->ring[k >= d->cap ? k - d->cap : k];
}

#endif
