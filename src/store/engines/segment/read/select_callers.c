/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes callers and callees; see engine.h. The nodes of a service's view that open the function, with their sums
 * (gather.h), form one group, which is the function's node in both answers. Groups are unfolded, the heaviest first,
 * until the answer has its maximum size. For callees, a group unfolds into the children of its nodes, grouped by frame;
 * for callers, into their parents. So only what is shown is merged; the groups left in the heap are summed exactly.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/wrap.h"
#include "store/engines/segment/read/gather.h"
#include "store/engines/segment/read/view.h"
#include "store/frames.h"
#include "store/store_callers.h"

enum side { CALLERS, CALLEES, SIDES };

/* A node of the view. */
struct limb {
    uint32_t first, next;  /* first child, next sibling with a value; 0 = none */
    uint32_t count, depth; /* nodes with a value at and below it; distance from the root */
    int64_t self[2], total[2];
};

struct member {
    uint32_t frame, node; /* in the answer, in the view */
    int64_t weight[2];
};

/* Members [at, at + n), all of one frame: a future node of the answer. */
struct bunch {
    uint32_t at, n, parent;
    int64_t weight[2];
    double size;
};

struct sandwiching {
    struct gather gather;
    struct str function;
    struct tree *out[SIDES];
    int64_t sum[2];
    /* of the current service */
    const struct sym_view *view;
    struct limb *limbs;
    size_t cap_limbs;
    uint8_t *inside; /* per node: whether it is at or below one that opens the function */
    size_t cap_inside;
    uint32_t *frames; /* per frame of the view: the answer's + 1 */
    size_t cap_frames;
    struct member *members;
    size_t cap_members;
    uint32_t n_members;
    struct bunch *heap;
    size_t cap_heap;
    uint32_t n_heap;
};

/* --- the heap --- */

static int push(struct sandwiching *x, const struct bunch *b)
{
    uint32_t i = x->n_heap;

    if (array_reserve(x->heap, x->cap_heap, (size_t) i + 1, UINT32_MAX) < 0)
        return -ENOMEM;
    for (x->n_heap++; i && x->heap[(i - 1) / 2].size < b->size; i = (i - 1) / 2)
        x->heap[i] = x->heap[(i - 1) / 2];
    x->heap[i] = *b;
    return 0;
}

static struct bunch pop(struct sandwiching *x)
{
    struct bunch top = x->heap[0], last = x->heap[--x->n_heap];
    uint32_t i = 0, k;

    while ((k = 2 * i + 1) < x->n_heap) {
        k += k + 1 < x->n_heap && x->heap[k + 1].size > x->heap[k].size;
        if (x->heap[k].size <= last.size)
            break;
        x->heap[i] = x->heap[k];
        i = k;
    }
    x->heap[i] = last;
    return top;
}

/* --- groups --- */

static int add_member(struct sandwiching *x, enum side side, uint32_t node, const int64_t *weight)
{
    uint32_t frame = x->view->frame[node];

    if (!x->frames[frame]) {
        struct frame f = x->view->frames[frame];

        frame_reduce(&f, BY_FUNCTION);
        if (f.home.n == 0) /* already reduced once: its binary is in home */
            f.home = x->view->frames[frame].home;
        x->frames[frame] = tree_frame(x->out[side], &f) + 1;
    }
    if (!x->frames[frame] || array_push(x->members, x->n_members, x->cap_members, UINT32_MAX,
                                        (struct member){x->frames[frame] - 1, node, {weight[0], weight[1]}}) < 0)
        return -ENOMEM;
    return 0;
}

