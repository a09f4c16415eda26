/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the callers and callees of a function from a tree; see store_callers.h. A node opens the function if it is
 * the outermost call on its path. What it calls is added to the callees with its own values; its path to the root is
 * reversed and added to the callers with its total.
 */
#include "store/store_callers.h"

#include <errno.h>

struct sandwich {
    const struct tree *src;
    uint32_t *opens;     /* per node: the node at or above it that opened the function, TREE_NONE outside */
    uint32_t *copy;      /* per inner node: its copy in callees */
    uint32_t *frames[2]; /* per source frame: its frame in callers, callees; TREE_NONE = not added yet */
    struct tree *out[2];
    struct arena arena;
};

static uint32_t copy_frame(struct sandwich *x, int side, uint32_t frame)
{
    uint32_t *slot = &x->frames[side][frame];

    if (*slot == TREE_NONE)
        *slot = tree_frame(x->out[side], &x->src->frames[frame]);
    return *slot;
}

static uint32_t child(struct sandwich *x, int side, uint32_t parent, uint32_t frame)
{
    uint32_t f = copy_frame(x, side, frame);

    return f == TREE_NONE ? TREE_NONE : tree_child(x->out[side], parent, f);
}

/* Adds the path above an opening node, from the function up. */
static int add_callers(struct sandwich *x, uint32_t node)
{
    const struct tree *t = x->src;
    uint32_t at = child(x, 0, 0, t->frame[node]);

    for (uint32_t p = t->parent[node]; at != TREE_NONE && p != 0 && p != TREE_NONE; p = t->parent[p])
        at = child(x, 0, at, t->frame[p]);
    if (at == TREE_NONE)
        return -ENOMEM;
    for (uint32_t c = 0; c < t->n_columns; c++)
        tree_add(x->out[0], at, c, t->total[c][node]);
    return 0;
}

static int add_callee(struct sandwich *x, uint32_t node)
{
    const struct tree *t = x->src;
    uint32_t parent = x->opens[node] == node ? 0 : x->copy[t->parent[node]];
    uint32_t at = child(x, 1, parent, t->frame[node]);

    if (at == TREE_NONE)
        return -ENOMEM;
    x->copy[node] = at;
    for (uint32_t c = 0; c < t->n_columns; c++)
        tree_add(x->out[1], at, c, t->self[c][node]);
    return 0;
}

static int sandwich_alloc(struct sandwich *x)
{
    arena_init(&x->arena, 0);
    x->opens = arena_alloc(&x->arena, x->src->n_nodes * sizeof *x->opens);
    x->copy = arena_alloc(&x->arena, x->src->n_nodes * sizeof *x->copy);
    for (int side = 0; side < 2; side++) {
        x->frames[side] = arena_alloc(&x->arena, x->src->n_frames * sizeof *x->frames[side]);
        if (!x->frames[side])
            return -ENOMEM;
        memset(x->frames[side], 0xff, x->src->n_frames * sizeof *x->frames[side]);
        if (tree_new(x->src->n_columns, 0, &x->out[side]) < 0)
            return -ENOMEM;
    }
    return x->opens && x->copy ? 0 : -ENOMEM;
}

static int sandwich_fill(struct sandwich *x, struct str function)
{
    const struct tree *t = x->src;
    int r = 0;

    x->opens[0] = TREE_NONE;
    for (uint32_t i = 1; r == 0 && i < t->n_nodes; i++) {
        x->opens[i] = x->opens[t->parent[i]];
        if (x->opens[i] == TREE_NONE && str_eq(t->frames[t->frame[i]].function, function)) {
            x->opens[i] = i;
            r = add_callers(x, i);
        }
        if (r == 0 && x->opens[i] != TREE_NONE)
            r = add_callee(x, i);
    }
    return r;
}

int callers_finish(struct tree *t, struct str type, struct str unit, uint32_t max_nodes, struct tree **ret)
{
    _cleanup_(tree_freep) struct tree *own = t;
    struct tree *out;
    int r = 0;

    tree_sum_up(t);
    if (max_nodes)
        r = tree_prune(t, &(struct tree_prune){.max_nodes = max_nodes}, &out);
    else
        out = TAKE(own);
    if (r < 0)
        return r;
    out->type = arena_str(&out->arena, type);
    out->unit = arena_str(&out->arena, unit);
    *ret = out;
    return 0;
}

/* function is the exact name; each answer is pruned to max_nodes (0: all). */
static int callers_of_tree(const struct tree *t, struct str function, uint32_t max_nodes, struct store_callers *ret)
{
    _cleanup_(tree_freep) struct tree *callers = NULL, *callees = NULL;
    struct sandwich x = {.src = t};
    int r = sandwich_alloc(&x);

    if (r == 0)
        r = sandwich_fill(&x, function);
    if (r == 0)
        r = callers_finish(TAKE(x.out[0]), t->type, t->unit, max_nodes, &callers);
    if (r == 0)
        r = callers_finish(TAKE(x.out[1]), t->type, t->unit, max_nodes, &callees);
    if (r == 0)
        *ret = (struct store_callers){TAKE(callers), TAKE(callees), {0}};
    for (uint32_t c = 0; r == 0 && c < t->n_columns; c++)
        ret->sum[c] = t->total[c][0];
    tree_free(x.out[0]);
    tree_free(x.out[1]);
    arena_done(&x.arena);
    return r;
}

int callers_by_select(struct store *s, const struct store_query *q, struct str function, struct store_callers *ret,
                      struct err *e)
{
    _cleanup_(tree_freep) struct tree *tree = NULL;
    struct store_query whole = *q;
    int r;

    whole.max_nodes = 0;
    r = s->ops->select(s, &whole, &tree, e);
    return r < 0 ? r : callers_of_tree(tree, function, q->max_nodes, ret);
}
