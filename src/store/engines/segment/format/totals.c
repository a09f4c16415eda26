/* SPDX-License-Identifier: Apache-2.0 */
/* Sorted lists of (node, value), which chunks store as totals; see chunk.h. */
#include <errno.h>

#include "base/mem.h"
#include "base/wrap.h"
#include "store/engines/segment/format/chunk.h"
#include "store/engines/segment/format/radix.h"

void totals_done(struct totals *t)
{
    mem_free(t->nodes);
    mem_free(t->values);
    *t = (struct totals){0};
}

int totals_add(struct totals *t, uint32_t node, int64_t value)
{
    if (unlikely(t->n == t->cap)) {
        size_t cap = t->cap, cap2 = t->cap;

        if (array_reserve(t->nodes, cap, (size_t) t->n + 1, UINT32_MAX) < 0 ||
            array_reserve(t->values, cap2, (size_t) t->n + 1, UINT32_MAX) < 0)
            return -ENOMEM;
        t->cap = cap;
    }
    t->nodes[t->n] = node;
    t->values[t->n++] = value;
    return 0;
}

int totals_normalize(struct totals *t)
{
    _cleanup_(mem_freep) struct radix *keys = NULL;
    _cleanup_(mem_freep) int64_t *values = NULL;
    uint32_t k = 0;
    bool sorted = true;

    for (uint32_t i = 1; i < t->n && sorted; i++)
        sorted = t->nodes[i - 1] < t->nodes[i];
    if (sorted)
        return 0;
    keys = mem_alloc(2 * (size_t) t->n * sizeof *keys);
    values = mem_dup(t->values, t->n * sizeof *values);
    if (!keys || !values)
        return -ENOMEM;
    for (uint32_t i = 0; i < t->n; i++)
        keys[i] = (struct radix){t->nodes[i], i};
    radix_sort(keys, keys + t->n, t->n);
    for (uint32_t i = 0; i < t->n; i++) {
        if (k && t->nodes[k - 1] == keys[i].key) {
            wrap_inc(&t->values[k - 1], values[keys[i].index]);
        } else {
            t->nodes[k] = (uint32_t) keys[i].key;
            t->values[k++] = values[keys[i].index];
        }
    }
    t->n = k;
    return 0;
}
