/* SPDX-License-Identifier: Apache-2.0 */
/* Trees and series of the engine `memory`, computed by scanning all items; see memory.h. */
#include <errno.h>
#include <math.h>

#include "base/mem.h"
#include "model/identity.h"
#include "model/semconv.h"
#include "store/engines/memory/memory.h"
#include "store/frames.h"
#include "store/store_spans.h"
#include "store/store_table.h"

/* The frames of a batch's locations in a tree, each looked up once: of location i, list[first[i]] is their number, and they follow,
 * outermost first. */
struct frame_memo {
    const struct batch *batch;
    uint32_t *first, *list; /* first: 0 = not looked up yet */
    size_t cap;
    uint32_t n;
};

static void frame_memo_done(struct frame_memo *m)
{
    mem_free(m->first);
    mem_free(m->list);
}

static int frame_memo_begin(struct frame_memo *m, const struct batch *b)
{
    if (m->batch == b)
        return 0;
    mem_free(m->first);
    m->batch = NULL;
    m->first = mem_zalloc_array(b->dict.n_locations + 1, sizeof *m->first);
    if (!m->first)
        return -ENOMEM;
    m->n = 1;
    m->batch = b;
    return 0;
}

static int frame_memo_add(struct frame_memo *m, struct tree *t, uint32_t location, const struct store_query *q)
{
    uint32_t lines = m->batch->dict.locations[location].lines.n, at = m->n, end = lines ? lines : 1;
    int r = array_reserve(m->list, m->cap, (size_t) m->n + end + 1, UINT32_MAX - 1);

    if (r < 0)
        return r;
    m->list[m->n++] = 0;
    for (uint32_t k = end; k-- > 0;) {
        struct frame f;

        if (q->no_inlines && lines && k + 1 < lines)
            break;
        frame_of_location(m->batch, location, k, &f);
        frame_reduce(&f, q->by);
        m->list[m->n] = tree_frame(t, &f);
        if (m->list[m->n++] == TREE_NONE)
            return -ENOMEM;
        m->list[at]++;
    }
    m->first[location] = at;
    return 0;
}

/* A tree that is being made for a query. */
struct growing_tree {
    struct tree *t;
    const struct store_query *q;
    struct frame_memo memo;
};

/* Returns the node of a stack, adding nodes that are missing. */
static uint32_t add_stack(struct growing_tree *x, const struct batch *b, uint32_t stack)
{
    struct run st = b->dict.stacks[stack];
    struct frame_memo *m = &x->memo;
    uint32_t node = 0;

    if (frame_memo_begin(m, b) < 0)
        return TREE_NONE;
    for (uint32_t i = st.n; i-- > 0 && node != TREE_NONE;) {
        uint32_t loc = b->dict.indices[st.off + i], at;

        if (!m->first[loc] && frame_memo_add(m, x->t, loc, x->q) < 0)
            return TREE_NONE;
        at = m->first[loc];
        for (uint32_t k = 1; k <= m->list[at] && node != TREE_NONE; k++)
            node = tree_child(x->t, node, m->list[at + k]);
    }
    return node;
}

static void note(const struct store_query *q, uint64_t profiles, uint64_t samples)
{
    if (q->notes) {
        q->notes->profiles += profiles;
        q->notes->samples += samples;
    }
}

static int add_item(struct growing_tree *x, const struct memory_item *it, const struct match *match, uint32_t column)
{
    const struct profile *p = &it->batch->profiles[it->in.profile];

    note(x->q, 1, 0);
    for (uint32_t i = 0; i < p->samples.n; i++) {
        const struct sample *s = &it->batch->samples[p->samples.off + i];
        uint32_t node;

        if (!memory_sample_matches(it, s, x->q, match) || !memory_sample_value(it, p->samples.off + i, match))
            continue;
        node = add_stack(x, it->batch, s->stack);
        if (node == TREE_NONE)
            return -ENOMEM;
        tree_add(x->t, node, column, memory_sample_value(it, p->samples.off + i, match));
        note(x->q, 0, 1);
    }
    return 0;
}

/* --- gauges --- */

struct gauge_stack {
    struct id128 id;
    const struct batch *batch;
    uint32_t stack;
    int64_t sum;
};

