/* SPDX-License-Identifier: Apache-2.0 */
/* Prunes the sums of one service and merges the result into the answer; see fold.h. */
#include "store/engines/segment/read/fold.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/wrap.h"

enum { BUCKETS = 64 * 8 };

void fold_done(struct fold *f)
{
    mem_free(f->self);
    mem_free(f->total);
    mem_free(f->count);
    mem_free(f->slot);
    mem_free(f->kept);
    mem_free(f->weights);
    mem_free(f->frames);
    mem_free(f->list);
    *f = (struct fold){0};
}

static int make_room(struct fold *f, uint32_t n)
{
    uint32_t cap = n + n / 4;

    if (n <= f->cap) {
        memset(f->self, 0, f->n_dirty * sizeof *f->self);
        memset(f->total, 0, f->n_dirty * sizeof *f->total);
        memset(f->count, 0, f->n_dirty * sizeof *f->count);
        memset(f->slot, 0, f->n_dirty * sizeof *f->slot);
        f->n_dirty = 0;
        return 0;
    }
    mem_free(f->self);
    mem_free(f->total);
    mem_free(f->count);
    mem_free(f->slot);
    f->self = mem_zalloc_array(cap, sizeof *f->self);
    f->total = mem_zalloc_array(cap, sizeof *f->total);
    f->count = mem_zalloc_array(cap, sizeof *f->count);
    f->slot = mem_zalloc_array(cap, sizeof *f->slot);
    f->n_dirty = 0;
    f->cap = f->self && f->total && f->count && f->slot ? cap : 0;
    return f->cap ? 0 : -ENOMEM;
}

static int u32_cmp(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;

    return x < y ? -1 : x > y;
}

/* Lists the nodes with a value in or below them in ascending order, when only a few stacks have values. */
static int list_touched(struct fold *f, const struct sym_view *v, const int64_t *acc, uint32_t *touched, uint32_t n)
{
    f->n_list = 0;
    qsort(touched, n, sizeof *touched, u32_cmp);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = v->map[touched[i]];

        if (i && touched[i] == touched[i - 1])
            continue;

        wrap_inc(&f->self[k], acc[touched[i]]);
        for (; !f->slot[k]; k = v->parent[k]) {
            if (array_reserve(f->list, f->cap_list, (size_t) f->n_list + 1, UINT32_MAX) < 0)
                return -ENOMEM;
            f->slot[k] = 1;
            f->list[f->n_list++] = k;
            if (!k)
                break;
        }
    }
    for (uint32_t i = 0; i < f->n_list; i++)
        f->slot[f->list[i]] = 0;
    qsort(f->list, f->n_list, sizeof *f->list, u32_cmp);
    return 0;
}

/* Adds up sums and counts from the leaves to the root. */
static void sum_up(struct fold *f, const struct sym_view *v, const uint32_t *list, uint32_t n)
{
    for (uint32_t i = n; i-- > 0;) {
        uint32_t k = list ? list[i] : i, up;
        int64_t total = f->total[k] = wrap_add(f->total[k], f->self[k]);

        if (!total || !k)
            continue;
        up = v->parent[k];
        f->count[k]++;
        wrap_inc(&f->total[up], total);
        f->count[up] += f->count[k];
    }
    f->count[0] += f->total[0] != 0;
}

static uint32_t bucket_of(uint64_t w)
{
    uint32_t top = 63 - (uint32_t) __builtin_clzll(w);

    return top * 8 + (uint32_t) ((top > 3 ? w >> (top - 3) : w << (3 - top)) & 7);
}

static int weight_cmp(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

    return x > y ? -1 : x < y;
}

/* Finds the weight below which nodes are cut so that at most max remain, and how many nodes of exactly that weight may
 * remain. */
static int find_limit(struct fold *f, const uint32_t *list, uint32_t n, uint32_t max, uint64_t *ret_limit,
                      uint32_t *ret_equal)
{
    uint32_t counts[BUCKETS] = {0}, above = 0, m = 0, above_limit = 0;
    int b = BUCKETS - 1;

    *ret_limit = 1;
    *ret_equal = UINT32_MAX;
    if (!max || f->count[0] <= max)
        return 0;
    for (uint32_t i = 0; i < n; i++) {
        int64_t w = f->total[list ? list[i] : i];

        if (w)
            counts[bucket_of((uint64_t) w)]++;
    }
    while (b > 0 && above + counts[b] < max)
        above += counts[b--];
    if (array_reserve(f->weights, f->cap_weights, counts[b] + 1u, UINT32_MAX) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        int64_t w = f->total[list ? list[i] : i];

        if (w && bucket_of((uint64_t) w) == (uint32_t) b)
            f->weights[m++] = (uint64_t) w;
    }
    qsort(f->weights, m, sizeof *f->weights, weight_cmp);
    *ret_limit = f->weights[MIN(max - above, m) - 1];
    for (uint32_t i = 0; i < m; i++)
        above_limit += f->weights[i] > *ret_limit;
    *ret_equal = max - above - above_limit;
    return 0;
}