static int member_cmp(const void *a, const void *b)
{
    const struct member *x = a, *y = b;

    if (x->frame != y->frame)
        return x->frame < y->frame ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* Groups the members from `at` on by frame, as children of one node of the answer. */
static int bundle(struct sandwiching *x, uint32_t at, uint32_t parent)
{
    int r = 0;

    if (x->n_members - at > 1)
        qsort(x->members + at, x->n_members - at, sizeof *x->members, member_cmp);
    for (uint32_t i = at; r == 0 && i < x->n_members;) {
        struct bunch b = {.at = i, .parent = parent};

        for (; i < x->n_members && x->members[i].frame == x->members[b.at].frame; i++, b.n++)
            for (int c = 0; c < 2; c++)
                wrap_inc(&b.weight[c], x->members[i].weight[c]);
        b.size = MAX(llabs(b.weight[0]), llabs(b.weight[1]));
        r = push(x, &b);
    }
    return r;
}

/* Adds the next groups after a bunch that has become node `to`. */
static int unfold(struct sandwiching *x, enum side side, const struct bunch *b, uint32_t to)
{
    uint32_t at = x->n_members, columns = x->out[side]->n_columns;
    int r = 0;

    for (uint32_t i = b->at; r == 0 && i < b->at + b->n; i++) {
        struct member m = x->members[i];
        const struct limb *l = &x->limbs[m.node];
        uint32_t up = x->view->parent[m.node];

        if (side == CALLERS && up) {
            r = add_member(x, side, up, m.weight);
            continue;
        }
        for (uint32_t c = 0; c < columns; c++)
            tree_add(x->out[side], to, c, side == CALLERS ? m.weight[c] : l->self[c]);
        for (uint32_t k = side == CALLEES ? l->first : 0; r == 0 && k; k = x->limbs[k].next)
            r = add_member(x, side, k, x->limbs[k].total);
    }
    return r < 0 ? r : bundle(x, at, to);
}

static int put_folded(struct sandwiching *x, enum side side, const struct bunch *b)
{
    struct tree *out = x->out[side];
    uint32_t to = tree_child(out, b->parent, TREE_FOLDED), count = 0;

    if (to == TREE_NONE)
        return -ENOMEM;
    for (uint32_t c = 0; c < out->n_columns; c++)
        tree_add(out, to, c, b->weight[c]);
    for (uint32_t i = b->at; i < b->at + b->n; i++)
        count += side == CALLEES ? x->limbs[x->members[i].node].count : x->limbs[x->members[i].node].depth;
    return tree_set_folded(out, to, count);
}

/* Adds the service's part to one of the answers. */
static int put_side(struct sandwiching *x, enum side side, uint32_t max)
{
    const struct sym_view *v = x->view;
    int r = 0;

    x->n_members = x->n_heap = 0;
    memset(x->frames, 0, v->n_frames * sizeof *x->frames);
    for (uint32_t i = 1; r == 0 && i < v->n_nodes; i++)
        if (x->inside[i] && !x->inside[v->parent[i]])
            r = add_member(x, side, i, x->limbs[i].total);
    if (r == 0)
        r = bundle(x, 0, 0);
    for (uint32_t n = 0; r == 0 && x->n_heap && (!max || n < max); n++) {
        struct bunch b = pop(x);
        uint32_t to = tree_child(x->out[side], b.parent, x->members[b.at].frame);

        r = to == TREE_NONE ? -ENOMEM : unfold(x, side, &b, to);
    }
    for (uint32_t i = 0; r == 0 && i < x->n_heap; i++)
        r = put_folded(x, side, &x->heap[i]);
    return r;
}

/* --- a service --- */

static int make_room(struct sandwiching *x, const struct sym_view *v)
{
    if (array_reserve(x->limbs, x->cap_limbs, v->n_nodes, UINT32_MAX) < 0 ||
        array_reserve(x->inside, x->cap_inside, v->n_nodes, UINT32_MAX) < 0 ||
        array_reserve(x->frames, x->cap_frames, v->n_frames, UINT32_MAX) < 0)
        return -ENOMEM;
    memset(x->limbs, 0, v->n_nodes * sizeof *x->limbs);
    return 0;
}

/* Computes the sums of the view's nodes, and which nodes have the function on their path. */
static void sum_up(struct sandwiching *x, const struct gather *g)
{
    const struct sym_view *v = x->view;
    uint32_t columns = g->scan.q->n_columns;

    for (uint32_t c = 0; c < columns; c++)
        for (uint32_t i = 0; i < g->n_nodes; i++)
            wrap_inc(&x->limbs[v->map[i]].self[c], g->acc[c][i]);
    for (uint32_t i = v->n_nodes; i-- > 1;) {
        struct limb *l = &x->limbs[i], *up = &x->limbs[v->parent[i]];

        for (uint32_t c = 0; c < columns; c++)
            wrap_inc(&l->total[c], l->self[c]);
        if (!l->first && !l->self[0] && !l->self[1])
            continue;
        l->count++;
        l->next = up->first;
        up->first = i;
        up->count += l->count;
        for (uint32_t c = 0; c < columns; c++)
            wrap_inc(&up->total[c], l->total[c]);
    }
    for (uint32_t c = 0; c < columns; c++)
        wrap_inc(&x->sum[c], wrap_add(x->limbs[0].self[c], x->limbs[0].total[c]));
    for (uint32_t i = 0; i < v->n_frames; i++)
        x->frames[i] = str_eq(v->frames[i].function, x->function);
    x->inside[0] = 0;
    for (uint32_t i = 1; i < v->n_nodes; i++) {
        x->limbs[i].depth = x->limbs[v->parent[i]].depth + 1;
        x->inside[i] = x->limbs[i].count && (x->inside[v->parent[i]] || x->frames[v->frame[i]]);
    }
}

/* Uses the view by file and function: flame graphs usually request it, so it exists already, and it is finer than
 * needed here. */
static int callers_of_service(void *ctx, struct gather *g)
{
    struct sandwiching *x = ctx;
    struct sym_service *service = sym_service(g->sym->symbols, g->service);
    struct sym_view *v;
    int r = view_lock(g->sym->symbols, service, BY_FILEFUNCTION, g->scan.q->no_inlines, g->n_nodes, &v);

    if (r < 0)
        return r;
    x->view = v;
    r = make_room(x, v);
    if (r == 0)
        sum_up(x, g);
    for (int side = 0; r == 0 && side < SIDES; side++)
        r = put_side(x, side, gather_part_nodes(g));
    view_unlock(service);
    return r;
}

static void sandwiching_done(struct sandwiching *x)
{
    mem_free(x->limbs);
    mem_free(x->inside);
    mem_free(x->frames);
    mem_free(x->members);
    mem_free(x->heap);
    tree_free(x->out[CALLERS]);
    tree_free(x->out[CALLEES]);
    gather_done(&x->gather);
}

int engine_callers(struct store *s, const struct store_query *q, struct str function, struct store_callers *ret,
                   struct err *e)
{
    _cleanup_(sandwiching_done) struct sandwiching x = {.function = function};
    _cleanup_(tree_freep) struct tree *callers = NULL, *callees = NULL;
    int r;

    if (q->focus.n || q->ignore.n || q->hide.n || q->n_zoom)
        return callers_by_select(s, q, function, ret, e);
    r = gather_init(&x.gather, to_engine(s), q, e);
    for (int side = 0; r == 0 && side < SIDES; side++)
        r = tree_new(q->n_columns, q->memory_limit, &x.out[side]);
    if (r == 0)
        r = gather_run(&x.gather, callers_of_service, &x);
    if (r == 0)
        r = callers_finish(TAKE(x.out[CALLERS]), x.gather.type, x.gather.unit, q->max_nodes, &callers);
    if (r == 0)
        r = callers_finish(TAKE(x.out[CALLEES]), x.gather.type, x.gather.unit, q->max_nodes, &callees);
    if (r < 0)
        return r;
    *ret = (struct store_callers){TAKE(callers), TAKE(callees), {x.sum[0], x.sum[1]}};
    return 0;
}
