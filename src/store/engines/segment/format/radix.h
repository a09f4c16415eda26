/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorting by numbers: (key, index) pairs, stable, so that several keys are sorted by one after the other, the least
 * important first. Digits in which no two keys differ cost nothing.
 */
#ifndef SEGMENT_RADIX_H
#define SEGMENT_RADIX_H

#include <stdint.h>

struct radix {
    uint64_t key;
    uint32_t index;
};

/* Ascending. tmp has room for n as well. */
void radix_sort(struct radix *a, struct radix *tmp, uint32_t n);

/* Order of signed numbers. */
static inline uint64_t radix_signed(int64_t v)
{
    return (uint64_t) v ^ 1ull << 63;
}

#endif
