/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stable sort of (key, index) pairs by key. To sort by several keys, sort by one after the other, the least
 * significant first. Digits in which no two keys differ cost nothing.
 */
#ifndef SEGMENT_RADIX_H
#define SEGMENT_RADIX_H

#include <stdint.h>

struct radix {
    uint64_t key;
    uint32_t index;
};

/* Sorts in ascending order. tmp has room for n as well. */
void radix_sort(struct radix *a, struct radix *tmp, uint32_t n);

/* Maps signed numbers to keys of the same order. */
static inline uint64_t radix_signed(int64_t v)
{
    return (uint64_t) v ^ 1ull << 63;
}

#endif
