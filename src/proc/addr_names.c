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

/* Merges v[n_old] to v[n - 1] into those before, both sorted. */
static void merge(struct addr_name *v, size_t n_old, size_t n)
{
    size_t k = n - n_old, i = n_old, at = n;
    struct addr_name *added = n_old && k ? mem_alloc(k * sizeof *added) : NULL;

    if (!added) {
        if (n_old && k)
            qsort(v, n, sizeof *v, compare);
        return;
    }
    memcpy(added, v + n_old, k * sizeof *added);
    while (k) {
        bool old = i && compare(&v[i - 1], &added[k - 1]) > 0;

        v[--at] = old ? v[--i] : added[--k];
    }
    mem_free(added);
}

/* A JIT reuses memory: a later entry replaces every earlier entry that it overlaps. */
size_t addr_names_merge(struct addr_name *v, size_t n_old, size_t n)
{
    size_t kept = 0;

    if (n == n_old)
        return n;
    qsort(v + n_old, n - n_old, sizeof *v, compare);
    merge(v, n_old, n);
    for (size_t i = 0; i < n; i++) { /* the kept entries are sorted and do not overlap */
        bool stale = false;

        while (kept && !stale && overlap(&v[kept - 1], &v[i])) {
            stale = v[kept - 1].name > v[i].name;
            kept -= !stale;
        }
        if (!stale)
            v[kept++] = v[i];
    }
    return kept;
}

void addr_names_sort(struct addr_names *t)
{
    t->n = addr_names_merge(t->v, 0, t->n);
}

void addr_names_done(struct addr_names *t)
{
    mem_free(t->v);
    buf_done(&t->pool);
    *t = ADDR_NAMES_INIT;
}

const struct addr_name *addr_names_at(const struct addr_name *v, size_t n, uint64_t address)
{
    size_t a = 0, z = n;

    while (a < z) {
        size_t mid = (a + z) / 2;

        if (v[mid].start <= address)
            a = mid + 1;
        else
            z = mid;
    }
    if (!a || (v[a - 1].size ? address - v[a - 1].start >= v[a - 1].size : a == n))
        return NULL;
    return &v[a - 1];
}

bool addr_names_find(const struct addr_names *t, uint64_t address, struct str *ret_name, uint64_t *ret_start)
{
    const struct addr_name *e = addr_names_at(t->v, t->n, address);
    uint16_t n;

    if (!e)
        return false;
    memcpy(&n, t->pool.p + e->name, sizeof n);
    *ret_name = (struct str){t->pool.p + e->name + sizeof n, n};
    if (ret_start)
        *ret_start = e->start;
    return true;
}
