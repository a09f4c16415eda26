/* SPDX-License-Identifier: Apache-2.0 */
/* See chunk.h: lists of (node, value). */
#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "store/engines/segment/chunk.h"

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

        if (mem_grow((void **) &t->nodes, &cap, (size_t) t->n + 1, sizeof *t->nodes, UINT32_MAX) < 0 ||
            mem_grow((void **) &t->values, &cap2, (size_t) t->n + 1, sizeof *t->values, UINT32_MAX) < 0)
            return -ENOMEM;
        t->cap = cap;
    }
    t->nodes[t->n] = node;
    t->values[t->n++] = value;
    return 0;
}

struct pair {
    uint32_t node;
    int64_t value;
};

static int pair_cmp(const void *a, const void *b)
{
    uint32_t x = ((const struct pair *) a)->node, y = ((const struct pair *) b)->node;

    return x < y ? -1 : x > y;
}

int totals_normalize(struct totals *t)
{
    struct pair *p;
    uint32_t k = 0;
    bool sorted = true;

    for (uint32_t i = 1; i < t->n && sorted; i++)
        sorted = t->nodes[i - 1] < t->nodes[i];
    if (sorted)
        return 0;
    p = mem_alloc(t->n * sizeof *p);
    if (!p)
        return -ENOMEM;
    for (uint32_t i = 0; i < t->n; i++)
        p[i] = (struct pair){t->nodes[i], t->values[i]};
    qsort(p, t->n, sizeof *p, pair_cmp);
    for (uint32_t i = 0; i < t->n; i++) {
        if (k && t->nodes[k - 1] == p[i].node) {
            t->values[k - 1] += p[i].value;
        } else {
            t->nodes[k] = p[i].node;
            t->values[k++] = p[i].value;
        }
    }
    t->n = k;
    mem_free(p);
    return 0;
}
