/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which waits are sampled and how much waiting a sampled one represents: the rule of heap.h, applied to
 * nanoseconds. */
#ifndef SDK_WAIT_SAMPLE_H
#define SDK_WAIT_SAMPLE_H

#include <math.h>
#include <stdbool.h>

#include "sdk/core.h"

/* A wait of ns: returns true if it is sampled; it then represents *ret_ns and *ret_count (in 1/65536) of its kind. */
static inline bool wait_is_sampled(struct thr *t, int64_t *countdown, int64_t ns, uint64_t mean, uint64_t *ret_ns,
                                   uint64_t *ret_count)
{
    double weight;
    uint64_t x;

    if (ns <= 0 || (*countdown -= ns) >= 0)
        return false;
    x = t->rng;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    t->rng = x;
    *countdown = 1 + (int64_t) (-log((double) ((x * 0x2545f4914f6cdd1dull >> 11) + 1) * 0x1p-53) * (double) mean);
    weight = -1 / expm1(-(double) ns / (double) mean);
    *ret_ns = (uint64_t) (weight * (double) ns + 0.5);
    *ret_count = (uint64_t) (weight * 65536 + 0.5);
    return true;
}

#endif
