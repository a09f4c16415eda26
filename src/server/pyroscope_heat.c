/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pyroscope's SelectHeatmap, see pyroscope.h: profiles, or spans, by time and value. A slot with the time T has the points
 * of (T - step, T]; the first slot has the time `start`, and slots without points are left out. Values are in HEAT_ROWS
 * equal ranges between the smallest and the largest of all series. Exemplars are the largest point of each range.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/wrap.h"
#include "server/pyroscope.h"
#include "store/store_spans.h"

enum { HEAT_ROWS = 20, POINTS_MAX = 200000, SERIES_MAX = 1000, BY_SPAN = 2, SPAN_SLOTS_MAX = 240 };

struct heat_point {
    int64_t ms, at_ms, value; /* the end of its step, and its own time */
    uint32_t series, row;
    struct id128 handle; /* of a profile */
    bool is_span;
    struct link link;     /* of a span */
    struct labels labels; /* without those of its series */
};

struct heat {
    struct arena *arena;
    const struct py_request *request;
    struct heat_point *points;
    uint32_t n, cap;
    struct labels series[SERIES_MAX];
    uint32_t n_series;
    int64_t start, end, step; /* ms */
    double period;            /* ns per sample where samples are counted, else 1 */
    bool exemplars;
};

/* --- collecting points --- */

static bool is_grouped_by(const struct py_request *r, struct arena *a, struct str name)
{
    for (uint32_t i = 0; i < r->group_by.n; i++)
        if (str_eq(py_label_name(a, r->group_by.v[i]), py_label_name(a, name)))
            return true;
    return false;
}

/* Splits labels into those that the series is grouped by and the rest. */
static int split_labels(struct heat *h, const struct labels *l, struct labels *ret_by, struct labels *ret_rest)
{
    ret_by->n = ret_rest->n = 0;
    ret_by->v = arena_zalloc_array(h->arena, (size_t) l->n + 1, sizeof *ret_by->v);
    ret_rest->v = arena_zalloc_array(h->arena, (size_t) l->n + 1, sizeof *ret_rest->v);
    if (!ret_by->v || !ret_rest->v)
        return -ENOMEM;
    for (uint32_t i = 0; i < l->n; i++) {
        struct labels *to = is_grouped_by(h->request, h->arena, l->v[i].name) ? ret_by : ret_rest;

        if (to == ret_rest && !h->exemplars)
            continue;
        to->v[to->n++] = (struct label){arena_str(h->arena, l->v[i].name), arena_str(h->arena, l->v[i].value)};
    }
    return 0;
}

static int find_series(struct heat *h, const struct labels *by, uint32_t *ret)
{
    for (*ret = 0; *ret < h->n_series; (*ret)++)
        if (id128_eq(labels_id(&h->series[*ret]), labels_id(by)))
            return 0;
    if (h->n_series == SERIES_MAX)
        return -E2BIG;
    h->series[h->n_series++] = *by;
    return 0;
}

/* As Pyroscope rounds times: up to the end of the step, within the range. */
static int64_t slot_of(const struct heat *h, int64_t ms)
{
    int64_t steps = ms <= h->start ? 0 : (ms - h->start + h->step - 1) / h->step;

    return h->start + MIN(steps, (h->end - h->start + h->step - 1) / h->step) * h->step;
}

static int add_point(struct heat *h, struct heat_point *p, const struct labels *l, int64_t time_ns)
{
    struct labels by;
    int r = split_labels(h, l, &by, &p->labels);

    if (r == 0)
        r = find_series(h, &by, &p->series);
    if (r < 0)
        return r;
    p->at_ms = time_ns / NS_PER_MS;
    p->ms = slot_of(h, p->at_ms);
    if (h->period > 1)
        p->value = clamp_double(round((double) p->value / h->period));
    if (h->n == h->cap) {
        uint32_t cap = h->cap ? h->cap * 2 : 256;
        struct heat_point *more = h->n == POINTS_MAX ? NULL : arena_alloc(h->arena, cap * sizeof *more);

        if (!more)
            return h->n == POINTS_MAX ? -E2BIG : -ENOMEM;
        if (h->n)
            memcpy(more, h->points, h->n * sizeof *more);
        h->points = more;
        h->cap = cap;
    }
    h->points[h->n++] = *p;
    return 0;
}

