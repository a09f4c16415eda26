/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree_prune(): copies a tree, keeping at most what a view can show. Nodes are kept by weight, the largest |total| of a
 * node or of anything below it in any column; a parent never weighs less than its child, so the kept nodes are
 * connected.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "model/tree.h"

struct pruning {
    const struct tree *src;
    uint64_t *weight;
    uint32_t *first, *next; /* children of kept nodes, as lists */
    uint32_t *cut;          /* per node: nodes cut below it */
    int64_t *cut_total[2];
    uint8_t *keep;
    bool live_only;
};

static uint64_t magnitude(int64_t v)
{
    return v < 0 ? 0 - (uint64_t) v : (uint64_t) v;
}

static void weigh(struct pruning *p)
{
    const struct tree *t = p->src;

    bool negative = false;

    for (uint32_t i = 0; i < t->n_nodes; i++) {
        negative |= t->self[0][i] < 0;
        p->weight[i] = magnitude(t->total[0][i]);
        if (t->n_columns > 1) {
            negative |= t->self[1][i] < 0;
            p->weight[i] = MAX(p->weight[i], magnitude(t->total[1][i]));
        }
    }
    if (!negative) /* a parent's total is at least its child's: nothing to pass up */
        return;
    for (uint32_t i = t->n_nodes; i-- > 1;)
        p->weight[t->parent[i]] = MAX(p->weight[t->parent[i]], p->weight[i]);
}

/* Returns the k-th largest (0-based) of v and reorders v: Hoare's selection. */
static uint64_t kth_largest(uint64_t *v, uint32_t n, uint32_t k)
{
    uint32_t lo = 0, hi = n - 1;

    while (lo < hi) {
        uint64_t pivot = v[lo + (hi - lo) / 2];
        uint32_t i = lo, j = hi;

        for (;;) {
            while (v[i] > pivot)
                i++;
            while (v[j] < pivot)
                j--;
            if (i <= j) {
                uint64_t t = v[i];

                v[i++] = v[j];
                v[j] = t;
                if (j == 0)
                    break;
                j--;
            }
            if (i > j)
                break;
        }
        if (k <= j)
            hi = j;
        else if (k >= i)
            lo = i;
        else
            break;
    }
    return v[k];
}

/* Keeps the max_nodes heaviest candidates: all above the cut weight, and as many of exactly that weight as fit, in node
 * order, which takes parents first. */
static int keep_heaviest(struct pruning *p, uint32_t max_nodes)
{
    uint32_t n = p->src->n_nodes, m = 0, above = 0, equal;
    uint64_t *sorted, limit;

    for (uint32_t i = 0; i < n; i++)
        m += p->keep[i];
    if (!max_nodes || m <= max_nodes)
        return 0;
    sorted = mem_alloc(m * sizeof *sorted);
    if (!sorted)
        return -ENOMEM;
    m = 0;
    for (uint32_t i = 0; i < n; i++)
        if (p->keep[i])
            sorted[m++] = p->weight[i];
    limit = kth_largest(sorted, m, max_nodes - 1);
    for (uint32_t i = 0; i < m; i++)
        above += sorted[i] > limit;
    mem_free(sorted);
    equal = max_nodes - above;
    for (uint32_t i = 1; i < n; i++) {
        if (!p->keep[i] || p->weight[i] > limit)
            continue;
        if (p->weight[i] < limit || !equal || !p->keep[p->src->parent[i]])
            p->keep[i] = 0;
        else
            equal--;
    }
    return 0;
}

/* live_only: nodes with nothing in or below them are neither kept nor counted as cut. */
static int choose(struct pruning *p, const struct tree_prune *how)
{
    const struct tree *t = p->src;
    uint32_t *depth = mem_zalloc_array(how->max_depth ? t->n_nodes : 1, sizeof *depth);
    uint64_t least = 0;
    int r;

    if (!depth)
        return -ENOMEM;
    if (how->min_share > 0)
        least = (uint64_t) (how->min_share * (double) p->weight[0]);
    p->keep[0] = 1;
    if (how->root)
        p->keep[0] = 0;
    if (p->live_only)
        least = MAX(least, 1);
    for (uint32_t i = 1; i < t->n_nodes; i++) {
        if (how->max_depth)
            depth[i] = depth[t->parent[i]] + 1;
        p->keep[i] = t->frame[i] != TREE_FOLDED && (p->keep[t->parent[i]] || i == how->root) && p->weight[i] >= least &&
                     (!how->max_depth || depth[i] <= how->max_depth);
    }
    mem_free(depth);
    r = keep_heaviest(p, how->max_nodes);
    for (uint32_t i = how->root; i != TREE_NONE; i = t->parent[i]) /* the path to the root stays, whatever its weight */
        p->keep[i] = 1;
    return r;
}

/* Sums what is cut into the nearest kept ancestor. Nodes outside the zoomed path are dropped, not folded: the view
 * shows only the subtree. */
static void sum_cut(struct pruning *p, const struct tree_prune *how)
{
    const struct tree *t = p->src;
    uint8_t *inside = p->keep; /* bit 1: below the root of the view */

    inside[how->root] |= 2;
    for (uint32_t i = 1; i < t->n_nodes; i++)
        inside[i] |= inside[t->parent[i]] & 2;
    for (uint32_t i = t->n_nodes; i-- > 1;) {
        uint32_t up = t->parent[i], n;

        if (p->keep[i] & 1 || !(inside[i] & 2) || (p->live_only && !p->weight[i]))
            continue;
        n = t->frame[i] == TREE_FOLDED ? (t->folded ? t->folded[i] : 0) : 1;
        p->cut[up] += n + p->cut[i];
        if (p->keep[up] & 1)
            for (uint32_t c = 0; c < t->n_columns; c++)
                p->cut_total[c][up] = wrap_add(p->cut_total[c][up], t->total[c][i]);
    }
}

