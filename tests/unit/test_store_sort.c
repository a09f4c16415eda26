/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the sorting and the map of numbers of the store: radix.h against qsort, idmap.h against the entries put in. */
#include <stdlib.h>

#include "store/engines/segment/symbols/idmap.h"
#include "store/engines/segment/format/radix.h"
#include "tap.h"

static uint64_t state = 88172645463325252ull;

static uint64_t rnd(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static int radix_cmp(const void *a, const void *b)
{
    const struct radix *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static bool sorts_like_qsort(uint32_t n, uint64_t mask)
{
    struct radix *a = mem_alloc((2 * (size_t) n + 1) * sizeof *a), *want = mem_alloc((n + 1) * sizeof *want);
    bool same = true;

    for (uint32_t i = 0; i < n; i++)
        want[i] = a[i] = (struct radix){rnd() & mask, i};
    radix_sort(a, a + n, n);
    qsort(want, n, sizeof *want, radix_cmp);
    for (uint32_t i = 0; i < n && same; i++)
        same = a[i].key == want[i].key && a[i].index == want[i].index;
    mem_free(a);
    mem_free(want);
    return same;
}

static void test_radix(void)
{
    static const uint32_t sizes[] = {0, 1, 2, 24, 25, 1000, 4095, 4096, 20000};
    static const uint64_t masks[] = {0, 1, 0xff, 0x7ff00, 0xff00000000000000ull, 0x80000000000001ull, ~0ull};
    bool all = true;

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
        for (size_t k = 0; k < ARRAY_SIZE(masks); k++)
            all = all && sorts_like_qsort(sizes[i], masks[k]);
    ok(all);
    ok(radix_signed(-1) < radix_signed(0) && radix_signed(INT64_MIN) < radix_signed(-1) &&
       radix_signed(0) < radix_signed(INT64_MAX));
}

static void test_idmap(void)
{
    struct idmap m = {0};
    bool all = true;

    ok(idmap_find(&m, (struct id128){1, 2}) == UINT32_MAX);
    for (uint32_t i = 0; i < 5000; i++)
        all = all && idmap_put(&m, (struct id128){i % 7, i}, i) == 0;
    for (uint32_t i = 0; i < 5000; i++)
        all = all && idmap_find(&m, (struct id128){i % 7, i}) == i;
    ok(all);
    ok(idmap_find(&m, (struct id128){8, 0}) == UINT32_MAX);
    idmap_done(&m);
}

int main(void)
{
    tap_run(test_radix);
    tap_run(test_idmap);
    return tap_done();
}
