/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which profiles were stored lately: at most `max` of them and none older than the window. A ring in order of arrival
 * with a hash index; belongs to one thread.
 *
 * A key is {start as it was sent, 63 bits over tenant, resource and content or profile id}. Of a key with a start the
 * catalogue keeps 40 of these bits: such a short key stands for every key of its start with them. Two profiles of one
 * tenant that start at the same nanosecond are taken for one with a chance of 2^-40.
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

/* As the catalogue has it. */
static inline struct id128 dedup_short(struct id128 key)
{
    return key.hi ? (struct id128){key.hi, key.lo & DEDUP_SHORT} : key;
}

void dedup_init(struct dedup *d, uint32_t max, int64_t window);
void dedup_done(struct dedup *d);
/* Soon it will be asked for: fetches its slot; second: the slot is there, what it points to is fetched. */
void dedup_ahead(const struct dedup *d, struct id128 key, bool second);
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
