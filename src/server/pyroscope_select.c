/* SPDX-License-Identifier: Apache-2.0 */
/* Pyroscope's queries for data: flame graphs, diffs, series, heat maps, merged profiles. See pyroscope.h. */
#include <errno.h>
#include <math.h>

#include "base/clock.h"
#include "base/wrap.h"
#include "codec/pprof.h"
#include "query/flamebearer.h"
#include "server/pprof_json.h"
#include "server/pyroscope.h"

enum { NODES_DEFAULT = 8192 };

static struct store *store_of(struct call *c)
{
    return front_options(c->front)->store;
}

/* --- flame graphs --- */

static int put_flamegraph(struct pbjson *w, const struct tree *t)
{
    struct flamebearer f;
    int r = flamebearer_make(t, &f);

    if (r < 0)
        return r;
    pbjson_begin(w, 1, "flamegraph");
    pbjson_list(w, "names");
    for (uint32_t i = 0; i < f.n_names; i++)
        pbjson_str(w, 1, NULL, flamebearer_name(&f, t, i));
    pbjson_list_end(w);
    pbjson_list(w, "levels");
    for (uint32_t l = 0; l < f.n_levels; l++) {
        pbjson_begin(w, 2, NULL);
        pbjson_i64s(w, 1, "values", f.values + f.level_at[l], f.level_at[l + 1] - f.level_at[l]);
        pbjson_end(w);
    }
    pbjson_list_end(w);
    pbjson_i64(w, 3, "total", wrap_add(f.ticks[0], f.ticks[1]));
    pbjson_i64(w, 4, "maxSelf", f.max_self);
    if (t->n_columns > 1) {
        pbjson_i64(w, 5, "leftTicks", f.ticks[0]);
        pbjson_i64(w, 6, "rightTicks", f.ticks[1]);
    }
    pbjson_end(w);
    flamebearer_done(&f);
    return 0;
}

static int select_tree(struct call *c, struct py_request *r, bool diff, const struct query_params *extra,
                       struct tree **ret, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    int result = py_compile(c, r, diff, extra, &q, e);

    if (result < 0)
        return result;
    if (!q->q.max_nodes)
        q->q.max_nodes = NODES_DEFAULT;
    return query_flame(store_of(c), q, ret, &c->notes, e);
}

int py_stacktraces(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    _cleanup_(tree_freep) struct tree *t = NULL;
    int result = select_tree(c, r, false, NULL, &t, e);

    return result < 0 ? result : put_flamegraph(w, t);
}

int py_diff(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    _cleanup_(tree_freep) struct tree *t = NULL;
    int result = select_tree(c, r, true, NULL, &t, e);

    return result < 0 ? result : put_flamegraph(w, t);
}

/* Grafana names spans without their trace, so each is queried separately and the trees are merged. */
int py_span_profile(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    _cleanup_(tree_freep) struct tree *all = NULL;
    int result = 0;

    for (uint32_t i = 0; result == 0 && i < r->spans.n; i++) {
        struct query_params one = {.span_id = r->spans.v[i], .any_trace = true};
        _cleanup_(tree_freep) struct tree *t = NULL;

        result = select_tree(c, r, false, &one, &t, e);
        if (result == 0 && !all)
            all = TAKE(t);
        else if (result == 0)
            result = tree_merge(all, 0, t, 0);
    }
    if (result < 0 || !all)
        return result;
    return put_flamegraph(w, all);
}

/* --- series --- */

static struct str joined(struct arena *a, const struct pbjson_strs *l)
{
    struct buf b = BUF_INIT;
    struct str s;

    for (uint32_t i = 0; i < l->n; i++) {
        if (i)
            buf_putc(&b, ',');
        buf_put_str(&b, l->v[i]);
    }
    s = arena_str(a, buf_str(&b));
    buf_done(&b);
    return s;
}

static void put_points(struct pbjson *w, const struct store_points *p, uint32_t series)
{
    pbjson_list(w, "points");
    for (uint32_t i = 0; i < p->n_points; i++) {
        pbjson_begin(w, 2, NULL);
        pbjson_double(w, 1, "value", p->values[(size_t) series * p->n_points + i]);
        pbjson_i64(w, 2, "timestamp", (p->from + i * p->step) / NS_PER_MS);
        pbjson_end(w);
    }
    pbjson_list_end(w);
}

/* Converts seconds to nanoseconds; 0 (choose a step) if out of range. */
static int64_t step_of(const struct py_request *r)
{
    return r->step > 0 && r->step < 1e9 ? (int64_t) (r->step * 1e9) : 0;
}

int py_select_series(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_series_params p = {.step = step_of(r), .by = joined(&c->q->arena, &r->group_by)};
    struct store_points points;
    int result = py_compile(c, r, false, NULL, &q, e);

    if (result == 0)
        result = query_series(store_of(c), q, &p, &points, &c->notes, e);
    if (result < 0)
        return result;
    pbjson_list(w, "series");
    for (uint32_t i = 0; i < points.n_series && (r->limit <= 0 || i < r->limit); i++) {
        pbjson_begin(w, 1, NULL);
        py_put_labels(w, 1, &c->q->arena, &points.labels[i]);
        put_points(w, &points, i);
        pbjson_end(w);
    }
    pbjson_list_end(w);
    store_points_done(&points);
    return 0;
}

/* --- heat map --- */

static void put_slot(struct pbjson *w, const struct query_heatmap *h, uint32_t slot)
{
    pbjson_begin(w, 2, NULL);
    pbjson_i64(w, 1, "timestamp", (h->from + (slot + 1) * h->step) / NS_PER_MS);
    pbjson_list(w, "yMin");
    for (int i = 0; i < QUERY_HEAT_ROWS; i++)
        pbjson_double(w, 2, NULL, h->low + (h->high - h->low) * i / QUERY_HEAT_ROWS);
    pbjson_list_end(w);
    pbjson_list(w, "counts");
    for (int i = 0; i < QUERY_HEAT_ROWS; i++)
        pbjson_i32(w, 3, NULL, (int32_t) h->counts[slot][i]);
    pbjson_list_end(w);
    pbjson_end(w);
}

int py_heatmap(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_heatmap h;
    int result = py_compile(c, r, false, NULL, &q, e);

    if (result == 0)
        result = query_heatmap(store_of(c), q, step_of(r), &h, e);
    if (result < 0)
        return result;
    pbjson_list(w, "series");
    if (h.n_profiles) {
        pbjson_begin(w, 1, NULL);
        pbjson_list(w, "slots");
        for (uint32_t i = 0; i < h.n_slots; i++)
            put_slot(w, &h, i);
        pbjson_list_end(w);
        pbjson_end(w);
    }
    pbjson_list_end(w);
    query_heatmap_done(&h);
    return 0;
}

/* --- merged profile: a pprof, which is what google.v1.Profile is --- */

int py_merge_profile(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    _cleanup_(batch_unrefp) struct batch *all = NULL, *one = NULL;
    _cleanup_(buf_done) struct buf message = BUF_INIT;
    int result;

    result = py_compile(c, r, false, NULL, &q, e);
    if (result == 0)
        result = query_export(store_of(c), q, &all, e);
    if (result == 0)
        result = convert_to_single(all, &one, e);
    if (result < 0 || !one->n_profiles)
        return result;
    if (!w->json)
        return pprof_encode_with(one, &one->profiles[0], call_damage(c), &c->out, e);
    result = pprof_encode_with(one, &one->profiles[0], call_damage(c), &message, e);
    return result < 0 ? result : pprof_json(&c->out, &w->first[0], buf_str(&message), e);
}
