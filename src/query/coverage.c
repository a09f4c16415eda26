/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_coverage() and query_step_coverage() of query.h: how much time the profiles of a selection cover, so that a
 * rate is per profiled second and not per requested second.
 *
 * A profile covers its duration from its start on; where several overlap, time counts once. A gap of up to GAP_NS
 * between two profiles counts as covered, since a process that slept during it had no samples and therefore no profile.
 * Time before the first and after the last profile does not count.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "query/query.h"

enum { SPANS_MAX = 1 << 24 };
static const int64_t GAP_NS = 60 * NS_PER_S;

struct span {
    int64_t start, end;
};

struct spans {
    struct span *v;
    size_t n, cap;
};

static int add_span(void *ctx, const struct store_profile *p)
{
    struct spans *s = ctx;
    int r;

    if (p->duration_ns <= 0 || p->time_ns > INT64_MAX - p->duration_ns)
        return 0;
    if (s->n && s->v[s->n - 1].start == p->time_ns) { /* the processes of one batch */
        s->v[s->n - 1].end = MAX(s->v[s->n - 1].end, p->time_ns + p->duration_ns);
        return 0;
    }
    r = array_push(s->v, s->n, s->cap, SPANS_MAX, (struct span){p->time_ns, p->time_ns + p->duration_ns});
    return r;
}

static int by_start(const void *a, const void *b)
{
    const struct span *x = a, *y = b;

    return (x->start > y->start) - (x->start < y->start);
}

static int collect(struct store *s, const struct query *q, uint32_t column, struct spans *ret, struct err *e)
{
    struct store_query sq = q->q;
    int r;

    sq.columns[0] = q->q.columns[column];
    sq.notes = NULL; /* the query itself collects them */
    sq.n_columns = 1;
    sq.has_trace = sq.has_span = false; /* coverage is that of the whole selection, whichever part of it is queried */
    sq.focus = sq.ignore = sq.hide = (struct str){0};
    r = s->ops->profiles(s, &sq, add_span, ret, e);
    if (r == 0 && ret->n)
        qsort(ret->v, ret->n, sizeof *ret->v, by_start);
    return r;
}

/* The time that a span adds to the spans before it, which end at `end`. */
static int64_t added(const struct span *x, int64_t end)
{
    return x->end > end ? x->end - MAX(x->start, end) : 0;
}

int query_coverage(struct store *s, const struct query *q, int64_t ret[2], struct err *e)
{
    int r = 0;

    ret[0] = ret[1] = 0;
    for (uint32_t c = 0; r == 0 && c < q->q.n_columns; c++) {
        struct spans spans = {0};
        int64_t end = INT64_MIN;

        r = collect(s, q, c, &spans, e);
        for (size_t i = 0; r == 0 && i < spans.n; i++) {
            const struct span *x = &spans.v[i];

            if (i && x->start > end && x->start - end <= GAP_NS)
                ret[c] += x->start - end;
            ret[c] += added(x, end);
            end = MAX(end, x->end);
        }
        mem_free(spans.v);
    }
    return r;
}

static void add_to_steps(int64_t *v, uint32_t n, int64_t first, int64_t step, int64_t from, int64_t to)
{
    for (int64_t i = MAX((from - first) / step, 0); i < (int64_t) n && first + i * step < to; i++) {
        int64_t a = MAX(first + i * step, from), z = MIN(first + (i + 1) * step, to);

        v[i] += z > a ? z - a : 0;
    }
}

int query_step_coverage(struct store *s, const struct query *q, const struct store_points *p, int64_t *ret,
                        struct err *e)
{
    struct spans spans = {0};
    int64_t end = INT64_MIN;
    int r = collect(s, q, q->is_diff, &spans, e);

    memset(ret, 0, p->n_points * sizeof *ret);
    for (size_t i = 0; r == 0 && i < spans.n; i++) {
        const struct span *x = &spans.v[i];
        int64_t k = x->start < p->from ? -1 : (x->start - p->from) / p->step;

        if (i && x->start > end && x->start - end <= GAP_NS)
            add_to_steps(ret, p->n_points, p->from, p->step, end, x->start);
        if (k >= 0 && k < (int64_t) p->n_points)
            ret[k] += added(x, end); /* counted at the same point as its value */
        end = MAX(end, x->end);
    }
    mem_free(spans.v);
    return r;
}
