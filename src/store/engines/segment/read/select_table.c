/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes sums by row (store_table.h); see engine.h. A service's sums (gather.h) belong to the nodes of its tree of
 * locations, and the frames of a location, and thus their rows, are looked up once: no view and no tree of frames is
 * built. One pass from the leaves up computes totals and links the nodes that have values to their parents; a walk down
 * these branches tracks which rows are on the path, and so which totals count.
 */
#include <errno.h>

#include "base/mem.h"
#include "base/wrap.h"
#include "store/engines/segment/read/gather.h"
#include "store/engines/segment/read/view.h"
#include "store/frames.h"
#include "store/store_table.h"

enum { SPOT_FOCUS = 1, SPOT_IGNORE = 2, SPOT_MATCHED = 4, SPOT_ROWS = 8 }; /* the last two: already looked up */

/* A location: the rows of its frames that are not hidden, outermost call first. */
struct spot {
    uint32_t at, n;
    uint8_t bits;
};

struct branch {
    uint32_t parent, location;
    uint32_t first, next; /* first child, next sibling with a value; 0 = none */
    int64_t total[2];
};

struct tabling {
    struct gather gather;
    struct store_query q; /* at the granularity that the rows need */
    struct frame_filter filter;
    struct store_table *out;
    /* of the current symbols */
    const struct symbols *symbols;
    struct spot *spots;
    uint32_t n_spots;
    uint32_t *rows;
    size_t cap_rows;
    uint32_t n_rows;
    /* of the current service */
    struct branch *branches;
    size_t cap_branches;
    uint8_t *states;
    size_t cap_states;
    uint32_t *inner; /* per depth: the row that a frame without its own row adds to */
    size_t cap_inner;
};

static int use_symbols(struct tabling *x, const struct symbols *s)
{
    uint32_t n = pinned_count(&s->locations);

    if (x->symbols == s && x->n_spots >= n)
        return 0;
    mem_free(x->spots);
    x->spots = mem_zalloc_array(n + 1, sizeof *x->spots);
    x->symbols = s;
    x->n_spots = n;
    x->n_rows = 0;
    return x->spots ? 0 : -ENOMEM;
}

static int add_row(struct tabling *x, struct spot *spot, const struct frame *f)
{
    uint32_t row;

    if (x->filter.hide && frame_matches(f, x->filter.hide))
        return 0;
    row = store_table_row(x->out, f);
    if (row == TABLE_NO_MEMORY || array_push(x->rows, x->n_rows, x->cap_rows, UINT32_MAX, row) < 0)
        return -ENOMEM;
    spot->n++;
    return 0;
}

static int match_frame(struct tabling *x, struct spot *spot, const struct frame *f)
{
    if (x->filter.focus && frame_matches(f, x->filter.focus))
        spot->bits |= SPOT_FOCUS;
    if (x->filter.ignore && frame_matches(f, x->filter.ignore))
        spot->bits |= SPOT_IGNORE;
    return 0;
}

/* Calls fn for the frames of a location, outermost first. */
static int each_frame(struct tabling *x, uint32_t location,
                      int (*fn)(struct tabling *x, struct spot *spot, const struct frame *f))
{
    const struct store_query *q = x->gather.scan.q;
    struct sym_location *l = sym_location(x->symbols, location);
    const struct sym_lines *lines = atomic_load_explicit(&l->lines, memory_order_acquire);
    uint32_t count = lines ? lines->n : 0;
    int r = 0;

    for (uint32_t k = count ? count : 1; r == 0 && k-- > 0;) {
        struct frame f;

        if (q->no_inlines && count && k + 1 < count)
            break;
        view_frame(x->symbols, l, lines, k, &f);
        frame_reduce(&f, q->by);
        r = fn(x, &x->spots[location], &f);
    }
    return r;
}

static int find_rows(struct tabling *x, uint32_t location)
{
    struct spot *spot = &x->spots[location];

    if (likely(spot->bits & SPOT_ROWS))
        return 0;
    spot->bits |= SPOT_ROWS;
    spot->at = x->n_rows;
    return each_frame(x, location, add_row);
}

static int find_matches(struct tabling *x, uint32_t location)
{
    struct spot *spot = &x->spots[location];

    if (likely(spot->bits & SPOT_MATCHED))
        return 0;
    spot->bits |= SPOT_MATCHED;
    return each_frame(x, location, match_frame);
}

/* Removes what focus and ignore exclude. */
static int filter(struct tabling *x, const struct gather *g)
{
    const struct store_query *q = g->scan.q;
    uint8_t *state;

    if (!x->filter.focus && !x->filter.ignore)
        return 0;
    if (array_reserve(x->states, x->cap_states, g->n_nodes, UINT32_MAX) < 0)
        return -ENOMEM;
    state = x->states;
    state[0] = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        bool kept;

        if (i) {
            uint32_t location = x->branches[i].location;
            int r = find_matches(x, location);

            if (r < 0)
                return r;
            state[i] = state[x->branches[i].parent] | x->spots[location].bits;
        }
        kept = (!x->filter.focus || state[i] & SPOT_FOCUS) && !(state[i] & SPOT_IGNORE);
        for (uint32_t c = 0; !kept && c < q->n_columns; c++)
            g->acc[c][i] = 0;
    }
    return 0;
}