static int add_profile(void *ctx, const struct store_profile *p)
{
    struct heat_point point = {.value = p->value, .handle = p->handle};

    return add_point(ctx, &point, p->labels, p->time_ns);
}

static int add_spans(struct heat *h, const struct store_spans *spans)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < spans->n; i++) {
        const struct store_span *s = &spans->v[i];
        struct heat_point point = {.value = s->value, .is_span = true, .link = s->link};
        struct label service = {STR("service.name"), s->service};

        r = add_point(h, &point, &(struct labels){.v = &service, .n = s->service.n ? 1 : 0}, s->from);
    }
    return r;
}

/* A span is a point in each step in which it has samples. */
static int collect_spans(struct heat *h, struct store *s, const struct query *q, struct err *e)
{
    int64_t slots = (h->end - h->start) / h->step + 1, steps = (slots + SPAN_SLOTS_MAX - 1) / SPAN_SLOTS_MAX;
    int64_t width = steps * h->step;
    int r = 0;

    for (int64_t end = h->start; r == 0 && end - width < h->end; end += width) {
        struct store_query one = q->q;
        struct store_spans spans = {0};

        one.columns[0].from = MAX(one.columns[0].from, (end - width) * NS_PER_MS + 1);
        one.columns[0].to = MIN(one.columns[0].to, end * NS_PER_MS + 1);
        if (one.columns[0].from >= one.columns[0].to)
            continue;
        r = s->ops->spans(s, &one, &spans, e);
        if (r == 0)
            r = add_spans(h, &spans);
        store_spans_done(&spans);
    }
    return r;
}

/* --- the answer --- */

static int by_place(const void *a, const void *b)
{
    const struct heat_point *x = a, *y = b;

    if (x->series != y->series)
        return x->series < y->series ? -1 : 1;
    if (x->ms != y->ms)
        return x->ms < y->ms ? -1 : 1;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return (x->value < y->value) - (x->value > y->value); /* the largest first */
}

/* The lower end of a range of values; whole numbers, as Pyroscope's. Senders choose values as far apart as they like. */
static int64_t row_min(int64_t low, int64_t high, uint32_t row)
{
    double width = ((double) high - (double) low) / HEAT_ROWS;

    return wrap_add(low, clamp_double((double) row * width));
}

static void set_rows(struct heat *h, int64_t *ret_low, int64_t *ret_high)
{
    int64_t low = INT64_MAX, high = 0;

    for (uint32_t i = 0; i < h->n; i++) {
        low = MIN(low, h->points[i].value);
        high = MAX(high, h->points[i].value);
    }
    if (low == high)
        high = wrap_add(low, 1);
    for (uint32_t i = 0; i < h->n; i++) {
        struct heat_point *p = &h->points[i];

        for (p->row = HEAT_ROWS - 1; p->row > 0 && p->value < row_min(low, high, p->row);)
            p->row--;
    }
    *ret_low = low;
    *ret_high = high;
}

static void put_exemplar(struct pbjson *w, struct arena *a, const struct heat_point *p)
{
    char id[40], hex[33];

    pbjson_begin(w, 4, NULL);
    pbjson_i64(w, 1, "timestamp", p->at_ms);
    if (p->is_span) {
        *hex_write(hex, p->link.span_id, 8) = 0;
        pbjson_str(w, 3, "spanId", str_from(hex));
    } else {
        py_profile_id(p->handle, id);
        pbjson_str(w, 2, "profileId", str_from(id));
    }
    pbjson_i64(w, 4, "value", p->value);
    py_put_labels(w, 5, a, &p->labels);
    if (p->is_span) {
        static const uint8_t none[16];

        *hex_write(hex, p->link.trace_id, 16) = 0;
        if (memcmp(p->link.trace_id, none, sizeof none) != 0)
            pbjson_str(w, 6, "traceId", str_from(hex));
    }
    pbjson_end(w);
}

