/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_cube() for engines without an operation of their own, and what such operations share (store_cube.h). Without
 * one, the instances are the values of one label of the selection, and each window of each instance is a select of its
 * own; a selection with many instances is then one instance.
 */
#include "store/store_cube.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"

/* At most this many instances get selects of their own. */
enum { SELECTED_INSTANCES_MAX = 8, VALUES_MAX = 1 << 28 };

const char *const cube_instance_attributes[] = {"service.instance.id", "k8s.pod.name", "container.id", "process.pid",
                                                NULL};

int cube_instance(struct store_cube *c, struct map *by_id, struct id128 id, uint32_t *ret, bool *ret_new)
{
    *ret_new = false;
    for (struct map_pos p = map_find(by_id, hash64_id(id)); p.index != MAP_NONE; p = map_next(by_id, p))
        if (id128_eq(c->instances[p.index].id, id)) {
            *ret = p.index;
            return 0;
        }
    if (c->n_instances == CUBE_INSTANCES_MAX) {
        *ret = (uint32_t) (id.lo % CUBE_INSTANCES_MAX);
        c->instances[*ret].labels.n = 0;
        return 0;
    }
    if (!c->instances)
        c->instances = arena_zalloc_array(&c->arena, CUBE_INSTANCES_MAX, sizeof *c->instances);
    if (!c->instances || map_insert(by_id, hash64_id(id), c->n_instances) < 0)
        return -ENOMEM;
    c->instances[c->n_instances].id = id;
    *ret_new = true;
    *ret = c->n_instances++;
    return 0;
}

static int by_window(const void *a, const void *b)
{
    const struct cube_cell *x = a, *y = b;

    if (x->window != y->window)
        return x->window < y->window ? -1 : 1;
    return (x->instance > y->instance) - (x->instance < y->instance);
}

void cube_finish(struct store_cube *c)
{
    if (c->n_cells)
        qsort(c->cells, c->n_cells, sizeof *c->cells, by_window);
    for (size_t i = 0; i < c->n_values; i++)
        tree_add(c->tree, c->values[i].node, 0, c->values[i].self);
    tree_sum_up(c->tree);
}

/* --- by selects --- */

struct cube_asking {
    struct store *store;
    struct store_query q;
    struct store_cube *out;
    struct map by_id;
    size_t cap_cells, cap_values;
    struct err *e;
};

/* Merges the tree of one cell into the common tree. */
static int add_cell(struct cube_asking *x, const struct tree *t, uint32_t window, uint32_t instance)
{
    _cleanup_(mem_freep) uint32_t *at = mem_alloc(t->n_nodes * sizeof *at);
    struct store_cube *c = x->out;
    struct cube_cell cell = {.window = window, .instance = instance, .n_profiles = 1, .first = c->n_values};

    if (!at)
        return -ENOMEM;
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        uint32_t f = i ? tree_frame(c->tree, &t->frames[t->frame[i]]) : 0;

        at[i] = !i ? 0 : f == TREE_NONE ? TREE_NONE : tree_child(c->tree, at[t->parent[i]], f);
        if (at[i] == TREE_NONE)
            return -ENOMEM;
        if (!t->self[0][i])
            continue;
        if (array_push(c->values, c->n_values, x->cap_values, VALUES_MAX, (struct cube_value){at[i], t->self[0][i]}) <
            0)
            return -ENOMEM;
        cell.n++;
    }
    if (!c->tree->type.n && t->type.n) {
        c->tree->type = arena_str(&c->tree->arena, t->type);
        c->tree->unit = arena_str(&c->tree->arena, t->unit);
    }
    return cell.n ? array_push(c->cells, c->n_cells, x->cap_cells, UINT32_MAX, cell) : 0;
}

/* The values of one label in the selection; nothing if there are too many or fewer than two. */
static int find_values(struct cube_asking *x, struct str label, struct store_points *ret)
{
    struct store_series_query sq = {.step = x->q.columns[0].to - x->q.columns[0].from, .by = &label, .n_by = 1};
    int r = x->store->ops->series(x->store, &x->q, &sq, ret, x->e);

    if (r < 0)
        return r;
    if (ret->n_series >= 2 && ret->n_series <= SELECTED_INSTANCES_MAX)
        return 1;
    store_points_done(ret);
    return 0;
}

