/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_flame_by() of query_groups.h: asks the store for the tree of each group and puts them below one root.
 *
 * The groups are those of query_series() over the whole range as one point. Each group gets its share of the nodes, and
 * no less than NODES_MIN.
 */
#include "query/query_groups.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"

enum { GROUPS_MAX = 12, NODES_MIN = 400 };
#define OTHERS STR("(others)")

struct flame_group {
    struct str value;
    double weight;
};

struct flame_groups {
    struct store *store;
    const struct query_params *p;
    struct str label;
    struct arena arena;
    struct flame_group v[GROUPS_MAX];
    uint32_t n, n_all;
    double weight; /* of all */
};

static int heaviest_first(const void *a, const void *b)
{
    const struct flame_group *x = a, *y = b;

    return x->weight != y->weight ? (x->weight < y->weight) - (x->weight > y->weight) : str_cmp(x->value, y->value);
}

static int take_groups(const struct store_points *p, struct flame_groups *ret)
{
    struct flame_group *all = arena_zalloc_array(&ret->arena, p->n_series + 1u, sizeof *all);

    if (!all)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->n_series; i++) {
        all[i].value = arena_str(&ret->arena, labels_get(&p->labels[i], ret->label));
        for (uint32_t k = 0; k < p->n_points; k++)
            all[i].weight += p->values[(size_t) i * p->n_points + k];
        ret->weight += all[i].weight;
    }
    qsort(all, p->n_series, sizeof *all, heaviest_first);
    ret->n_all = p->n_series;
    ret->n = MIN(p->n_series, (uint32_t) GROUPS_MAX);
    memcpy(ret->v, all, ret->n * sizeof *all);
    return 0;
}

static int find_groups(struct flame_groups *ret, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_params whole = *ret->p;
    struct query_series_params sp = {.by = ret->label};
    struct store_points points;
    int r;

    whole.zoom = whole.focus = whole.ignore = whole.hide = (struct str){0};
    whole.max_nodes = 0;
    r = query_compile(&whole, &q, e);
    if (r < 0)
        return r;
    sp.step = q->q.columns[0].to - q->q.columns[0].from;
    r = query_series(ret->store, q, &sp, &points, e);
    if (r < 0)
        return r;
    r = take_groups(&points, ret);
    store_points_done(&points);
    return r;
}

/* --- the tree of one group --- */

static void put_matcher(struct buf *out, struct str label, const char *op, struct str value)
{
    if (out->p[out->n - 1] != '{')
        buf_putc(out, ',');
    selector_put_quoted(out, label);
    buf_puts(out, op);
    selector_put_quoted(out, value);
}

/* The selector of group i, or of all that are in no group where i is g->n. */
static int group_selector(const struct query *whole, const struct flame_groups *g, uint32_t i, struct buf *out)
{
    selector_print(out, whole->q.columns[0].selector);
    if (buf_error(out))
        return buf_error(out);
    out->n--; /* the closing brace */
    for (uint32_t k = 0; i == g->n && k < g->n; k++)
        put_matcher(out, g->label, "!=", g->v[k].value);
    if (i < g->n)
        put_matcher(out, g->label, "=", g->v[i].value);
    buf_putc(out, '}');
    return buf_error(out);
}

static uint32_t nodes_of(const struct flame_groups *g, uint32_t i, uint32_t max_nodes)
{
    double share = i < g->n && g->weight > 0 ? g->v[i].weight / g->weight : 0;

    return max_nodes ? (uint32_t) MAX(share * max_nodes, (double) MIN(max_nodes, (uint32_t) NODES_MIN)) : 0;
}

static int group_tree(const struct flame_groups *g, struct str selector, uint32_t nodes, struct str zoom,
                      struct tree **ret, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_params one = *g->p;
    int r;

    one.query = selector;
    one.zoom = zoom;
    r = query_compile(&one, &q, e);
    if (r < 0)
        return r;
    q->q.max_nodes = nodes;
    return query_flame(g->store, q, ret, e);
}

