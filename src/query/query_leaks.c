/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_leaks() of query.h: finds stacks whose in-use memory grows. The store answers with the values of every stack in
 * equal windows of the range (in-use memory is a gauge: each is an average over its window), and a straight line is
 * fitted through each stack's values.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "query/query_names.h"

/* Fits a line by least squares over window numbers; the slope is per hour. */
static struct query_leak fit_line(uint32_t node, const int64_t *values, int64_t window_ns)
{
    struct query_leak l = {.node = node};
    double n = QUERY_LEAK_WINDOWS, mx = (n - 1) / 2, my = 0, sxy = 0, sxx = 0, syy = 0;
    double *v = l.values;

    for (int i = 0; i < QUERY_LEAK_WINDOWS; i++)
        v[i] = (double) values[i];
    for (int i = 0; i < QUERY_LEAK_WINDOWS; i++)
        my += v[i] / n;
    for (int i = 0; i < QUERY_LEAK_WINDOWS; i++) {
        sxy += (i - mx) * (v[i] - my);
        sxx += (i - mx) * (i - mx);
        syy += (v[i] - my) * (v[i] - my);
    }
    l.slope = sxy / sxx * (3600.0 * NS_PER_S / (double) window_ns);
    l.fit = syy > 0 ? sxy * sxy / (sxx * syy) : 0;
    return l;
}

static int steepest_first(const void *a, const void *b)
{
    const struct query_leak *x = a, *y = b;

    if (x->slope != y->slope)
        return x->slope < y->slope ? 1 : -1;
    return (x->node > y->node) - (x->node < y->node);
}

static int rank(struct query_leaks *l, uint32_t limit)
{
    const struct tree *t = l->tree;

    l->rows = arena_zalloc_array(&l->arena, t->n_nodes, sizeof *l->rows);
    if (!l->rows)
        return -ENOMEM;
    for (uint32_t i = 1; i < t->n_nodes; i++) {
        struct query_leak x = fit_line(i, l->windows.values + (size_t) i * QUERY_LEAK_WINDOWS, l->window_ns);

        if (x.slope > 0)
            l->rows[l->n++] = x;
    }
    if (l->n)
        qsort(l->rows, l->n, sizeof *l->rows, steepest_first);
    if (limit && l->n > limit)
        l->n = limit;
    return 0;
}

int query_leaks(struct store *s, struct query *q, uint32_t limit, struct query_leaks *ret, struct err *e)
{
    struct store_query sq = q->q;
    int r;

    *ret = (struct query_leaks){0};
    arena_init(&ret->arena, 0);
    sq.columns[0] = q->q.columns[q->is_diff];
    sq.n_columns = 1;
    r = named_windows(&(struct named_store){s, q->names}, &sq, QUERY_LEAK_WINDOWS, &ret->windows, e);
    if (r == 0) {
        ret->tree = ret->windows.tree;
        ret->window_ns = ret->windows.width_ns;
        r = rank(ret, limit);
    }
    if (r < 0)
        query_leaks_done(ret);
    return r;
}

void query_leaks_done(struct query_leaks *l)
{
    store_windows_done(&l->windows);
    arena_done(&l->arena);
    *l = (struct query_leaks){0};
}
