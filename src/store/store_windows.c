/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_windows() for engines without an operation of their own (store_windows.h): the tree of each window is merged
 * into one common tree, and the values of each window are kept beside it.
 */
#include "store/store_windows.h"

#include <errno.h>

#include "base/mem.h"
#include "base/wrap.h"

struct merging {
    struct store_windows *out;
    size_t cap; /* of out->values */
};

/* Makes room for the values of n nodes; new ones are zero. */
static int make_room(struct merging *m, uint32_t n)
{
    size_t old = m->cap;
    int r = array_reserve(m->out->values, m->cap, (size_t) n * m->out->n, SIZE_MAX / sizeof(int64_t));

    if (r == 0 && m->cap > old)
        memset(m->out->values + old, 0, (m->cap - old) * sizeof *m->out->values);
    return r;
}

static int add_window(struct merging *m, const struct tree *t, uint32_t window)
{
    _cleanup_(mem_freep) uint32_t *at = mem_alloc(t->n_nodes * sizeof *at);
    _cleanup_(mem_freep) uint32_t *frames = mem_alloc(t->n_frames * sizeof *frames);
    struct store_windows *w = m->out;
    struct tree *common = w->tree;

    if (!at || !frames)
        return -ENOMEM;
    memset(frames, 0xff, t->n_frames * sizeof *frames);
    at[0] = 0;
    for (uint32_t i = 1; i < t->n_nodes; i++) {
        uint32_t *f = &frames[t->frame[i]];
        int64_t *v;

        if (*f == TREE_NONE)
            *f = tree_frame(common, &t->frames[t->frame[i]]);
        at[i] = *f == TREE_NONE ? TREE_NONE : tree_child(common, at[t->parent[i]], *f);
        if (at[i] == TREE_NONE || make_room(m, common->n_nodes) < 0)
            return -ENOMEM;
        v = &w->values[(size_t) at[i] * w->n + window];
        *v = wrap_add(*v, t->self[0][i]);
    }
    if (window == 0) {
        common->type = arena_str(&common->arena, t->type);
        common->unit = arena_str(&common->arena, t->unit);
    }
    return 0;
}

static int merge_windows(struct store *s, const struct store_query *q, struct store_windows *w, struct err *e)
{
    struct merging m = {.out = w};
    struct store_query sq = *q;
    int r = tree_new(2, q->memory_limit, &w->tree);

    if (r == 0)
        r = make_room(&m, 1);
    sq.n_columns = 1;
    sq.max_nodes = 0;
    sq.min_share = 0;
    for (uint32_t i = 0; r == 0 && i < w->n; i++) {
        _cleanup_(tree_freep) struct tree *t = NULL;

        sq.columns[0].from = w->from + i * w->width_ns;
        sq.columns[0].to = sq.columns[0].from + w->width_ns;
        r = s->ops->select(s, &sq, &t, e);
        if (r == 0)
            r = add_window(&m, t, i);
    }
    if (r < 0)
        return r;
    for (uint32_t i = 1; i < w->tree->n_nodes; i++) {
        w->tree->self[0][i] = w->values[(size_t) i * w->n];
        w->tree->self[1][i] = w->values[(size_t) i * w->n + w->n - 1];
    }
    tree_sum_up(w->tree);
    return 0;
}

int store_windows(struct store *s, const struct store_query *q, uint32_t n, struct store_windows *ret, struct err *e)
{
    const struct store_column *c = &q->columns[0];
    int r;

    *ret = (struct store_windows){.n = n, .from = c->from, .width_ns = (c->to - c->from) / n};
    if (ret->width_ns < 1)
        return err_set(e, -EINVAL, "the range of time is too short to be cut into %u windows", n);
    r = s->ops->windows ? s->ops->windows(s, q, ret, e) : merge_windows(s, q, ret, e);
    if (r < 0)
        store_windows_done(ret);
    return r;
}

void store_windows_done(struct store_windows *w)
{
    tree_free(w->tree);
    mem_free(w->values);
    *w = (struct store_windows){0};
}