/* Adds src below the frame `name` of dst. */
static int add_group(struct tree *dst, struct str name, const struct tree *src)
{
    struct frame label = {.function = name, .kind = QUERY_LABEL_FRAME};
    uint32_t f = tree_frame(dst, &label), top = f == TREE_NONE ? TREE_NONE : tree_child(dst, 0, f);
    uint32_t *to = mem_zalloc_array(src->n_nodes + 1u, sizeof *to);
    int r = to && top != TREE_NONE ? 0 : -ENOMEM;

    if (r == 0) {
        to[0] = top;
        tree_add(dst, top, 0, src->self[0][0]);
    }
    for (uint32_t i = 1; r == 0 && i < src->n_nodes; i++) {
        uint32_t frame = src->frame[i] == TREE_FOLDED ? TREE_FOLDED : tree_frame(dst, &src->frames[src->frame[i]]);

        to[i] = frame == TREE_NONE ? TREE_NONE : tree_child(dst, to[src->parent[i]], frame);
        if (to[i] == TREE_NONE) {
            r = -ENOMEM;
            break;
        }
        tree_add(dst, to[i], 0, src->self[0][i]);
        if (src->folded && src->folded[i])
            r = tree_set_folded(dst, to[i], src->folded[i]);
    }
    mem_free(to);
    return r;
}

/* Splits "group;rest" of a zoom. A ';' or '\' in a name has a '\' before it. */
static struct str first_name(struct str zoom, struct arena *a, struct str *ret_rest)
{
    char *name = arena_alloc(a, zoom.n + 1u);
    uint32_t n = 0, i = 0;

    for (; name && i < zoom.n && zoom.p[i] != ';'; i++) {
        if (zoom.p[i] == '\\' && i + 1 < zoom.n)
            i++;
        name[n++] = zoom.p[i];
    }
    *ret_rest = str_slice(zoom, MIN(i + 1, zoom.n), SIZE_MAX);
    return name ? (struct str){name, n} : (struct str){0};
}

static int add_groups(struct flame_groups *g, struct tree *ret, struct err *e)
{
    _cleanup_(query_freep) struct query *whole = NULL;
    struct str rest = {0}, only = {0};
    struct query_params plain = *g->p;
    int r;

    plain.zoom = (struct str){0};
    r = query_compile(&plain, &whole, e);
    if (g->p->zoom.n)
        only = first_name(g->p->zoom, &g->arena, &rest);
    for (uint32_t i = 0; r == 0 && i < g->n + (g->n_all > g->n); i++) {
        _cleanup_(buf_done) struct buf selector = BUF_INIT;
        _cleanup_(tree_freep) struct tree *t = NULL;
        struct str name = i == g->n ? OTHERS : g->v[i].value.n ? g->v[i].value : STR("(none)");
        uint32_t nodes = only.n ? whole->q.max_nodes : nodes_of(g, i, whole->q.max_nodes);

        if (only.n && !str_eq(only, name))
            continue;
        r = group_selector(whole, g, i, &selector);
        if (r == 0)
            r = group_tree(g, buf_str(&selector), nodes, rest, &t, e);
        if (r == 0 && !ret->type.n) {
            ret->type = arena_str(&ret->arena, t->type);
            ret->unit = arena_str(&ret->arena, t->unit);
        }
        if (r == 0)
            r = add_group(ret, name, t);
    }
    return r;
}

int query_flame_by(struct store *s, const struct query_params *p, struct str label, struct tree **ret, struct err *e)
{
    _cleanup_(tree_freep) struct tree *t = NULL;
    struct flame_groups g = {.store = s, .p = p, .label = label};
    int r = tree_new(1, p->memory_limit, &t);

    arena_init(&g.arena, p->memory_limit);
    if (r == 0)
        r = find_groups(&g, e);
    if (r == 0)
        r = add_groups(&g, t, e);
    arena_done(&g.arena);
    if (r < 0)
        return r;
    tree_sum_up(t);
    *ret = TAKE(t);
    return 0;
}
