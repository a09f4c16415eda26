/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which profiles were stored lately: 128-bit keys of (tenant, resource, profile id, types), at most `max` of them and
 * none older than the window. A ring in order of arrival with a hash index; belongs to one thread.
 * The catalogue keeps the first half of each key; such a one is {hi, 0} here and stands for every key with that half.
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

void dedup_init(struct dedup *d, uint32_t max, int64_t window);
void dedup_done(struct dedup *d);
bool dedup_has(const struct dedup *d, struct id128 key);
/* Adds a key; the oldest give way. -ENOMEM leaves it out. */
int dedup_add(struct dedup *d, struct id128 key, int64_t time_ns);
/* The i-th, oldest first. */
static inline const struct dedup_entry *dedup_at(const struct dedup *d, uint32_t i)
{
    uint32_t k = d->head + i;

    return &d->ring[k >= d->cap ? k - d->cap : k];
}

#endif
