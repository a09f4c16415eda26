/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the merged tree of a query; see engine.h. A service's sums (gather.h) are mapped to the view's nodes and
 * pruned to what the answer can show, and the rest is merged into the answer.
 */
#include <errno.h>

#include "base/mem.h"
#include "base/wrap.h"
#include "model/moved.h"
#include "store/engines/segment/read/fold.h"
#include "store/engines/segment/read/gather.h"
#include "store/frames.h"

struct selecting {
    struct gather gather;
    struct tree *out;
    struct fold fold;
    /* of the current view, reused for the next */
    uint32_t *live, *parent, *frame;
    int64_t *self[2], *total[2];
    size_t cap_scratch;
};

/* Makes room for a view of n nodes in the arrays that are reused for every service. */
static int grow_scratch(struct selecting *x, uint32_t n)
{
    void **arrays[] = {(void **) &x->live,    (void **) &x->parent,   (void **) &x->frame,   (void **) &x->self[0],
                       (void **) &x->self[1], (void **) &x->total[0], (void **) &x->total[1]};

    if (n <= x->cap_scratch)
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(arrays); i++) {
        void *p = mem_realloc_array(*arrays[i], n + n / 4, i < 3 ? sizeof(uint32_t) : sizeof(int64_t));

        if (!p)
            return -ENOMEM;
        *arrays[i] = p;
    }
    x->cap_scratch = n + n / 4;
    return 0;
}

/* Makes a tree of the view's nodes that have values: in a given hour most have none, and the following steps cost time
 * per node. The frames stay those of the view. */
static void make_live_tree(struct selecting *x, const struct gather *g, const struct sym_view *v, struct tree *ret)
{
    uint32_t columns = g->scan.q->n_columns, n = 1;

    memset(x->live, 0, v->n_nodes * sizeof *x->live);
    for (uint32_t c = 0; c < columns; c++)
        for (uint32_t i = 0; i < g->n_nodes; i++)
            x->live[v->map[i]] |= g->acc[c][i] != 0;
    for (uint32_t i = v->n_nodes; i-- > 1;)
        x->live[v->parent[i]] |= x->live[i];
    x->live[0] = 0;
    x->parent[0] = x->frame[0] = TREE_NONE;
    for (uint32_t i = 1; i < v->n_nodes; i++) {
        if (!x->live[i])
            continue;
        x->parent[n] = x->live[v->parent[i]];
        x->frame[n] = v->frame[i];
        x->live[i] = n++;
    }
    *ret = (struct tree){.frames = v->frames,
                         .n_frames = v->n_frames,
                         .parent = x->parent,
                         .frame = x->frame,
                         .n_nodes = n,
                         .n_columns = columns};
    for (uint32_t c = 0; c < columns; c++) {
        memset(x->self[c], 0, n * sizeof *x->self[c]);
        for (uint32_t i = 0; i < g->n_nodes; i++)
            if (g->acc[c][i])
                wrap_inc(&x->self[c][x->live[v->map[i]]], g->acc[c][i]);
        ret->self[c] = x->self[c];
        ret->total[c] = x->total[c];
    }
    tree_sum_up(ret);
}

static int fold_service(void *ctx, struct gather *g)
{
    struct selecting *x = ctx;
    const struct store_query *q = g->scan.q;
    struct sym_service *service = sym_service(g->sym->symbols, g->service);
    _cleanup_(tree_freep) struct tree *part = NULL, *matched = NULL;
    bool filtered = q->focus.n || q->ignore.n || q->hide.n || q->n_zoom;
    struct tree_prune how = {.max_nodes = filtered ? 0 : gather_part_nodes(g)};
    struct tree live;
    struct sym_view *v;
    int r = view_lock(g->sym->symbols, service, q->by, q->no_inlines, g->n_nodes, &v);

    if (r < 0)
        return r;
    if (q->n_columns == 1) {
        struct fold_sums sums = {g->acc[0], g->n_nodes, g->few ? g->touched : NULL, g->n_touched};

        r = fold_into(&x->fold, v, &sums, how.max_nodes, x->out);
        if (r != 0) {
            view_unlock(service);
            return MIN(r, 0);
        }
    }
    r = grow_scratch(x, v->n_nodes);
    if (r == 0) {
        make_live_tree(x, g, v, &live);
        if (!filtered &&
            q->by == BY_FILEFUNCTION) /* before anything is cut: the two halves of what moved have half the value */
            r = tree_match_moved(&live, q->memory_limit, &matched);
        if (r == 0)
            r = tree_prune_live(matched ? matched : &live, &how, &part);
    }
    view_unlock(service);
    for (uint32_t c = 0; r == 0 && c < q->n_columns; c++)
        r = tree_merge_selfs(x->out, c, part, c);
    return r;
}

static void selecting_done(struct selecting *x)
{
    fold_done(&x->fold);
    mem_free(x->live);
    mem_free(x->parent);
    mem_free(x->frame);
    for (int c = 0; c < 2; c++) {
        mem_free(x->self[c]);
        mem_free(x->total[c]);
    }
    tree_free(x->out);
    gather_done(&x->gather);
}

int engine_select(struct store *s, const struct store_query *q, struct tree **ret, struct err *e)
{
    _cleanup_(selecting_done) struct selecting x = {0};
    int r = gather_init(&x.gather, to_engine(s), q, e);

    if (r == 0)
        r = tree_new(q->n_columns, q->memory_limit, &x.out);
    if (r == 0)
        r = gather_run(&x.gather, fold_service, &x);
    if (r < 0)
        return r;
    x.out->type = x.gather.type;
    x.out->unit = x.gather.unit;
    tree_sum_up(x.out);
    return frames_finish_tree(TAKE(x.out), q, ret, e);
}
