/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_leaks() of query.h: finds stacks whose in-use memory grows. The range is cut into equal windows; each window's
 * tree (in-use memory: a gauge, so an average over the window) is merged into one common tree, and a straight line is
 * fitted through every stack's values.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/wrap.h"
#include "query/query.h"

/* The values of every node of the common tree: one row of windows per node. */
struct grid {
    double (*v)[QUERY_LEAK_WINDOWS];
    size_t cap;
};

static int grid_room(struct grid *g, uint32_t n)
{
    size_t old = g->cap;
    int r = array_reserve(g->v, g->cap, n, UINT32_MAX);

    if (r == 0 && g->cap > old)
        memset(g->v + old, 0, (g->cap - old) * sizeof *g->v);
    return r;
}

/* Adds the values of t to the common tree. */
static int add_window(struct tree *common, struct grid *g, const struct tree *t, int window)
{
    _cleanup_(mem_freep) uint32_t *at = mem_alloc(t->n_nodes * sizeof *at);
    _cleanup_(mem_freep) uint32_t *frames = mem_alloc(t->n_frames * sizeof *frames);
    int r;

    if (!at || !frames)
        return -ENOMEM;
    memset(frames, 0xff, t->n_frames * sizeof *frames);
    at[0] = 0;
    for (uint32_t i = 1; i < t->n_nodes; i++) {
        uint32_t *f = &frames[t->frame[i]];

        if (*f == TREE_NONE)
            *f = tree_frame(common, &t->frames[t->frame[i]]);
        at[i] = *f == TREE_NONE ? TREE_NONE : tree_child(common, at[t->parent[i]], *f);
        if (at[i] == TREE_NONE)
            return -ENOMEM;
        r = grid_room(g, common->n_nodes);
        if (r < 0)
            return r;
        g->v[at[i]][window] += (double) t->self[0][i];
    }
    return 0;
}

/* Fits a line by least squares over window numbers; the slope is per hour. */
static struct query_leak fit_line(uint32_t node, const double *v, int64_t window_ns)
{
    struct query_leak l = {.node = node};
    double n = QUERY_LEAK_WINDOWS, mx = (n - 1) / 2, my = 0, sxy = 0, sxx = 0, syy = 0;

    for (int i = 0; i < QUERY_LEAK_WINDOWS; i++)
        my += v[i] / n;
    for (int i = 0; i < QUERY_LEAK_WINDOWS; i++) {
        sxy += (i - mx) * (v[i] - my);
        sxx += (i - mx) * (i - mx);
        syy += (v[i] - my) * (v[i] - my);
    }
    memcpy(l.values, v, sizeof l.values);
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

static int rank(struct query_leaks *l, const struct grid *g, uint32_t limit)
{
    struct tree *t = l->tree;

    l->rows = arena_zalloc_array(&l->arena, t->n_nodes, sizeof *l->rows);
    if (!l->rows)
        return -ENOMEM;
    for (uint32_t i = 1; i < t->n_nodes; i++) {
        struct query_leak x = fit_line(i, g->v[i], l->window_ns);

        t->self[0][i] = clamp_double(g->v[i][0]);
        t->self[1][i] = clamp_double(g->v[i][QUERY_LEAK_WINDOWS - 1]);
        if (x.slope > 0)
            l->rows[l->n++] = x;
    }
    if (l->n)
        qsort(l->rows, l->n, sizeof *l->rows, steepest_first);
    if (limit && l->n > limit)
        l->n = limit;
    tree_sum_up(t);
    return 0;
}

static int fill(struct store *s, struct query *q, struct query_leaks *l, struct grid *g, struct store_notes *notes,
                struct err *e)
{
    const struct store_column *whole = &q->q.columns[q->is_diff];
    struct store_query sq = q->q;
    int r = 0;

    sq.n_columns = 1;
    sq.max_nodes = 0;
    sq.min_share = 0;
    for (int w = 0; r == 0 && w < QUERY_LEAK_WINDOWS; w++) {
        _cleanup_(tree_freep) struct tree *t = NULL;
        int64_t from = whole->from + w * l->window_ns;

        sq.columns[0] = (struct store_column){whole->selector, from, from + l->window_ns};
        r = s->ops->select(s, &sq, &t, notes, e);
        if (r == 0)
            r = add_window(l->tree, g, t, w);
        if (r == 0 && w == 0) {
            l->tree->type = arena_str(&l->tree->arena, t->type);
            l->tree->unit = arena_str(&l->tree->arena, t->unit);
        }
    }
    return r;
}

int query_leaks(struct store *s, struct query *q, uint32_t limit, struct query_leaks *ret, struct store_notes *notes,
                struct err *e)
{
    const struct store_column *c = &q->q.columns[q->is_diff];
    struct grid g = {0};
    int r;

    *ret = (struct query_leaks){.window_ns = (c->to - c->from) / QUERY_LEAK_WINDOWS};
    arena_init(&ret->arena, 0);
    if (ret->window_ns < 1)
        return err_set(e, -EINVAL, "the range of time is too short to see growth in it");
    r = tree_new(2, q->q.memory_limit, &ret->tree);
    if (r == 0)
        r = grid_room(&g, 1);
    if (r == 0)
        r = fill(s, q, ret, &g, notes, e);
    if (r == 0)
        r = rank(ret, &g, limit);
    mem_free(g.v);
    if (r < 0)
        query_leaks_done(ret);
    return r;
}

void query_leaks_done(struct query_leaks *l)
{
    tree_free(l->tree);
    arena_done(&l->arena);
    *l = (struct query_leaks){0};
}