struct gauge {
    struct gauge_stack *v;
    size_t cap;
    uint32_t n, snapshots;
    struct map map;
};

static int gauge_add(struct gauge *g, const struct batch *b, uint32_t stack, struct id128 id, int64_t value)
{
    int r;

    for (struct map_pos p = map_find(&g->map, hash64_id(id)); p.index != MAP_NONE; p = map_next(&g->map, p))
        if (id128_eq(g->v[p.index].id, id)) {
            g->v[p.index].sum = wrap_add(g->v[p.index].sum, value);
            return 0;
        }
    r = array_reserve(g->v, g->cap, (size_t) g->n + 1, UINT32_MAX);
    if (r == 0)
        r = map_insert(&g->map, hash64_id(id), g->n);
    if (r == 0)
        g->v[g->n++] = (struct gauge_stack){id, b, stack, value};
    return r;
}

static int gauge_item(struct gauge *g, const struct memory_item *it, const struct store_query *q,
                      const struct match *match)
{
    const struct profile *p = &it->batch->profiles[it->in.profile];
    struct arena a;
    struct identity_memo memo;
    bool any = false;
    int r = 0;

    arena_init(&a, 0);
    r = identity_memo_init(&memo, it->batch, &a);
    for (uint32_t i = 0; i < p->samples.n; i++)
        any |= memory_sample_matches(it, &it->batch->samples[p->samples.off + i], q, match);
    g->snapshots += any || !store_query_by_span(q); /* for a trace, only snapshots that contain it */
    for (uint32_t i = 0; r == 0 && i < p->samples.n; i++) {
        const struct sample *s = &it->batch->samples[p->samples.off + i];

        if (memory_sample_matches(it, s, q, match))
            r = gauge_add(g, it->batch, s->stack, identity_stack_of(it->batch, s->stack, &memo),
                          memory_sample_value(it, p->samples.off + i, match));
    }
    arena_done(&a);
    return r;
}

/* Averages all snapshots of the instance of item `first`, stack by stack. */
static int add_gauge(struct memory_store *m, struct growing_tree *x, uint32_t first, const struct match *match,
                     uint32_t column)
{
    const struct store_query *q = x->q;
    struct gauge g = {0};
    int r = 0;

    for (uint32_t i = first; r == 0 && i < m->n; i++) {
        const struct memory_item *it = &m->items[i];

        if (!memory_item_matches(m, it, q, match, &q->columns[column]) ||
            !id128_eq(it->instance, m->items[first].instance))
            continue;
        r = gauge_item(&g, it, q, match);
    }
    for (uint32_t i = 0; r == 0 && i < g.n; i++) {
        int64_t mean = llround((double) g.v[i].sum / g.snapshots);
        uint32_t node = mean ? add_stack(x, g.v[i].batch, g.v[i].stack) : 0;

        if (node == TREE_NONE)
            r = -ENOMEM;
        else
            tree_add(x->t, node, column, mean);
    }
    mem_free(g.v);
    map_done(&g.map);
    return r;
}

/* 1 if no item of the same instance came before, 0, or -ENOMEM. seen has the first items of instances. */
static int is_first_of_instance(const struct memory_store *m, struct map *seen, uint32_t i)
{
    struct id128 instance = m->items[i].instance;
    int r;

    for (struct map_pos p = map_find(seen, hash64_id(instance)); p.index != MAP_NONE; p = map_next(seen, p))
        if (id128_eq(m->items[p.index].instance, instance))
            return 0;
    r = map_insert(seen, hash64_id(instance), i);
    return r < 0 ? r : 1;
}

static int select_column(struct memory_store *m, const struct store_query *q, uint32_t column, struct tree *t,
                         struct err *e)
{
    struct growing_tree x = {.t = t, .q = q};
    _cleanup_(map_done) struct map instances = MAP_INIT;
    struct match match;
    int r = match_column(&match, &q->columns[column], m->limits.allow, true, e);