/* Points [from, to) are those of one slot, in the order of their rows. */
static void put_slot(struct pbjson *w, const struct heat *h, uint32_t from, uint32_t to, const int64_t bounds[2])
{
    int32_t counts[HEAT_ROWS] = {0};

    for (uint32_t i = from; i < to; i++)
        counts[h->points[i].row]++;
    pbjson_begin(w, 2, NULL);
    pbjson_i64(w, 1, "timestamp", h->points[from].ms);
    pbjson_list(w, "yMin");
    for (uint32_t i = 0; i < HEAT_ROWS; i++)
        pbjson_double(w, 2, NULL, (double) row_min(bounds[0], bounds[1], i));
    pbjson_list_end(w);
    pbjson_list(w, "counts");
    for (uint32_t i = 0; i < HEAT_ROWS; i++)
        pbjson_i32(w, 3, NULL, counts[i]);
    pbjson_list_end(w);
    if (h->exemplars) {
        pbjson_list(w, "exemplars");
        for (uint32_t i = from; i < to; i++)
            if (i == from || h->points[i].row != h->points[i - 1].row)
                put_exemplar(w, h->arena, &h->points[i]);
        pbjson_list_end(w);
    }
    pbjson_end(w);
}

static void put_heat(struct pbjson *w, struct heat *h)
{
    int64_t bounds[2];

    set_rows(h, &bounds[0], &bounds[1]);
    if (h->n)
        qsort(h->points, h->n, sizeof *h->points, by_place);
    pbjson_list(w, "series");
    for (uint32_t i = 0; i < h->n;) {
        uint32_t series = h->points[i].series;

        pbjson_begin(w, 1, NULL);
        py_put_labels(w, 1, h->arena, &h->series[series]);
        pbjson_list(w, "slots");
        while (i < h->n && h->points[i].series == series) {
            uint32_t from = i;

            while (i < h->n && h->points[i].series == series && h->points[i].ms == h->points[from].ms)
                i++;
            put_slot(w, h, from, i, bounds);
        }
        pbjson_list_end(w);
        pbjson_end(w);
    }
    pbjson_list_end(w);
}

static int check(struct call *c, const struct py_request *r, const struct query *q, struct err *e)
{
    struct store *s = front_options(c->front)->store;

    for (uint32_t i = 0; i < r->group_by.n; i++)
        if (!query_is_label(s, q, r->group_by.v[i]) ||
            (r->query_type == BY_SPAN && !str_is(py_label_name(&c->q->arena, r->group_by.v[i]), "service_name")))
            return err_set(e, -ENOSYS, "heat maps by '%.*s' are not supported", STR_FMT(r->group_by.v[i]));
    return 0;
}

int py_heatmap(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct store *s = front_options(c->front)->store;
    struct heat *h = arena_zalloc(&c->q->arena, sizeof *h);
    int result = h ? py_compile(c, r, false, NULL, &q, e) : -ENOMEM;

    if (result == 0)
        result = check(c, r, q, e);
    if (result < 0)
        return result;
    *h = (struct heat){.arena = &c->q->arena,
                       .request = r,
                       .start = q->q.columns[0].from / NS_PER_MS,
                       .end = q->q.columns[0].to / NS_PER_MS,
                       .period = 1,
                       .exemplars = r->exemplar_type > 1};
    h->step = r->step >= 0.001 && r->step < 1e9 ? (int64_t) (r->step * 1000) : MAX((h->end - h->start) / 60, 1000);
    if (py_counts(r->left.type_id))
        result = py_period(c, q, 0, &h->period, e);
    if (result == 0 && r->query_type == BY_SPAN)
        result = collect_spans(h, s, q, e);
    else if (result == 0)
        result = s->ops->profiles(s, &q->q, add_profile, h, e);
    if (result == -E2BIG)
        err_set(e, result, "more than %d points or %d series: choose a shorter range or a narrower selector",
                POINTS_MAX, SERIES_MAX);
    if (result == 0)
        put_heat(w, h);
    return result;
}
