/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_coverage() and query_step_coverage() of query.h: how much time the profiles of a selection cover, so that a
 * rate is per profiled second and not per requested second.
 *
 * A profile covers its duration from its start on; where several overlap, time counts once. A gap of up to GAP_NS
 * between two profiles counts as covered, since a process that slept during it had no samples and therefore no profile.
 * Time before the first and after the last profile does not count.
 *
 * Coverage is that of the selection. One of spans has the services whose samples are linked to these spans: all profiles of
 * those count, and none of other services.
 *
 * Profiles of several sources start at different times. Those that started shortly before the range are looked at, too:
 * time that they cover was counted with them, so that the first step has as much time per profile as the others.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/wrap.h"
#include "model/semconv.h"
#include "query/query.h"

enum { SPANS_MAX = 1 << 24, GROUPS_CACHED = 256, NO_GROUP = UINT32_MAX };
static const int64_t GAP_NS = 60 * NS_PER_S, LOOK_BACK_NS = 120 * NS_PER_S;

struct span {
    int64_t start, end;
    uint32_t group; /* series of the answer that it belongs to; 0 when only the whole is asked for */
};

/* The services that a selection of spans has samples of. */
struct linked_services {
    struct str *v;
    size_t n, cap;
    struct arena arena;
    const struct labels *last; /* the labels of a series have one address during a listing */
};

struct spans {
    struct span *v;
    size_t n, cap;
    const struct store_points *points; /* its series are the groups; NULL: there is one */
    struct {
        const struct labels *labels;
        uint32_t group;
    } cached[GROUPS_CACHED];           /* the labels of a series have one address during a listing */
    const struct linked_services *of; /* profiles of other services do not count; NULL: all count */
    const struct store_column *column; /* whose samples are selected; spans that start before it does are not counted */
    uint32_t rate_min, rate_max;
    double samples, seconds; /* number of samples, and the time that they stand for */
};

/* --- services of spans --- */

static bool is_linked(const struct linked_services *l, const struct labels *labels)
{
    struct str service = labels_get(labels, STR(SEMCONV_SERVICE_NAME));
    size_t i = 0;

    while (i < l->n && !str_eq(l->v[i], service))
        i++;
    return i < l->n;
}

static int add_linked(void *ctx, const struct store_profile *p)
{
    struct linked_services *l = ctx;
    struct str name;

    if (p->labels == l->last || is_linked(l, p->labels))
        return 0;
    l->last = p->labels;
    name = arena_str(&l->arena, labels_get(p->labels, STR(SEMCONV_SERVICE_NAME)));
    return l->arena.failed ? -ENOMEM : array_push(l->v, l->n, l->cap, SPANS_MAX, name);
}

/* Of both columns: a service without such samples in one of them is covered there, too. */
static int find_linked(struct store *s, const struct query *q, struct linked_services *ret, struct err *e)
{
    int r = 0;

    arena_init(&ret->arena, 0);
    for (uint32_t c = 0; r == 0 && c < q->q.n_columns && store_query_by_span(&q->q); c++) {
        struct store_query sq = q->q;

        sq.columns[0] = q->q.columns[c];
        sq.n_columns = 1;
        sq.times_only = true;
        sq.notes = NULL;
        ret->last = NULL;
        r = s->ops->profiles(s, &sq, add_linked, ret, e);
    }
    return r;
}

static void linked_done(struct linked_services *l)
{
    mem_free(l->v);
    arena_done(&l->arena);
}

/* --- collecting --- */

static uint32_t find_group(const struct store_points *p, const struct labels *l)
{
    for (uint32_t g = 0; g < p->n_series; g++) {
        const struct labels *by = &p->labels[g];
        uint32_t k = 0;

        while (k < by->n && str_eq(labels_get(l, by->v[k].name), by->v[k].value))
            k++;
        if (k == by->n)
            return g;
    }
    return NO_GROUP;
}

static uint32_t group_of(struct spans *s, const struct labels *l)
{
    size_t at = (uintptr_t) l / sizeof *l % GROUPS_CACHED;

    if (!s->points)
        return 0;
    if (s->cached[at].labels != l) {
        s->cached[at].labels = l;
        s->cached[at].group = find_group(s->points, l);
    }
    return s->cached[at].group;
}