    for (uint32_t i = 0; r == 0 && i < m->n; i++) {
        const struct memory_item *it = &m->items[i];

        if (q->cancel && atomic_load(q->cancel))
            r = err_set(e, -ECANCELED, "cancelled");
        if (r < 0 || !memory_item_matches(m, it, q, &match, &q->columns[column]))
            continue;
        t->type = it->in.type.name;
        t->unit = it->in.type.unit;
        if (it->in.type.rule != TYPE_GAUGE)
            r = add_item(&x, it, &match, column);
        else if ((r = is_first_of_instance(m, &instances, i)) > 0)
            r = add_gauge(m, &x, i, &match, column);
    }
    frame_memo_done(&x.memo);
    return r;
}

int memory_select(struct store *s, const struct store_query *q, struct tree **ret, struct err *e)
{
    struct memory_store *m = container_of(s, struct memory_store, store);
    struct tree *t;
    int r = tree_new(q->n_columns, q->memory_limit, &t);

    if (r < 0)
        return r;
    pthread_mutex_lock(&m->lock);
    for (uint32_t c = 0; r == 0 && c < q->n_columns; c++)
        r = select_column(m, q, c, t, e);
    if (r == 0) {
        tree_sum_up(t);
        r = frames_finish_tree(t, q, ret, e);
    } else {
        tree_free(t);
    }
    pthread_mutex_unlock(&m->lock);
    return r;
}

int memory_table(struct store *s, const struct store_query *q, const struct store_table_query *tq,
                 struct store_table *ret, struct err *e)
{
    _cleanup_(tree_freep) struct tree *tree = NULL;
    struct store_query sq = *q;
    int r = store_table_init(ret, tq);

    sq.by = store_table_granularity(tq->rows);
    sq.max_nodes = 0;
    sq.min_share = 0;
    if (r == 0)
        r = memory_select(s, &sq, &tree, e);
    if (r == 0)
        r = store_table_add_tree(ret, tree);
    if (r < 0)
        store_table_done(ret);
    return r;
}

/* --- spans --- */

/* Adds the samples of an item; their range is that of their timestamps or, without any, of the profile. */
static int add_spans(struct store_spans *to, const struct memory_item *it, const struct store_query *q,
                     const struct match *match)
{
    const struct batch *b = it->batch;
    const struct profile *p = &b->profiles[it->in.profile];
    struct str service = labels_get(it->labels, STR(SEMCONV_SERVICE_NAME));
    int r = 0;

    if (!to->unit.n)
        to->unit = arena_str(&to->arena, it->in.type.unit);
    for (uint32_t i = 0; r == 0 && i < p->samples.n; i++) {
        const struct sample *s = &b->samples[p->samples.off + i];
        struct span_sample v = {.link = s->link ? &b->dict.links[s->link] : NULL,
                                .service = service,
                                .value = memory_sample_value(it, p->samples.off + i, match),
                                .count = intake_is_stamped(&it->in, s) ? s->timestamps.n : 1,
                                .from = it->time_ns,
                                .to = wrap_add(it->time_ns, p->duration_ns)};

        if (!memory_sample_matches(it, s, q, match))
            continue;
        for (uint32_t k = 0; intake_is_stamped(&it->in, s) && k < s->timestamps.n; k++) {
            int64_t t = (int64_t) b->timestamps[s->timestamps.off + k];

            v.from = k ? MIN(v.from, t) : t;
            v.to = k ? MAX(v.to, t) : t;
        }
        r = store_spans_add(to, &v);
    }
    return r;
}

int memory_spans(struct store *s, const struct store_query *q, struct store_spans *ret, struct err *e)
{
    struct memory_store *m = container_of(s, struct memory_store, store);
    struct match match;
    int r = match_column(&match, &q->columns[0], m->limits.allow, true, e);

    if (r < 0)
        return r;
    store_spans_init(ret);
    pthread_mutex_lock(&m->lock);
    for (uint32_t i = 0; r == 0 && i < m->n; i++)
        if (memory_item_matches(m, &m->items[i], q, &match, &q->columns[0]))
            r = add_spans(ret, &m->items[i], q, &match);
    pthread_mutex_unlock(&m->lock);
    if (r < 0)
        store_spans_done(ret);
    return r;
}

/* --- series --- */

