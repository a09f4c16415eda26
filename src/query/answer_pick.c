/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameters that select spans (answer_run.h): finds the spans in the index and limits the columns of a compiled query
 * to their samples. A query that names no profile type gets the one that says most about latency: wall, else off-CPU, else
 * CPU time, whichever the samples of these spans have.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/semconv.h"
#include "query/answer_run.h"
#include "query/span_pick.h"

/* A profile is found by its start, which may lie before the spans in it: by as much as a profile takes. */
#define PROFILE_LENGTH (120 * NS_PER_S)
#define CLOCKS_DIFFER (60 * NS_PER_S)

/* What the parameters ask for. */
struct wanted_spans {
    struct span_filter filter;
    bool has_span, children, rest, any_time;
    uint8_t span_id[8];
    double slowest;                               /* percent; 0: not asked for */
    int64_t min_duration, max_duration, from, to; /* the selected part, with `rest` */
};

/* service, or the service that the selector names exactly. */
static struct str service_of(struct answer_request *c, const struct query *q)
{
    struct str service = answer_param(c, "service");
    const struct selector *s = q->q.columns[q->is_diff].selector;

    for (uint32_t i = 0; !service.n && i < s->n; i++)
        if (s->v[i].op == MATCH_EQ && label_name_eq(s->v[i].name, STR(SEMCONV_SERVICE_NAME)))
            service = s->v[i].value;
    return service;
}

static int read_time(struct answer_request *c, const char *name, int64_t *ret, struct err *e)
{
    struct str v = answer_param(c, name);
    int r = v.n ? clock_parse(v, c->now, ret, e) : 0;

    return r < 0 ? err_prefix(e, r, "%s: ", name) : 0;
}

static int read_flag(struct answer_request *c, const char *name, const char *yes, bool *ret, struct err *e)
{
    struct str v = answer_param(c, name);

    *ret = str_is(v, yes);
    if (!v.n || *ret || str_is(v, "false"))
        return 0;
    return err_set(e, -EINVAL, "%s: '%.*s' is not %s", name, STR_FMT(v), yes);
}

static int read_slowest(struct answer_request *c, double *ret, struct err *e)
{
    struct str v = answer_param(c, "slowest");

    if (v.n && (str_to_double(v, ret) < 0 || !(*ret > 0 && *ret < 100)))
        return err_set(e, -EINVAL, "slowest: '%.*s' is not a percentage between 0 and 100", STR_FMT(v));
    return 0;
}

static int read_wanted(struct answer_request *c, const struct query *q, struct wanted_spans *w, struct err *e)
{
    const struct store_column *col = &q->q.columns[q->is_diff];
    struct span_filter *f = &w->filter;
    int r = read_flag(c, "children", "true", &w->children, e);

    *f = (struct span_filter){.tenant = q->q.tenant,
                              .from = col->from,
                              .to = col->to,
                              .service = service_of(c, q),
                              .name = answer_param(c, "span_name"),
                              .of_trace = q->q.has_trace,
                              .cancel = c->cancel};
    memcpy(f->trace_id, q->q.trace_id, sizeof f->trace_id);
    memcpy(w->span_id, q->q.span_id, sizeof w->span_id);
    w->has_span = q->q.has_span;
    w->from = col->from;
    w->to = col->to;
    w->any_time = q->q.has_trace && !answer_param(c, "from").n && !answer_param(c, "to").n;
    if (w->any_time) {
        f->from = CLOCK_MIN;
        f->to = CLOCK_MAX;
    }
    if (f->of_trace && !answer_param(c, "service").n) /* a trace is of all services */
        f->service = (struct str){0};
    if (r == 0)
        r = read_flag(c, "against", "rest", &w->rest, e);
    if (r == 0)
        r = read_flag(c, "span_status", "error", &f->errors, e);
    if (r == 0)
        r = answer_param_duration(c, "min_duration", &w->min_duration, e);
    if (r == 0)
        r = answer_param_duration(c, "max_duration", &w->max_duration, e);
    if (r == 0)
        r = read_time(c, "span_from", &w->from, e);
    if (r == 0)
        r = read_time(c, "span_to", &w->to, e);
    if (r == 0)
        r = read_slowest(c, &w->slowest, e);
    if (!w->rest) {
        f->min_duration = w->min_duration;
        f->max_duration = w->max_duration;
    }
    return r;
}

static bool is_wanted(struct answer_request *c, const char *const *names)
{
    for (; *names; names++)
        if (answer_param(c, *names).n)
            return true;
    return false;
}

static int check_wanted(struct answer_request *c, const struct query *q, const struct wanted_spans *w, struct err *e)
{
    if (!c->spans)
        return err_set(e, -EINVAL,
                       "no traces are stored here, so that spans can only be selected by trace_id and span_id");
    if ((w->rest || w->slowest > 0) && q->is_diff)
        return err_set(e, -EINVAL, "slowest and against compare spans; a base cannot be given as well");
    if (w->rest && w->slowest > 0)
        return err_set(e, -EINVAL, "slowest and against cannot be used together");
    return 0;
}

/* --- columns --- */

/* The side of a span, where spans are compared with the rest. */
static bool in_part(const struct wanted_spans *w, const struct span_pick *p)
{
    return p->start >= w->from && p->start < w->to && p->duration >= w->min_duration &&
           (w->max_duration <= 0 || p->duration < w->max_duration);
}