static void add_rate(struct spans *s, const struct store_profile *p)
{
    uint32_t rate = (uint32_t) ((NS_PER_S + p->period_ns / 2) / p->period_ns);

    if (!rate)
        return;
    s->samples += (double) p->value / (double) p->period_ns;
    s->seconds += (double) p->value / NS_PER_S;
    s->rate_min = s->rate_min ? MIN(s->rate_min, rate) : rate;
    s->rate_max = MAX(s->rate_max, rate);
}

static int add_span(void *ctx, const struct store_profile *p)
{
    struct spans *s = ctx;
    struct span *last = s->n ? &s->v[s->n - 1] : NULL, x;

    if (s->of && !is_linked(s->of, p->labels))
        return 0;
    if (p->period_ns > 1 && p->time_ns >= s->column->from) /* 1: every event, not a rate */
        add_rate(s, p);
    if (p->duration_ns <= 0 || p->time_ns > INT64_MAX - p->duration_ns)
        return 0;
    x = (struct span){p->time_ns, p->time_ns + p->duration_ns, group_of(s, p->labels)};
    if (s->column->taken_to) {
        x.start = MAX(x.start, s->column->taken_from);
        x.end = MIN(x.end, s->column->taken_to);
        if (x.start >= x.end)
            return 0;
    }
    if (last && last->start == x.start && last->group == x.group) { /* the processes of one batch */
        last->end = MAX(last->end, x.end);
        return 0;
    }
    return array_push(s->v, s->n, s->cap, SPANS_MAX, x);
}

static int by_start(const void *a, const void *b)
{
    const struct span *x = a, *y = b;

    return (x->start > y->start) - (x->start < y->start);
}

static int collect(struct store *s, const struct query *q, const struct linked_services *of, uint32_t column,
                   struct spans *ret, struct err *e)
{
    struct store_query sq = q->q;
    struct store_notes notes = {0};
    int r;

    ret->of = of->n ? of : NULL;
    sq.columns[0] = q->q.columns[column];
    sq.notes = &notes;
    sq.n_columns = 1;
    sq.times_only = true;
    sq.columns[0].spans = NULL;
    sq.columns[0].taken_to = 0;
    if (!q->q.columns[column].taken_to) /* else each profile is cut to the time taken */
        sq.columns[0].from -= MIN(LOOK_BACK_NS, MAX(sq.columns[0].from, 0));
    ret->column = &q->q.columns[column];
    sq.has_trace = sq.has_span = false; /* profiles without such samples cover their time, too */
    sq.focus = sq.ignore = sq.hide = (struct str){0};
    r = s->ops->profiles(s, &sq, add_span, ret, e);
    if (r == 0 && ret->n)
        qsort(ret->v, ret->n, sizeof *ret->v, by_start);
    if (r == 0 && q->q.notes && !q->q.notes->damaged) { /* else the query itself has noted it */
        q->q.notes->damaged = notes.damaged;
        memcpy(q->q.notes->damage, notes.damage, sizeof notes.damage);
    }
    if (r == 0 && q->q.notes && ret->rate_min) {
        struct store_notes *n = q->q.notes;
        double mean = ret->seconds > 0 ? ret->samples / ret->seconds : ret->rate_min;

        n->rate_mean = n->rate_mean > 0 ? fmin(n->rate_mean, mean) : mean;
        n->rate_min = n->rate_min ? MIN(n->rate_min, ret->rate_min) : ret->rate_min;
        n->rate_max = MAX(n->rate_max, ret->rate_max);
    }
    return r;
}

/* --- adding up --- */

/* The time that a span adds to the spans before it, which end at `end`. */
static int64_t added(const struct span *x, int64_t end)
{
    return x->end > end ? x->end - MAX(x->start, end) : 0;
}

/* Whether the time between the spans before x, which end at `end`, and x is covered, too. */
static bool is_short_gap(const struct span *x, int64_t end)
{
    return end != INT64_MIN && x->start > end && x->start - end <= GAP_NS;
}