static bool holds_function(const struct batch *b, uint32_t stack, struct str name)
{
    struct run st = b->dict.stacks[stack];

    for (uint32_t i = 0; i < st.n; i++) {
        uint32_t loc = b->dict.indices[st.off + i];

        for (uint32_t k = 0; k < b->dict.locations[loc].lines.n; k++) {
            struct frame f;

            frame_of_location(b, loc, k, &f);
            if (str_eq(f.function, name))
                return true;
        }
    }
    return false;
}

/* Returns the row of these values of the `by` labels, adding it if new. */
static int find_row(struct store_points *p, const struct str *values, const struct store_query *q,
                    const struct store_series_query *sq, uint32_t *ret)
{
    struct labels l, *grown;
    double *more;

    for (uint32_t i = 0; i < p->n_series; i++) {
        uint32_t k = 0;

        while (k < sq->n_by && str_eq(p->labels[i].v[k].value, values[k]))
            k++;
        if (k == sq->n_by) {
            *ret = i;
            return 0;
        }
    }
    l = (struct labels){.v = arena_zalloc_array(&p->arena, sq->n_by + 1, sizeof *l.v)};
    if (!l.v)
        return -ENOMEM;
    for (uint32_t i = 0; i < sq->n_by; i++)
        l.v[l.n++] = (struct label){arena_str(&p->arena, sq->by[i]), arena_str(&p->arena, values[i])};
    if (store_points_fit(q, p, (size_t) p->n_series + 1) < 0)
        return -E2BIG;
    grown = arena_zalloc_array(&p->arena, p->n_series + 1, sizeof *grown);
    more = mem_realloc_array(p->values, (size_t) (p->n_series + 1) * p->n_points + 1, sizeof *more);
    if (more)
        p->values = more;
    if (!grown || !more)
        return -ENOMEM;
    if (p->n_series)
        memcpy(grown, p->labels, p->n_series * sizeof *grown);
    grown[p->n_series] = l;
    memset(more + (size_t) p->n_series * p->n_points, 0, p->n_points * sizeof *more);
    p->labels = grown;
    *ret = p->n_series++;
    return 0;
}

/* How many snapshots of gauges each instance has in each step; each has the weight 1 / that count. */
struct snapshot_counts {
    struct map map;
    struct snapshot_count {
        struct id128 instance;
        int64_t bucket;
        uint32_t n;
    } * v;
    size_t cap;
    uint32_t n;
};

static void snapshot_counts_done(struct snapshot_counts *c)
{
    map_done(&c->map);
    mem_free(c->v);
}

/* The count of the item's instance and step, NULL if there is none yet. */
static struct snapshot_count *snapshots_find(const struct snapshot_counts *c, const struct memory_item *it,
                                             const struct store_points *p)
{
    int64_t bucket = (it->time_ns - p->from) / p->step;

    for (struct map_pos at = map_find(&c->map, hash64_id(it->instance) + hash64_u64((uint64_t) bucket));
         at.index != MAP_NONE; at = map_next(&c->map, at))
        if (id128_eq(c->v[at.index].instance, it->instance) && c->v[at.index].bucket == bucket)
            return &c->v[at.index];
    return NULL;
}

static int snapshots_add(struct snapshot_counts *c, const struct memory_item *it, const struct store_points *p)
{
    struct snapshot_count *found = snapshots_find(c, it, p), new = {it->instance, (it->time_ns - p->from) / p->step, 1};
    int r;

    if (found) {
        found->n++;
        return 0;
    }
    r = array_push(c->v, c->n, c->cap, UINT32_MAX, new);
    return r < 0 ? r : map_insert(&c->map, hash64_id(new.instance) + hash64_u64((uint64_t) new.bucket), c->n - 1);
}

struct point_adding {
    const struct memory_store *m;
    const struct store_query *q;
    const struct store_series_query *sq;
    const struct match *match;
    struct store_points *p;
    struct snapshot_counts snapshots;
};