static int add_windows(struct cube_asking *x, uint32_t instance)
{
    struct store_cube *c = x->out;
    int64_t end = x->q.columns[0].to;
    struct store_query q = x->q;
    int r = 0;

    for (uint32_t w = 0; r == 0 && w < c->n_windows; w++) {
        _cleanup_(tree_freep) struct tree *t = NULL;

        q.columns[0].from = c->from + w * c->width_ns;
        q.columns[0].to = MIN(q.columns[0].from + c->width_ns, end);
        r = x->store->ops->select(x->store, &q, &t, x->e);
        if (r == 0)
            r = add_cell(x, t, w, instance);
    }
    return r;
}

/* The windows of the samples that have this value of the label. */
static int add_instance(struct cube_asking *x, const struct labels *of)
{
    const struct selector *all = x->q.columns[0].selector;
    struct selector one = *all;
    uint32_t instance;
    bool is_new;
    int r = cube_instance(x->out, &x->by_id, labels_id(of), &instance, &is_new);

    one.v = r == 0 ? arena_alloc(&x->out->arena, (all->n + 1) * sizeof *one.v) : NULL;
    if (!one.v)
        return -ENOMEM;
    if (all->n)
        memcpy(one.v, all->v, all->n * sizeof *one.v);
    one.v[one.n++] = (struct matcher){.name = of->v[0].name, .value = of->v[0].value, .op = MATCH_EQ};
    x->out->instances[instance].labels = (struct labels){arena_dup(&x->out->arena, of->v, sizeof *of->v), 1};
    if (!x->out->instances[instance].labels.v)
        return -ENOMEM;
    x->out->instances[instance].labels.v[0].name = arena_str(&x->out->arena, of->v[0].name);
    x->out->instances[instance].labels.v[0].value = arena_str(&x->out->arena, of->v[0].value);
    x->q.columns[0].selector = &one;
    r = add_windows(x, instance);
    x->q.columns[0].selector = all;
    return r;
}

static int ask_selects(struct cube_asking *x, const struct store_cube_query *cq)
{
    static const char *const labels[] = {"service.instance.id", "k8s.pod.name", "host.name"};
    struct store_points p;
    uint32_t instance;
    bool is_new;
    int r = tree_new(1, x->q.memory_limit, &x->out->tree);

    for (size_t i = cq->by_resource ? 0 : 2; r == 0 && i < ARRAY_SIZE(labels); i++)
        r = find_values(x, str_from(labels[i]), &p);
    if (r == 0)
        r = cube_instance(x->out, &x->by_id, (struct id128){0, 1}, &instance, &is_new);
    else if (r == 1) {
        r = 0;
        for (uint32_t i = 0; r == 0 && i < p.n_series; i++)
            r = add_instance(x, &p.labels[i]);
        store_points_done(&p);
        return r;
    }
    return r < 0 ? r : add_windows(x, instance);
}

int store_cube(struct store *s, const struct store_query *q, const struct store_cube_query *cq, struct store_cube *ret,
               struct err *e)
{
    const struct store_column *c = &q->columns[0];
    struct cube_asking x = {.store = s, .q = *q, .out = ret, .e = e};
    int64_t windows = cq->width_ns > 0 && c->to > c->from ? (c->to - c->from - 1) / cq->width_ns + 1 : 0;
    int r;

    *ret = (struct store_cube){.from = c->from, .width_ns = cq->width_ns, .n_windows = (uint32_t) windows};
    arena_init(&ret->arena, q->memory_limit);
    if (windows < 1 || windows > CUBE_WINDOWS_MAX)
        return err_set(e, -EINVAL, "the time range has %lld windows; it must have 1 to %d", (long long) windows,
                       CUBE_WINDOWS_MAX);
    x.q.n_columns = 1;
    x.q.max_nodes = 0;
    x.q.min_share = 0;
    r = s->ops->cube ? s->ops->cube(s, &x.q, cq, ret, e) : ask_selects(&x, cq);
    map_done(&x.by_id);
    if (r < 0)
        store_cube_done(ret);
    else
        cube_finish(ret);
    return r;
}

void store_cube_done(struct store_cube *c)
{
    tree_free(c->tree);
    mem_free(c->cells);
    mem_free(c->values);
    arena_done(&c->arena);
    *c = (struct store_cube){0};
}