static bool is_counted(const struct spans *s, const struct span *x)
{
    return s->column->taken_to || x->start >= s->column->from;
}

int query_coverage(struct store *s, const struct query *q, int64_t ret[2], struct err *e)
{
    struct linked_services of = {0};
    int r = find_linked(s, q, &of, e);

    ret[0] = ret[1] = 0;
    for (uint32_t c = 0; r == 0 && c < q->q.n_columns; c++) {
        struct spans spans = {0};
        int64_t end = INT64_MIN;

        r = collect(s, q, &of, c, &spans, e);
        for (size_t i = 0; r == 0 && i < spans.n; i++) {
            const struct span *x = &spans.v[i];

            if (is_counted(&spans, x)) {
                if (is_short_gap(x, end))
                    ret[c] += x->start - MAX(end, spans.column->from);
                ret[c] += added(x, end);
            }
            end = MAX(end, x->end);
        }
        mem_free(spans.v);
    }
    linked_done(&of);
    return r;
}

static void add_to_steps(int64_t *v, const struct store_points *p, int64_t from, int64_t to)
{
    for (int64_t i = MAX((from - p->from) / p->step, 0); i < (int64_t) p->n_points && p->from + i * p->step < to; i++) {
        int64_t start = p->from + i * p->step, a = MAX(start, from);
        int64_t z =
            (uint64_t) wrap_sub(to, start) < (uint64_t) p->step ? to : start + p->step; /* the last may end late */

        v[i] += z > a ? z - a : 0;
    }
}

/* Adds a span to the points of one row, after spans that end at *end. */
static void add_to_row(const struct spans *s, const struct span *x, const struct store_points *p, int64_t *row,
                       int64_t *end)
{
    int64_t k = is_counted(s, x) && x->start >= p->from ? (x->start - p->from) / p->step : -1;

    if (is_counted(s, x) && is_short_gap(x, *end))
        add_to_steps(row, p, MAX(*end, s->column->from), x->start);
    if (k >= 0 && k < (int64_t) p->n_points)
        row[k] += added(x, *end); /* counted at the same point as its value */
    *end = MAX(*end, x->end);
}

/* Whether each profile belongs to one series of the points. */
static bool is_by_labels(struct store *s, const struct query *q, const struct store_points *p)
{
    for (uint32_t i = 0; p->n_series && i < p->labels[0].n; i++)
        if (!query_is_label(s, q, p->labels[0].v[i].name))
            return false;
    return true;
}

int query_step_coverage(struct store *s, const struct query *q, const struct store_points *p, int64_t *ret,
                        int64_t *ret_each, struct err *e)
{
    bool by_labels = is_by_labels(s, q, p);
    struct spans spans = {.points = ret_each && by_labels ? p : NULL};
    int64_t end = INT64_MIN, *ends = mem_zalloc_array(p->n_series + 1u, sizeof *ends);
    struct linked_services of = {0};
    int r = ends ? find_linked(s, q, &of, e) : -ENOMEM;

    if (r == 0)
        r = collect(s, q, &of, q->is_diff, &spans, e);
    memset(ret, 0, p->n_points * sizeof *ret);
    for (uint32_t g = 0; ends && ret_each && g < p->n_series; g++) {
        memset(ret_each + (size_t) g * p->n_points, 0, p->n_points * sizeof *ret);
        ends[g] = INT64_MIN;
    }
    for (size_t i = 0; r == 0 && i < spans.n; i++) {
        const struct span *x = &spans.v[i];

        add_to_row(&spans, x, p, ret, &end);
        if (ret_each && by_labels && x->group != NO_GROUP)
            add_to_row(&spans, x, p, ret_each + (size_t) x->group * p->n_points, &ends[x->group]);
    }
    for (uint32_t g = 0; r == 0 && ret_each && !by_labels && g < p->n_series; g++)
        memcpy(ret_each + (size_t) g * p->n_points, ret, p->n_points * sizeof *ret); /* all groups share the profiles */
    linked_done(&of);
    mem_free(spans.v);
    mem_free(ends);
    return r;
}