static int keep(struct fold *f, const struct sym_view *v, uint32_t node, struct tree *out)
{
    struct fold_kept *up = node ? &f->kept[f->slot[v->parent[node]] - 1] : NULL;
    uint32_t to = 0;

    if (node) {
        uint32_t *frame = &f->frames[v->frame[node]];

        if (!*frame)
            *frame = tree_frame(out, &v->frames[v->frame[node]]) + 1;
        to = *frame ? tree_child(out, up->to, *frame - 1) : TREE_NONE;
        if (to == TREE_NONE)
            return -ENOMEM;
        wrap_inc(&up->sum, f->total[node]);
        up->count += f->count[node];
    }
    tree_add(out, to, 0, f->self[node]);
    if (array_push(f->kept, f->n_kept, f->cap_kept, UINT32_MAX, (struct fold_kept){.node = node, .to = to}) < 0)
        return -ENOMEM;
    f->slot[node] = f->n_kept;
    return 0;
}

/* Adds what is cut below a kept node: its total minus its own value and its kept children. */
static int put_folded(struct fold *f, struct tree *out)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < f->n_kept; i++) {
        const struct fold_kept *k = &f->kept[i];
        uint32_t cut = f->count[k->node] - 1 - k->count, to;

        if (!f->count[k->node] || !cut)
            continue;
        to = tree_child(out, k->to, TREE_FOLDED);
        if (to == TREE_NONE)
            return -ENOMEM;
        tree_add(out, to, 0, wrap_sub(wrap_sub(f->total[k->node], f->self[k->node]), k->sum));
        r = tree_set_folded(out, to, cut);
    }
    return r;
}

static int put_nodes(struct fold *f, const struct sym_view *v, const uint32_t *list, uint32_t n, uint32_t max,
                     struct tree *out)
{
    uint64_t limit;
    uint32_t equal;
    int r = find_limit(f, list, n, max, &limit, &equal);

    if (r == 0 && array_reserve(f->frames, f->cap_frames, v->n_frames, UINT32_MAX) < 0)
        r = -ENOMEM;
    if (r < 0)
        return r;
    memset(f->frames, 0, v->n_frames * sizeof *f->frames);
    f->n_kept = 0;
    r = keep(f, v, 0, out);
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        uint32_t k = list ? list[i] : i;
        uint64_t w = (uint64_t) f->total[k];

        if (w < limit || !k || !f->slot[v->parent[k]])
            continue;
        if (w == limit && !equal)
            continue;
        equal -= w == limit;
        r = keep(f, v, k, out);
    }
    return r < 0 ? r : put_folded(f, out);
}

int fold_into(struct fold *f, const struct sym_view *v, const struct fold_sums *sums, uint32_t max_nodes,
              struct tree *out)
{
    const int64_t *acc = sums->acc;
    uint32_t n = sums->n, n_touched = sums->n_touched, *touched = sums->touched;
    int64_t all = 0;
    int r;

    for (uint32_t i = 0; i < (touched ? n_touched : n); i++)
        all |= acc[touched ? touched[i] : i];
    if (all < 0)
        return 0;
    r = make_room(f, v->n_nodes);
    if (r < 0)
        return r;
    if (touched) {
        r = list_touched(f, v, acc, touched, n_touched);
        if (r == 0) {
            sum_up(f, v, f->list, f->n_list);
            r = put_nodes(f, v, f->list, f->n_list, max_nodes, out);
        }
        for (uint32_t i = 0; i < f->n_list; i++)
            f->self[f->list[i]] = f->total[f->list[i]] = f->count[f->list[i]] = f->slot[f->list[i]] = 0;
        return r < 0 ? r : 1;
    }
    f->n_dirty = v->n_nodes;
    for (uint32_t i = 0; i < n; i++)
        wrap_inc(&f->self[v->map[i]], acc[i]);
    sum_up(f, v, NULL, v->n_nodes);
    r = put_nodes(f, v, NULL, v->n_nodes, max_nodes, out);
    return r < 0 ? r : 1;
}