/* qsort_r's context is the source. */
static int child_cmp(const void *a, const void *b, void *ctx)
{
    const struct tree *t = ctx;
    uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;
    const struct frame *f = &t->frames[t->frame[x]], *g = &t->frames[t->frame[y]];
    int r = str_cmp(f->function, g->function);

    if (r)
        return r;
    if (t->total[0][x] != t->total[0][y])
        return t->total[0][x] < t->total[0][y] ? 1 : -1;
    return x < y ? -1 : x > y;
}

static int emit_folded(struct pruning *p, struct tree *out, uint32_t node, uint32_t to)
{
    uint32_t f;

    if (!p->cut[node])
        return 0;
    f = tree_append(out, to, TREE_FOLDED);
    if (f == TREE_NONE)
        return -ENOMEM;
    for (uint32_t c = 0; c < out->n_columns; c++)
        out->self[c][f] = p->cut_total[c][node];
    return tree_set_folded(out, f, p->cut[node]);
}

/* Emits nodes depth first, children in order, without recursion. */
static int emit(struct pruning *p, struct tree *out)
{
    const struct tree *t = p->src;
    uint32_t *stack = mem_alloc(t->n_nodes * 2 * sizeof *stack), *kids = mem_alloc(t->n_nodes * sizeof *kids);
    uint32_t *frames = mem_alloc(t->n_frames * sizeof *frames), top = 0;
    int r = stack && kids && frames ? 0 : -ENOMEM;

    for (uint32_t i = 0; r == 0 && i < t->n_frames; i++)
        frames[i] = TREE_NONE;
    if (r == 0) {
        stack[top++] = 0;
        stack[top++] = 0;
    }
    while (r == 0 && top) {
        uint32_t to = stack[--top], node = stack[--top], n = 0;
        bool shown = p->keep[node] & 2;

        for (uint32_t c = 0; c < out->n_columns; c++)
            out->self[c][to] = shown ? t->self[c][node] : 0;
        for (uint32_t k = p->first[node]; k != TREE_NONE; k = p->next[k])
            kids[n++] = k;
        if (n > 1)
            qsort_r(kids, n, sizeof *kids, child_cmp, (void *) t);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t f = t->frame[kids[i]], child;

            if (frames[f] == TREE_NONE)
                frames[f] = tree_frame(out, &t->frames[f]);
            child = frames[f] == TREE_NONE ? TREE_NONE : tree_append(out, to, frames[f]);
            if (child == TREE_NONE) {
                r = -ENOMEM;
                break;
            }
            stack[top++] = kids[i];
            stack[top++] = child;
        }
        if (r == 0 && shown)
            r = emit_folded(p, out, node, to);
    }
    mem_free(stack);
    mem_free(kids);
    mem_free(frames);
    return r;
}

static void list_children(struct pruning *p)
{
    for (uint32_t i = 0; i < p->src->n_nodes; i++)
        p->first[i] = TREE_NONE;
    for (uint32_t i = p->src->n_nodes; i-- > 1;)
        if (p->keep[i] & 1) {
            p->next[i] = p->first[p->src->parent[i]];
            p->first[p->src->parent[i]] = i;
        }
}

static void pruning_done(struct pruning *p)
{
    mem_free(p->weight);
    mem_free(p->first);
    mem_free(p->next);
    mem_free(p->cut);
    mem_free(p->cut_total[0]);
    mem_free(p->cut_total[1]);
    mem_free(p->keep);
}

static int pruning_init(struct pruning *p, const struct tree *t)
{
    uint32_t n = t->n_nodes;

    p->src = t;
    p->weight = mem_zalloc_array(n, sizeof *p->weight);
    p->first = mem_zalloc_array(n, sizeof *p->first);
    p->next = mem_zalloc_array(n, sizeof *p->next);
    p->cut = mem_zalloc_array(n, sizeof *p->cut);
    p->cut_total[0] = mem_zalloc_array(n, sizeof *p->cut_total[0]);
    p->cut_total[1] = mem_zalloc_array(n, sizeof *p->cut_total[1]);
    p->keep = mem_zalloc_array(n, 1);
    return p->weight && p->first && p->next && p->cut && p->cut_total[0] && p->cut_total[1] && p->keep ? 0 : -ENOMEM;
}

static int prune(const struct tree *src, const struct tree_prune *how, bool live_only, struct tree **ret)
{
    _cleanup_(pruning_done) struct pruning p = {.live_only = live_only};
    _cleanup_(tree_freep) struct tree *out = NULL;
    int r = pruning_init(&p, src);

    if (r < 0)
        return r;
    if (how->root >= src->n_nodes)
        return -EINVAL;
    weigh(&p);
    r = choose(&p, how);
    if (r < 0)
        return r;
    sum_cut(&p, how);
    list_children(&p);
    r = tree_new(src->n_columns, src->arena.limit, &out);
    if (r < 0)
        return r;
    r = emit(&p, out);
    if (r < 0)
        return r;
    tree_sum_up(out);
    out->type = arena_str(&out->arena, src->type);
    out->unit = arena_str(&out->arena, src->unit);
    *ret = TAKE(out);
    return 0;
}

int tree_prune(const struct tree *src, const struct tree_prune *how, struct tree **ret)
{
    return prune(src, how, false, ret);
}

int tree_prune_live(const struct tree *src, const struct tree_prune *how, struct tree **ret)
{
    return prune(src, how, true, ret);
}
