/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last values of cumulative profiles (Go's allocs, mutex and block as they are scraped), per instance, type and
 * stack, to turn them into deltas. The first profile of an instance is a base and counts as nothing. A counter that
 * decreased was reset with its process: its value is the delta. When the sum of a profile decreased, the whole process
 * was restarted.
 *
 * The table is bounded: when the limit is reached, everything is dropped and every instance gets a new base. Belongs to
 * one thread.
 */
#ifndef STORE_CUMULATIVE_H
#define STORE_CUMULATIVE_H

#include <stdbool.h>

#include "base/hash.h"
#include "base/map.h"

struct cumulative {
    struct cumulative_entry *entries;
    size_t cap;
    uint32_t n;
    struct map map;
};

void cumulative_done(struct cumulative *c);
/* values holds the n values of one profile, one per stack; each stack occurs once. They become deltas in place. Returns
 * 1 when they did, 0 when this was the base and they are all zero, or -ENOMEM with nothing remembered. */
int cumulative_difference(struct cumulative *c, struct id128 instance_and_type, const struct id128 *stacks,
                          int64_t *values, uint32_t n);

#endif