static void keep_span(struct span_picks *p, const uint8_t *span_id)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n; i++)
        if (memcmp(p->v[i].link.span_id, span_id, 8) == 0)
            p->v[n++] = p->v[i];
    p->n = n;
}

static int make_column(struct query *q, uint32_t column, const struct span_picks *p, int side)
{
    struct store_column *col = &q->q.columns[column];
    int64_t from = INT64_MAX, to = INT64_MIN;
    uint32_t n = 0;
    int r;

    q->links[column] = mem_zalloc_array((size_t) p->n + 1, sizeof *q->links[column]);
    if (!q->links[column])
        return -ENOMEM;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct span_pick *x = &p->v[i];

        if (side >= 0 && x->side != side)
            continue;
        q->links[column][n++] = x->link;
        from = MIN(from, x->start);
        to = MAX(to, MIN(x->start, CLOCK_MAX / 2) + MIN(x->duration, CLOCK_MAX / 4));
    }
    r = store_span_set_init(&q->span_sets[column], q->links[column], n);
    col->spans = &q->span_sets[column];
    if (n) {
        col->from = from - PROFILE_LENGTH;
        col->to = to + CLOCKS_DIFFER;
    }
    return r;
}

/* Divides the picks into columns. Base and new of a comparison have the same selector. */
static int make_columns(struct answer_request *c, struct query *q, const struct wanted_spans *w, struct span_picks *p,
                        struct err *e)
{
    bool two = w->rest || w->slowest > 0;
    int r = 0;

    c->picked = (struct answer_picked){.by_index = true, .one_in = p->one_in};
    if (w->slowest > 0 && p->n)
        c->picked.threshold = p->v[span_picks_slowest(p, w->slowest) - 1].duration;
    for (uint32_t i = 0; i < p->n; i++) {
        if (!(w->slowest > 0))
            p->v[i].side = !w->rest || in_part(w, &p->v[i]);
        c->picked.selected += p->v[i].side;
        c->picked.rest += !p->v[i].side;
        c->picked.duration = wrap_add(c->picked.duration, p->v[i].side ? p->v[i].duration : 0);
    }
    if (w->children)
        r = span_picks_children(c->spans, q->q.tenant, p, c->cancel, e);
    if (two) {
        q->q.columns[1] = q->q.columns[0];
        q->q.n_columns = 2;
        q->is_diff = true;
    }
    q->q.has_span = false; /* with children there are more */
    for (uint32_t k = 0; r == 0 && k < q->q.n_columns; k++)
        r = make_column(q, k, p, two ? (int) k : -1);
    return r == -E2BIG ? err_set(e, r, "the selection has too many spans: use a shorter time range") : r;
}

/* --- the type --- */

static int found_one(void *ctx, const struct store_profile *p)
{
    (void) ctx;
    return p->n_samples ? 1 : 0;
}

/* Whether any column has samples of the type that its selector names. */
static int has_samples(struct answer_request *c, struct query *q, struct err *e)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < q->q.n_columns; i++) {
        struct store_query sq = q->q;

        sq.columns[0] = q->q.columns[i];
        sq.n_columns = 1;
        sq.notes = NULL;
        r = c->store->ops->profiles(c->store, &sq, found_one, NULL, e);
    }
    return r;
}

static int choose_type(struct answer_request *c, struct query *q, struct err *e)
{
    static const struct str types[] = {STR("wall"), STR("offcpu"), STR("cpu")};
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(types); i++) {
        q->selectors[0].type = types[i];
        r = i + 1 < ARRAY_SIZE(types) ? has_samples(c, q, e) : 0;
    }
    return MIN(r, 0);
}

/* --- all of it --- */

/* A trace whose time was not given: the index knows when it was. */
static int find_time(struct answer_request *c, struct query *q, const struct wanted_spans *w, struct err *e)
{
    struct store_column *col = &q->q.columns[0];
    struct span_picks p;
    int r;

    if (!c->spans || !w->any_time || q->is_diff)
        return 0;
    r = span_picks_collect(c->spans, &w->filter, &p, e);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < p.n; i++) {
        int64_t from = p.v[i].start - PROFILE_LENGTH,
                to = p.v[i].start + MIN(p.v[i].duration, CLOCK_MAX / 4) + CLOCKS_DIFFER;

        col->from = i ? MIN(col->from, from) : from;
        col->to = i ? MAX(col->to, to) : to;
    }
    span_picks_done(&p);
    return 0;
}

int answer_pick_spans(struct answer_request *c, struct query *q, struct err *e)
{
    static const char *const by_index[] = {"span_name", "span_status", "min_duration", "max_duration",
                                           "children",  "slowest",     "against",      NULL};
    struct wanted_spans w = {0};
    struct span_picks p = {0};
    int r = read_wanted(c, q, &w, e);

    if (r == 0 && is_wanted(c, by_index)) {
        r = check_wanted(c, q, &w, e);
        if (r == 0)
            r = span_picks_collect(c->spans, &w.filter, &p, e);
        if (r == 0 && w.has_span)
            keep_span(&p, w.span_id);
        if (r == 0)
            r = make_columns(c, q, &w, &p, e);
        span_picks_done(&p);
    } else if (r == 0 && q->q.has_trace) {
        r = find_time(c, q, &w, e);
    }
    if (r == 0 && q->any_type && !q->selectors[1].type.n && store_query_by_span(&q->q))
        r = choose_type(c, q, e);
    return r;
}
