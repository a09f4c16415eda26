/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pyroscope's SelectSeries, see pyroscope.h. A point with the time T has the profiles of (T - step, T]; the first one has the
 * time `start`, and steps without profiles have no point. Averages and exemplars need single profiles, which are listed for
 * them.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/pyroscope.h"

enum { AGGREGATION_SUM, AGGREGATION_AVERAGE };
enum { EXEMPLAR_NONE = 1, EXEMPLAR_INDIVIDUAL, EXEMPLAR_SPAN };

/* The profiles of one series in one step. */
struct py_cell {
    double sum;
    uint32_t count;
    int64_t best, best_time;
    struct id128 handle;
    struct labels labels; /* of the largest profile */
};

struct py_cells {
    const struct store_points *p;
    struct py_cell *v; /* per series and point; NULL when single profiles are not needed */
    struct arena *arena;
    struct str type_id;
    bool counts; /* of samples, instead of time */
};

struct str py_joined(struct arena *a, const struct pbjson_strs *l)
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

/* --- single profiles --- */

/* The series of the answer that a profile belongs to. */
static uint32_t series_of(const struct store_points *p, const struct labels *l)
{
    for (uint32_t i = 0; i < p->n_series; i++) {
        bool same = true;

        for (uint32_t k = 0; same && k < p->labels[i].n; k++)
            same = str_eq(labels_get(l, p->labels[i].v[k].name), p->labels[i].v[k].value);
        if (same)
            return i;
    }
    return UINT32_MAX;
}

/* Labels that are not those of the series, after Pyroscope's own. */
static int copy_rest(struct py_cells *x, const struct labels *l, const struct labels *by, struct labels *ret)
{
    static const char *const parts[] = {"__name__", "__type__", "__unit__", "__period_type__", "__period_unit__"};
    struct str rest = x->type_id, service = labels_get(l, STR("service.name"));

    *ret = (struct labels){.v = arena_zalloc_array(x->arena, (size_t) l->n + ARRAY_SIZE(parts) + 2, sizeof *ret->v)};
    if (!ret->v)
        return -ENOMEM;
    ret->v[ret->n++] = (struct label){STR("__profile_type__"), x->type_id};
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        ret->v[ret->n++] = (struct label){str_from(parts[i]), i + 1 < ARRAY_SIZE(parts) ? str_cut(&rest, ':') : rest};
    if (service.n)
        ret->v[ret->n++] = (struct label){STR("__service_name__"), arena_str(x->arena, service)};
    for (uint32_t i = 0; i < l->n; i++)
        if (!labels_get(by, l->v[i].name).n)
            ret->v[ret->n++] = (struct label){arena_str(x->arena, l->v[i].name), arena_str(x->arena, l->v[i].value)};
    return 0;
}

static int add_profile(void *ctx, const struct store_profile *p)
{
    struct py_cells *x = ctx;
    uint32_t series = series_of(x->p, p->labels);
    int64_t point = (p->time_ns - x->p->from) / x->p->step;
    int64_t value = p->value;
    struct py_cell *c;

    if (series == UINT32_MAX || p->time_ns < x->p->from || point >= (int64_t) x->p->n_points)
        return 0;
    c = &x->v[(size_t) series * x->p->n_points + (size_t) point];
    if (x->counts && p->period_ns > 0)
        value = (value + p->period_ns / 2) / p->period_ns;
    c->sum += (double) value;
    if (c->count++ && value <= c->best)
        return 0;
    c->best = value;
    c->best_time = p->time_ns;
    c->handle = p->handle;
    return copy_rest(x, p->labels, &x->p->labels[series], &c->labels);
}

static int list_profiles(struct call *c, struct query *q, struct py_cells *x, struct err *e)
{
    struct store *s = front_options(c->front)->store;
    const struct store_points *p = x->p;

    for (uint32_t i = 0; p->n_series && i < p->labels[0].n; i++)
        if (!query_is_label(s, q, p->labels[0].v[i].name))
            return err_set(
                e, -ENOSYS,
                "averages and exemplars by '%.*s', which is not a label of every series (store.labels), are not "
                "supported",
                STR_FMT(p->labels[0].v[i].name));
    x->v = arena_zalloc_array(x->arena, (size_t) p->n_series * p->n_points + 1, sizeof *x->v);
    return x->v ? s->ops->profiles(s, &q->q, add_profile, x, e) : -ENOMEM;
}

/* --- the answer --- */

void py_profile_id(struct id128 handle, char ret[40])
{
    uint64_t hi = handle.hi, lo = handle.lo;

    snprintf(ret, 40, "%08llx-%04llx-%04llx-%04llx-%012llx", (unsigned long long) (hi >> 32),
             (unsigned long long) (hi >> 16 & 0xffff), (unsigned long long) (hi & 0xffff),
             (unsigned long long) (lo >> 48), (unsigned long long) (lo & 0xffffffffffff));
}

static void put_exemplar(struct pbjson *w, struct arena *a, const struct py_cell *c)
{
    char id[40];

    py_profile_id(c->handle, id);
    pbjson_list(w, "exemplars");
    pbjson_begin(w, 4, NULL);
    pbjson_i64(w, 1, "timestamp", c->best_time / NS_PER_MS);
    pbjson_str(w, 2, "profileId", str_from(id));
    pbjson_i64(w, 4, "value", c->best);
    py_put_labels(w, 5, a, &c->labels);
    pbjson_end(w);
    pbjson_list_end(w);
}

