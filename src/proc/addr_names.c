/* SPDX-License-Identifier: Apache-2.0 */
/* A table of named address ranges: adding, sorting, resolving overlaps and looking up. */
#include "proc/addr_names.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"

int addr_names_add(struct addr_names *t, uint64_t start, uint64_t size, struct str name)
{
    uint16_t n = (uint16_t) MIN(name.n, (uint32_t) ADDR_NAME_MAX);
    uint32_t at = (uint32_t) t->pool.n;
    int r = array_reserve(t->v, t->cap, t->n + 1, ADDR_NAMES_MAX);

    if (r < 0)
        return r;
    buf_put(&t->pool, &n, sizeof n);
    buf_put(&t->pool, name.p, n);
    r = buf_error(&t->pool);
    if (r < 0)
        return r;
    t->v[t->n++] = (struct addr_name){start, (uint32_t) MIN(size, (uint64_t) UINT32_MAX), at};
    return 0;
}

/* Names are added to the pool in order, so a larger offset means a later entry. */
static int compare(const void *a, const void *b)
{
    const struct addr_name *x = a, *y = b;

    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->name < y->name ? -1 : x->name > y->name;
}

void addr_names_order(struct addr_names *t)
{
    if (t->n)
        qsort(t->v, t->n, sizeof *t->v, compare);
}

/* Whether the ranges overlap; b must not begin before a. */
static bool overlap(const struct addr_name *a, const struct addr_name *b)
{
    return a->start == b->start || b->start - a->start < a->size;
}

/* A JIT reuses memory: a later entry replaces every earlier entry that it overlaps. */
void addr_names_sort(struct addr_names *t)
{
    size_t kept = 0;

    addr_names_order(t);
    for (size_t i = 0; i < t->n; i++) { /* the kept entries are sorted and do not overlap */
        const struct addr_name *e = &t->v[i];
        bool stale = false;

        while (kept && !stale && overlap(&t->v[kept - 1], e)) {
            stale = t->v[kept - 1].name > e->name;
            kept -= !stale;
        }
        if (!stale)
            t->v[kept++] = *e;
    }
    t->n = kept;
}

void addr_names_done(struct addr_names *t)
{
    mem_free(t->v);
    buf_done(&t->pool);
    *t = ADDR_NAMES_INIT;
}

bool addr_names_find(const struct addr_names *t, uint64_t address, struct str *ret_name, uint64_t *ret_start)
{
    size_t a = 0, z = t->n;
    const struct addr_name *e;
    uint16_t n;

    while (a < z) {
        size_t mid = (a + z) / 2;

        if (t->v[mid].start <= address)
            a = mid + 1;
        else
            z = mid;
    }
    if (!a)
        return false;
    e = &t->v[a - 1];
    if (e->size ? address - e->start >= e->size : a == t->n)
        return false;
    memcpy(&n, t->pool.p + e->name, sizeof n);
    *ret_name = (struct str){t->pool.p + e->name + sizeof n, n};
    if (ret_start)
        *ret_start = e->start;
    return true;
}
