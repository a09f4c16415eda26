/* SPDX-License-Identifier: Apache-2.0 */
/* Radix sort, least significant digit first; small arrays are sorted by insertion. See radix.h. */
#include "store/engines/segment/format/radix.h"

#include <string.h>

#include "base/macros.h"

enum { FEW = 24, MANY = 4096, DIGIT_FEW = 8, DIGIT_MANY = 11 };

static void insert_sort(struct radix *a, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        struct radix x = a[i];
        uint32_t k = i;

        for (; k > 0 && a[k - 1].key > x.key; k--)
            a[k] = a[k - 1];
        a[k] = x;
    }
}

/* Sorts by one digit from `from` to `to`. */
static void sort_digit(const struct radix *from, struct radix *to, uint32_t n, int shift, int bits)
{
    _uninit_ uint32_t count[1 << DIGIT_MANY];
    uint32_t size = 1u << bits, at = 0;
    uint64_t mask = size - 1;

    memset(count, 0, size * sizeof *count);
    for (uint32_t i = 0; i < n; i++)
        count[from[i].key >> shift & mask]++;
    for (uint32_t i = 0; i < size; i++) {
        uint32_t c = count[i];

        count[i] = at;
        at += c;
    }
    for (uint32_t i = 0; i < n; i++)
        to[count[from[i].key >> shift & mask]++] = from[i];
}

void radix_sort(struct radix *a, struct radix *tmp, uint32_t n)
{
    int bits = n < MANY ? DIGIT_FEW : DIGIT_MANY;
    uint64_t differ = 0, mask = (1ull << bits) - 1;
    struct radix *from = a, *to = tmp;

    if (n <= FEW) {
        insert_sort(a, n);
        return;
    }
    for (uint32_t i = 1; i < n; i++)
        differ |= a[i].key ^ a[0].key;
    for (int shift = 0; shift < 64 && differ >> shift; shift += bits) {
        struct radix *swap = from;

        if (!(differ >> shift & mask))
            continue;
        sort_digit(from, to, n, shift, bits);
        from = to;
        to = swap;
    }
    if (from != a)
        memcpy(a, from, n * sizeof *a);
}