static void put_points(struct pbjson *w, const struct py_request *r, const struct py_cells *x, uint32_t series)
{
    const struct store_points *p = x->p;

    pbjson_list(w, "points");
    for (uint32_t i = 0; i < p->n_points; i++) {
        const struct py_cell *c = x->v ? &x->v[(size_t) series * p->n_points + i] : NULL;
        double v = p->values[(size_t) series * p->n_points + i];

        if (v == 0 && !(c && c->count))
            continue;
        if (r->aggregation == AGGREGATION_AVERAGE)
            v = c->count ? c->sum / c->count : 0;
        pbjson_begin(w, 2, NULL);
        pbjson_double(w, 1, "value", v);
        pbjson_i64(w, 2, "timestamp", (p->from + (i + 1) * p->step) / NS_PER_MS - 1); /* the last instant of the step */
        if (c && c->count && r->exemplar_type == EXEMPLAR_INDIVIDUAL)
            put_exemplar(w, x->arena, c);
        pbjson_end(w);
    }
    pbjson_list_end(w);
}

struct py_ranked {
    double sum;
    uint32_t series;
    const struct labels *labels; /* decide among equal sums */
};

static int largest_first(const void *a, const void *b)
{
    const struct py_ranked *x = a, *y = b;

    if (x->sum != y->sum)
        return x->sum < y->sum ? 1 : -1;
    for (uint32_t i = 0; i < x->labels->n && i < y->labels->n; i++) {
        int r = str_cmp(x->labels->v[i].value, y->labels->v[i].value);

        if (r)
            return r;
    }
    return (x->series > y->series) - (x->series < y->series);
}

/* Writes the series in the order of their labels; with a limit, those with the largest sums. */
static int put_series(struct pbjson *w, const struct py_request *r, const struct py_cells *x)
{
    const struct store_points *p = x->p;
    struct py_ranked *rank = arena_zalloc_array(x->arena, (size_t) p->n_series + 1, sizeof *rank);

    if (!rank)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->n_series; i++) {
        rank[i].series = i;
        rank[i].labels = &p->labels[i];
        for (uint32_t k = 0; r->limit > 0 && k < p->n_points; k++)
            rank[i].sum += p->values[(size_t) i * p->n_points + k];
    }
    if (p->n_series)
        qsort(rank, p->n_series, sizeof *rank, largest_first);
    pbjson_list(w, "series");
    for (uint32_t i = 0; i < p->n_series && (r->limit <= 0 || i < r->limit); i++) {
        struct labels l = p->labels[rank[i].series], named = {.v = l.v};

        for (uint32_t k = 0; k < l.n; k++) /* as Pyroscope: a label that the series does not have is left out */
            if (l.v[k].value.n)
                named.v[named.n++] = l.v[k];
        pbjson_begin(w, 1, NULL);
        py_put_labels(w, 1, x->arena, &named);
        put_points(w, r, x, rank[i].series);
        pbjson_end(w);
    }
    pbjson_list_end(w);
    return 0;
}

int64_t py_align(struct py_request *r)
{
    int64_t now = clock_wall() / NS_PER_MS, step, n;
    int64_t end = MIN(MAX(r->left.end ? r->left.end : now, CLOCK_MIN / NS_PER_MS), CLOCK_MAX / NS_PER_MS - 1);
    int64_t start = MAX(MIN(r->left.start ? r->left.start : end - 3600000, end), CLOCK_MIN / NS_PER_MS);

    step = r->step >= 0.001 && r->step < 1e9 ? (int64_t) (r->step * 1000) : MAX((end - start) / 60, 1000);
    n = (end - start) / step;
    r->left.start = start - step + 1;
    r->left.end = start + n * step + 1;
    return step * NS_PER_MS;
}

int py_points(struct call *c, const struct py_request *r, struct query *q, const struct query_series_params *p,
              struct store_points *ret, struct err *e)
{
    int result = query_series(front_options(c->front)->store, q, p, ret, e);
    double period;

    if (result < 0 || !py_counts(r->left.type_id))
        return result;
    result = py_period(c, q, 0, &period, e);
    for (size_t i = 0; result == 0 && i < (size_t) ret->n_series * ret->n_points; i++)
        ret->values[i] = round(ret->values[i] / period);
    if (result < 0)
        store_points_done(ret);
    return result;
}

int py_select_series(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_series_params p = {.step = py_align(r), .by = py_joined(&c->q->arena, &r->group_by)};
    struct py_cells cells = {.arena = &c->q->arena, .type_id = r->left.type_id, .counts = py_counts(r->left.type_id)};
    struct store_points points;
    int result = 0;

    if (r->exemplar_type == EXEMPLAR_SPAN)
        return err_set(e, -ENOSYS, "exemplars of spans are not supported; EXEMPLAR_TYPE_INDIVIDUAL is");
    if (r->left.call_site.n > 1)
        return err_set(e, -ENOSYS, "a call site of more than one function is not supported for series");
    if (r->left.call_site.n)
        p.function = r->left.call_site.v[0];
    result = py_compile(c, r, false, NULL, &q, e);
    if (result == 0)
        result = py_points(c, r, q, &p, &points, e);
    if (result < 0)
        return result;
    cells.p = &points;
    if (r->aggregation == AGGREGATION_AVERAGE || r->exemplar_type == EXEMPLAR_INDIVIDUAL)
        result = list_profiles(c, q, &cells, e);
    if (result == 0)
        result = put_series(w, r, &cells);
    store_points_done(&points);
    return result;
}