static int copy_nodes(struct tabling *x, const struct gather *g)
{
    const struct sym_service *service = sym_service(g->sym->symbols, g->service);

    if (array_reserve(x->branches, x->cap_branches, g->n_nodes, UINT32_MAX) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct sym_node *n = sym_node(service, i);

        x->branches[i] = (struct branch){.parent = n->parent, .location = n->location};
        if (i && (n->location >= x->n_spots || n->parent >= i))
            return -EBADMSG;
    }
    return 0;
}

static void sum_up(struct tabling *x, const struct gather *g)
{
    uint32_t columns = g->scan.q->n_columns;

    for (uint32_t i = g->n_nodes; i-- > 0;) {
        struct branch *n = &x->branches[i], *up;
        bool live = n->first != 0;

        for (uint32_t c = 0; c < columns; c++) {
            live |= g->acc[c][i] != 0;
            wrap_inc(&n->total[c], g->acc[c][i]);
        }
        if (!i || !live)
            continue;
        up = &x->branches[n->parent];
        n->next = up->first;
        up->first = i;
        for (uint32_t c = 0; c < columns; c++)
            wrap_inc(&up->total[c], n->total[c]);
    }
}

static int enter(struct tabling *x, const struct gather *g, uint32_t node, uint32_t depth)
{
    const struct branch *n = &x->branches[node];
    uint32_t columns = g->scan.q->n_columns, inner = depth ? x->inner[depth - 1] : TABLE_NO_ROW;
    const struct spot *spot = &x->spots[n->location];
    int r = find_rows(x, n->location);

    if (r == 0)
        r = array_reserve(x->inner, x->cap_inner, (size_t) depth + 1, UINT32_MAX);
    if (r < 0)
        return r;
    for (uint32_t k = 0; k < spot->n; k++) {
        struct table_row *row;

        inner = x->rows[spot->at + k];
        if (inner == TABLE_NO_ROW)
            continue;
        row = &x->out->rows[inner];
        for (uint32_t c = 0; !row->on_path && c < columns; c++)
            wrap_inc(&row->total[c], n->total[c]);
        row->on_path++;
    }
    x->inner[depth] = inner;
    for (uint32_t c = 0; inner != TABLE_NO_ROW && c < columns; c++)
        wrap_inc(&x->out->rows[inner].self[c], g->acc[c][node]);
    return 0;
}

static void leave(struct tabling *x, uint32_t node)
{
    const struct spot *spot = &x->spots[x->branches[node].location];

    for (uint32_t k = 0; k < spot->n; k++)
        if (x->rows[spot->at + k] != TABLE_NO_ROW)
            x->out->rows[x->rows[spot->at + k]].on_path--;
}

static int walk(struct tabling *x, const struct gather *g)
{
    uint32_t node = x->branches[0].first, depth = 0;

    while (node) {
        int r = enter(x, g, node, depth);

        if (r < 0)
            return r;
        if (x->branches[node].first) {
            node = x->branches[node].first;
            depth++;
            continue;
        }
        for (leave(x, node); node && !x->branches[node].next; leave(x, node)) {
            node = x->branches[node].parent;
            if (!node)
                break;
            depth--;
        }
        node = node ? x->branches[node].next : 0;
    }
    return 0;
}

static int table_service(void *ctx, struct gather *g)
{
    struct tabling *x = ctx;
    int r = use_symbols(x, g->sym->symbols);

    if (r == 0)
        r = copy_nodes(x, g);
    if (r == 0)
        r = filter(x, g);
    if (r < 0)
        return r;
    sum_up(x, g);
    for (uint32_t c = 0; c < g->scan.q->n_columns; c++)
        wrap_inc(&x->out->sum[c], x->branches[0].total[c]);
    return walk(x, g);
}

static void tabling_done(struct tabling *x)
{
    mem_free(x->spots);
    mem_free(x->rows);
    mem_free(x->branches);
    mem_free(x->states);
    mem_free(x->inner);
    frame_filter_done(&x->filter);
    gather_done(&x->gather);
}

/* The general algorithm, for queries below a path. */
static int table_of_tree(struct store *s, const struct store_query *q, struct store_table *t, struct err *e)
{
    _cleanup_(tree_freep) struct tree *tree = NULL;
    int r = engine_select(s, q, &tree, e);

    return r < 0 ? r : store_table_add_tree(t, tree);
}

static int table_of_sums(struct tabling *x, struct store *s, struct err *e)
{
    struct store_table *t = x->out;
    int r = gather_init(&x->gather, to_engine(s), &x->q, e);

    if (r == 0)
        r = frame_filter_init(&x->filter, &x->q, e);
    if (r == 0)
        r = gather_run(&x->gather, table_service, x);
    if (r < 0)
        return r;
    t->type = arena_str(&t->arena, x->gather.type);
    t->unit = arena_str(&t->arena, x->gather.unit);
    return 0;
}

int engine_table(struct store *s, const struct store_query *q, const struct store_table_query *tq,
                 struct store_table *ret, struct err *e)
{
    _cleanup_(tabling_done) struct tabling x = {.out = ret, .q = *q};
    int r = store_table_init(ret, tq);

    x.q.by = store_table_granularity(tq->rows);
    x.q.max_nodes = 0;
    x.q.min_share = 0;
    if (r == 0)
        r = q->n_zoom ? table_of_tree(s, &x.q, ret, e) : table_of_sums(&x, s, e);
    if (r < 0)
        store_table_done(ret);
    return r;
}