/* The row of a sample; s is NULL for one of a profile without samples, whose labels are those of its series. */
static int find_row_of(const struct point_adding *x, const struct memory_item *it, const struct sample *s,
                       uint32_t *ret)
{
    const struct store_series_query *sq = x->sq;
    struct buf texts[STORE_BY_MAX] = {{0}};
    struct str values[STORE_BY_MAX];
    int r;

    for (uint32_t i = 0; i < sq->n_by; i++) {
        buf_put_str(&texts[i], labels_get(it->labels, sq->by[i]));
        if (!texts[i].n && s && !match_is_label(x->m->limits.allow, sq->by[i]))
            memory_find_attr(it, s, sq->by[i], &texts[i]);
        values[i] = buf_str(&texts[i]);
    }
    r = find_row(x->p, values, x->q, sq, ret);
    for (uint32_t i = 0; i < sq->n_by; i++)
        buf_done(&texts[i]);
    return r;
}

/* Whether the query selects a sample of the item, or all of it. */
static bool any_matches(const struct memory_item *it, const struct store_query *q, const struct match *match)
{
    const struct profile *p = &it->batch->profiles[it->in.profile];
    bool any = match_decides(match, it->labels) && !store_query_by_span(q);

    for (uint32_t i = 0; !any && i < p->samples.n; i++)
        any = memory_sample_matches(it, &it->batch->samples[p->samples.off + i], q, match);
    return any;
}

/* Adds the samples of an item, each with the weight of its snapshot, to the rows of their groups. */
static int add_points(const struct point_adding *x, const struct memory_item *it)
{
    const struct store_series_query *sq = x->sq;
    struct store_points *p = x->p;
    const struct profile *prof = &it->batch->profiles[it->in.profile];
    size_t point = (size_t) ((it->time_ns - p->from) / p->step);
    double weight = it->in.type.rule == TYPE_GAUGE ? 1. / snapshots_find(&x->snapshots, it, p)->n : 1;
    bool by_series = true;
    uint32_t row;
    int r = 0;

    for (uint32_t i = 0; i < sq->n_by; i++)
        by_series &= labels_get(it->labels, sq->by[i]).n || match_is_label(x->m->limits.allow, sq->by[i]);
    if (by_series && (it->in.type.rule == TYPE_GAUGE || any_matches(it, x->q, x->match)))
        r = find_row_of(x, it, NULL, &row); /* even when the function is in none of its samples */
    for (uint32_t i = 0; r == 0 && i < prof->samples.n; i++) {
        const struct sample *s = &it->batch->samples[prof->samples.off + i];

        if (!memory_sample_matches(it, s, x->q, x->match) ||
            (sq->function.n && !holds_function(it->batch, s->stack, sq->function)))
            continue;
        r = find_row_of(x, it, s, &row);
        if (r == 0)
            p->values[(size_t) row * p->n_points + point] +=
                weight * (double) memory_sample_value(it, prof->samples.off + i, x->match);
    }
    return r;
}

int memory_series(struct store *s, const struct store_query *q, const struct store_series_query *sq,
                  struct store_points *ret, struct err *e)
{
    struct memory_store *m = container_of(s, struct memory_store, store);
    const struct store_column *c = &q->columns[0];
    struct match match;
    struct store_points p;
    struct point_adding x = {.m = m, .q = q, .sq = sq, .match = &match, .p = &p};
    int r = match_column(&match, c, m->limits.allow, true, e);

    if (r == 0)
        r = store_points_init(q, sq, &p, e);
    if (r < 0)
        return r;
    p.type = match.type;
    pthread_mutex_lock(&m->lock);
    for (uint32_t i = 0; r == 0 && i < m->n; i++)
        if (m->items[i].in.type.rule == TYPE_GAUGE && memory_item_matches(m, &m->items[i], q, &match, c))
            r = snapshots_add(&x.snapshots, &m->items[i], &p);
    for (uint32_t i = 0; r == 0 && i < m->n; i++) {
        if (!memory_item_matches(m, &m->items[i], q, &match, c))
            continue;
        note(q, 1, 0);
        r = add_points(&x, &m->items[i]);
    }
    pthread_mutex_unlock(&m->lock);
    snapshot_counts_done(&x.snapshots);
    if (r == -E2BIG)
        store_points_refuse(&p, e);
    if (r < 0) {
        store_points_done(&p);
        return r;
    }
    *ret = p;
    return 0;
}
