/* SPDX-License-Identifier: Apache-2.0 */
/* query_verdict() of verdict.h: finds the runs of versions, chooses what is compared, and writes the sentence that describes the result. */
#include "query/verdict.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "query/verdict_requests.h"

enum { RUNS_MAX = 4096, CAUSE_TEXT = 160 };
#define COST_MIN 0.01 /* smaller changes of the cost of the same work do not decide */
#define LIKELY_POINTS 5
#define TOTAL_MIN 0.02 /* nor are smaller changes of the total mentioned */
static const int64_t STEP_COARSE = 300 * NS_PER_S, SIDE_MAX = 3600 * NS_PER_S, SIDE_MIN = 600 * NS_PER_S,
                     RANGE_DEFAULT = 24 * 3600 * NS_PER_S, WARM_UP = 60 * NS_PER_S, OVERLAP_MIN = 180 * NS_PER_S;

struct verdict_run {
    struct str version;
    int64_t first, last; /* last: end of the last step with data */
};

struct judging {
    struct store *store;
    const struct verdict_ask *ask;
    struct verdict_answer *out;
    struct store_notes *notes;
    int64_t from, to, step; /* step: of the runs' ends before they are refined */
    struct verdict_run *runs;
    size_t n_runs, cap_runs;
};

const char *verdict_name(enum verdict v)
{
    static const char *const names[] = {"not enough data", "same", "worse", "better"};

    return names[v];
}

char *verdict_selector(struct arena *a, struct str type, struct str service, struct str version)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    buf_printf(&b, "%.*s{service.name=", STR_FMT(type.n ? type : STR("cpu")));
    selector_put_quoted(&b, service);
    if (version.n) {
        buf_puts(&b, ",service.version=");
        selector_put_quoted(&b, version);
    }
    buf_putc(&b, '}');
    return buf_error(&b) ? NULL : arena_cstr(a, buf_str(&b));
}

static struct query_params params_of(const struct judging *x)
{
    const struct verdict_ask *ask = x->ask;

    return (struct query_params){.tenant = ask->tenant,
                                 .names = ask->names,
                                 .now = ask->now,
                                 .memory_limit = ask->memory_limit,
                                 .cancel = ask->cancel};
}

static struct str time_text(struct arena *a, int64_t t)
{
    char *s = arena_printf(a, "%lld", (long long) t);

    return s ? str_from(s) : (struct str){0};
}

/* --- runs --- */

/* A range of time in steps. */
struct verdict_steps {
    int64_t from, to, step;
};

/* Values of the service over time, one series per version. */
static int read_versions(struct judging *x, struct str version, const struct verdict_steps *steps,
                         struct store_points *ret, struct err *e)
{
    struct query_params p = params_of(x);
    struct query_series_params sp = {.step = steps->step, .by = STR("service.version")};
    struct arena *a = &x->out->arena;
    char *selector = verdict_selector(a, x->ask->type, x->ask->service, version);
    _cleanup_(query_freep) struct query *q = NULL;
    int r;

    if (!selector)
        return -ENOMEM;
    p.query = str_from(selector);
    p.from = time_text(a, steps->from);
    p.to = time_text(a, steps->to);
    r = query_compile(&p, &q, e);
    return r < 0 ? r : query_series(x->store, q, &sp, ret, x->notes, e);
}

/* Whether another version was active in [from, to). A pause alone does not end a run. */
static bool is_replaced(const struct store_points *p, uint32_t series, uint32_t from, uint32_t to)
{
    for (uint32_t k = 0; k < p->n_series; k++)
        for (uint32_t i = from; k != series && i < to; i++)
            if (p->values[(size_t) k * p->n_points + i] > 0)
                return true;
    return false;
}

static int add_runs(struct judging *x, const struct store_points *p, uint32_t series)
{
    struct verdict_run *run = NULL;
    struct str version = p->labels[series].v[0].value;
    uint32_t last = 0;

    for (uint32_t i = 0; i < p->n_points; i++) {
        int64_t at = p->from + i * p->step;

        if (!(p->values[(size_t) series * p->n_points + i] > 0))
            continue;
        if (run && !is_replaced(p, series, last + 1, i)) {
            run->last = at + p->step;
            last = i;
            continue;
        }
        last = i;
        if (array_push(x->runs, x->n_runs, x->cap_runs, RUNS_MAX,
                       (struct verdict_run){arena_str(&x->out->arena, version), at, at + p->step}) < 0)
            return -ENOMEM;
        run = &x->runs[x->n_runs - 1];
    }
    return 0;
}

/* Replaces the coarse ends of a run by finer ones. */
static int refine(struct judging *x, struct verdict_run *run, struct err *e)
{
    int64_t ends[2] = {run->first, run->last - x->step}, found[2] = {0};
    int r = 0;

    for (int i = 0; r == 0 && i < 2; i++) {
        struct store_points p;

        r = read_versions(x, run->version, &(struct verdict_steps){ends[i], ends[i] + x->step, x->step / 60}, &p, e);
        if (r < 0)
            return r;
        for (uint32_t k = 0; p.n_series && k < p.n_points; k++) {
            uint32_t at = i ? k : p.n_points - 1 - k;

            if (p.values[at] > 0)
                found[i] = p.from + at * p.step + (i ? p.step : 0);
        }
        store_points_done(&p);
    }
    run->first = found[0] ? found[0] : run->first;
    run->last = MIN(found[1] ? found[1] : run->last, x->to);
    return r;
}

static int find_runs(struct judging *x, struct err *e)
{
    struct store_points p;
    int64_t from = x->from / STEP_COARSE * STEP_COARSE;
    int r;

    x->step = STEP_COARSE;
    while ((x->to - from) / x->step > 10000)
        x->step *= 2;
    r = read_versions(x, (struct str){0}, &(struct verdict_steps){from, x->to, x->step}, &p, e);
    if (r < 0)
        return r;
    for (uint32_t i = 0; r == 0 && i < p.n_series; i++)
        if (p.labels[i].v[0].value.n)
            r = add_runs(x, &p, i);
    if (r == 0 && !p.n_series)
        r = err_set(e, -ENODATA, "service '%.*s' has no profiles in this time range", STR_FMT(x->ask->service));
    else if (r == 0 && !x->n_runs)
        r = err_set(e, -ENODATA, "the profiles of service '%.*s' have no service.version", STR_FMT(x->ask->service));
    store_points_done(&p);
    return r;
}

/* The run that began last, of the version asked for or of any; NULL if there is none. */
static struct verdict_run *newest_run(struct judging *x, struct str version)
{
    struct verdict_run *best = NULL;

    for (size_t i = 0; i < x->n_runs; i++)
        if ((!version.n || str_eq(x->runs[i].version, version)) && (!best || x->runs[i].first > best->first))
            best = &x->runs[i];
    return best;
}

/* Runs that began in the same coarse step as this one, such as a deploy soon after the start of the service: finer times
 * show which began first. */
static int refine_tied(struct judging *x, const struct verdict_run *run, struct err *e)
{
    int64_t first = run->first;
    size_t n = 0;
    int r = 0;

    for (size_t i = 0; i < x->n_runs; i++)
        n += x->runs[i].first == first;
    for (size_t i = 0; r == 0 && n > 1 && i < x->n_runs; i++)
        if (x->runs[i].first == first)
            r = refine(x, &x->runs[i], e);
    return r;
}

/* The run of another version that began before and was active last. */
static struct verdict_run *previous_run(struct judging *x, const struct verdict_run *new)
{
    struct verdict_run *best = NULL;

    for (size_t i = 0; i < x->n_runs; i++) {
        struct verdict_run *r = &x->runs[i];

        if (!str_eq(r->version, new->version) && r->first < new->first && (!best || r->last > best->last))
            best = r;
    }
    return best;
}

/* --- what is compared --- */

static void choose_times(const struct judging *x, const struct verdict_run *new, const struct verdict_run *old)
{
    struct verdict_answer *a = x->out;
    int64_t shared = MIN(new->last, old->last) - new->first;
    int64_t warm = new->last - new->first > 5 * WARM_UP ? WARM_UP : 0;

    a->overlap = shared - warm >= OVERLAP_MIN && 2 * shared >= MIN(new->last - new->first, SIDE_MAX);
    a->from = new->first + warm;
    a->to = MIN(new->last, a->from + SIDE_MAX);
    if (a->overlap) {
        a->to = MIN(a->to, old->last);
        a->base_from = a->from;
        a->base_to = a->to;
        return;
    }
    a->base_to = MIN(new->first, old->last);
    a->base_from = MAX(old->first, a->base_to - MAX(a->to - a->from, SIDE_MIN));
}

static int compare(struct judging *x, struct err *e)
{
    struct verdict_answer *v = x->out;
    struct arena *a = &v->arena;
    struct query_params p = params_of(x);
    struct drift_ask ask = {
        .min_points = x->ask->min_points, .self = x->ask->self, .limit = x->ask->limit, .spans = x->ask->spans};
    char *new = verdict_selector(a, x->ask->type, v->service, v->version);
    char *old = verdict_selector(a, x->ask->type, v->service, v->previous);
    _cleanup_(query_freep) struct query *q = NULL;
    int r;

    if (!new || !old)
        return -ENOMEM;
    p.query = str_from(new);
    p.base_query = str_from(old);
    p.from = time_text(a, v->from);
    p.to = time_text(a, v->to);
    p.base_from = time_text(a, v->base_from);
    p.base_to = time_text(a, v->base_to);
    r = query_compile(&p, &q, e);
    return r < 0 ? r : query_drift(x->store, q, &ask, &v->drift, x->notes, e);
}

/* --- the verdict --- */

/* Whether a function only got another name: it is on one side only, and another one, as large, on the other side. */
static bool is_renamed(const struct drift_answer *d, const struct drift_row *r)
{
    const double none = 0.0005;

    for (uint32_t i = 0; i < d->n && fmin(r->before, r->now) < none; i++) {
        const struct drift_row *o = &d->rows[i];

        if (r->before < none ? o->now < none && o->before >= 0.9 * r->now
                             : o->before < none && o->now >= 0.9 * r->before)
            return true;
    }
    return false;
}

/* Which functions may be named as the cause. */
enum cause_of { CAUSE_SURE, CAUSE_RENAMED, CAUSE_LIKELY };

static bool is_cause(const struct drift_answer *d, const struct drift_row *r, double sign, enum cause_of of)
{
    return r->points * sign > 0 && (of == CAUSE_LIKELY || r->significant) && (of == CAUSE_RENAMED || !is_renamed(d, r));
}

/* The function to name: of those that changed about as much as the largest, the one with the smallest share, since its
 * callers contain its change. */
static const struct drift_row *find_cause(const struct drift_answer *d, double sign, enum cause_of of)
{
    const struct drift_row *best = NULL;
    double most = 0;

    for (uint32_t i = 0; i < d->n; i++)
        if (is_cause(d, &d->rows[i], sign, of))
            most = fmax(most, d->rows[i].points * sign);
    for (uint32_t i = 0; i < d->n; i++)
        if (is_cause(d, &d->rows[i], sign, of) && d->rows[i].points * sign >= 0.9 * most &&
            (!best || fmin(d->rows[i].now, d->rows[i].before) < fmin(best->now, best->before)))
            best = &d->rows[i];
    return best;
}

static const struct drift_row *cause(const struct drift_answer *d, double sign)
{
    const struct drift_row *r = find_cause(d, sign, CAUSE_SURE);

    return r ? r : find_cause(d, sign, CAUSE_RENAMED);
}

static double largest(const struct drift_answer *d, double sign)
{
    const struct drift_row *r = find_cause(d, sign, CAUSE_SURE);

    return r ? fabs(r->points) : 0;
}

double verdict_total_change(const struct verdict_answer *v)
{
    const struct drift_answer *d = &v->drift;

    return d->cores[0] > 0 && d->cores[1] > 0 ? d->cores[1] / d->cores[0] - 1 : 0;
}

/*
 * Per CPU-second, shares alone do not decide: what one function gains others lose. The cost of the same work decides, where it
 * could be estimated; else the larger of the largest gain and loss, if one is clearly larger; else the total.
 */
static enum verdict judge_shares(const struct verdict_answer *v)
{
    const struct drift_answer *d = &v->drift;
    double up = largest(d, 1), down = largest(d, -1), total = verdict_total_change(v);

    if (fabs(v->cost_change) >= COST_MIN)
        return v->cost_change > 0 ? VERDICT_WORSE : VERDICT_BETTER;
    if (fabs(up - down) > 0.25 * fmax(up, down))
        return up > down ? VERDICT_WORSE : VERDICT_BETTER;
    if (d->cost_known) /* a function was renamed, or its work moved to another one */
        return VERDICT_SAME;
    return v->overlap || total >= -COST_MIN ? VERDICT_WORSE : VERDICT_BETTER;
}

static enum verdict judge(const struct judging *x)
{
    const struct verdict_answer *v = x->out;
    const struct drift_answer *d = &v->drift;
    double min = x->ask->min_points > 0 ? x->ask->min_points : DRIFT_MIN_POINTS, seen = 2.5 * min;

    if (v->per_request && v->cost_p < DRIFT_ALPHA && fabs(v->cost_change) >= min / 100)
        return v->cost_change > 0 ? VERDICT_WORSE : VERDICT_BETTER;
    if (v->per_request && v->cost_p >= DRIFT_ALPHA && fabs(v->cost_change) >= seen / 100)
        return VERDICT_UNKNOWN; /* it may be noise, or not */
    if (!d->significant)
        return d->minimum_detectable_points <= seen ? VERDICT_SAME : VERDICT_UNKNOWN;
    return v->per_request ? VERDICT_SAME : judge_shares(v);
}

static void put_row(char *to, size_t n, const struct drift_row *r, const char *unit)
{
    double sure = 100 * (1 - r->p);

    snprintf(to, n, "%.*s %+.1f points, %+.2f %s, confidence %s%.*f %%", STR_FMT(str_slice(r->function, 0, 80)),
             r->points, r->cores, unit, sure > 99.9 ? "> " : "", sure > 99 ? 1 : 0, fmin(sure, 99.9));
}

/* The cost of a request is known sooner than the function that changed it. */
static void put_likely(char *to, size_t n, const struct drift_row *r)
{
    if (r && fabs(r->points) >= LIKELY_POINTS)
        snprintf(to, n, "probably %.*s %+.1f points, too little data yet to be sure",
                 STR_FMT(str_slice(r->function, 0, 80)), r->points);
    else
        snprintf(to, n, "too little data yet to name the function");
}

/* What the change of a request or of the same work is, and by what the verdict is normalised; and why the total says
 * otherwise, if it does. */
static void put_cost(const struct verdict_answer *v, char *to, size_t size)
{
    double total = verdict_total_change(v);
    const char *why = v->overlap       ? "the versions had different numbers of instances or requests"
                      : v->per_request ? "the number of requests changed"
                                       : "the load changed, or more than these functions did";
    int n = 0;

    if (v->verdict == VERDICT_UNKNOWN) {
        if (v->per_request)
            snprintf(to, size, "; a request costs %+.1f %%, confidence %.0f %%", 100 * v->cost_change,
                     100 * (1 - v->cost_p));
        return;
    }
    if (v->per_request || (v->drift.significant && v->drift.cost_known))
        n = snprintf(to, size, "; %s costs %+.1f %%", v->per_request ? "a request" : "the same work",
                     100 * v->cost_change);
    n += snprintf(to + n, size - (size_t) n, " (normalised per %s)", v->per_request ? "request" : "CPU-second");
    if ((v->verdict == VERDICT_BETTER && total > TOTAL_MIN) || (v->verdict == VERDICT_WORSE && total < -TOTAL_MIN))
        snprintf(to + n, size - (size_t) n, "; the whole uses %+.1f %% CPU: %s", 100 * total, why);
}

static void put_sentence(struct verdict_answer *v)
{
    char text[CAUSE_TEXT + 80] = "", cost[200] = "";
    const struct drift_answer *d = &v->drift;
    const struct drift_row *row = cause(d, v->verdict == VERDICT_BETTER ? -1 : 1);
    const char *unit = str_is(d->unit, "nanoseconds") ? "cores" : "per second";

    row = row ? row : cause(d, v->verdict == VERDICT_BETTER ? 1 : -1);
    if (row)
        put_row(text, sizeof text, row, unit);
    else if (v->verdict == VERDICT_SAME)
        snprintf(text, sizeof text, "no function changed by %.1f points or more", d->minimum_detectable_points);
    else if (v->verdict != VERDICT_UNKNOWN)
        put_likely(text, sizeof text, find_cause(d, v->verdict == VERDICT_BETTER ? -1 : 1, CAUSE_LIKELY));
    else if (!v->previous.n)
        snprintf(text, sizeof text, "there is no earlier version to compare with");
    else
        snprintf(text, sizeof text, "only changes of %.1f points or more would be seen yet",
                 d->minimum_detectable_points);
    put_cost(v, cost, sizeof cost);
    snprintf(v->sentence, sizeof v->sentence, "%.*s %.*s%s%.*s: %s%s: %s%s", STR_FMT(str_slice(v->service, 0, 60)),
             STR_FMT(str_slice(v->previous, 0, 40)), v->previous.n ? " → " : "", STR_FMT(str_slice(v->version, 0, 40)),
             verdict_name(v->verdict), v->rollback ? " (rollback)" : "", text, cost);
}

static int run_verdict(struct judging *x, struct err *e)
{
    struct verdict_answer *v = x->out;
    struct verdict_run *new, *old, kept[2];
    int r = find_runs(x, e);

    if (r < 0)
        return r;
    new = newest_run(x, x->ask->version);
    if (!new)
        return err_set(e, -ENODATA, "service '%.*s' has no profiles of version '%.*s' in this time range",
                       STR_FMT(x->ask->service), STR_FMT(x->ask->version));
    r = refine_tied(x, new, e);
    if (r < 0)
        return r;
    new = newest_run(x, x->ask->version);
    old = previous_run(x, new);
    v->version = new->version;
    kept[0] = *new;
    if (old)
        kept[1] = *old;
    for (int i = 0; r == 0 && i < (old ? 2 : 1); i++)
        r = refine(x, &kept[i], e);
    v->deployed_ns = kept[0].first;
    v->drift.minimum_detectable_points = 100;
    if (r < 0 || !old)
        return r;
    v->previous = old->version;
    for (size_t i = 0; i < x->n_runs; i++)
        v->rollback |= str_eq(x->runs[i].version, new->version) && x->runs[i].first < old->first;
    choose_times(x, &kept[0], &kept[1]);
    if (v->to <= v->from || v->base_to <= v->base_from)
        return 0;
    r = compare(x, e);
    if (r == -ENODATA)
        return 0;
    v->cost_change = v->drift.cost_change;
    return r < 0 ? r : verdict_requests(x->store, x->ask, v, e);
}

int query_verdict(struct store *s, const struct verdict_ask *ask, struct verdict_answer *ret, struct store_notes *notes,
                  struct err *e)
{
    struct judging x = {.store = s, .ask = ask, .out = ret, .notes = notes, .from = 0, .to = ask->now};
    int r = 0;

    *ret = (struct verdict_answer){.cost_p = 1};
    arena_init(&ret->arena, 16 << 20);
    if (!ask->service.n)
        return err_set(e, -EINVAL, "service is required");
    ret->service = arena_str(&ret->arena, ask->service);
    if (ask->to.n)
        r = clock_parse(ask->to, ask->now, &x.to, e);
    x.from = x.to - RANGE_DEFAULT;
    if (r == 0 && ask->from.n)
        r = clock_parse(ask->from, ask->now, &x.from, e);
    if (r == 0 && x.from >= x.to)
        r = err_set(e, -EINVAL, "the time range is empty: 'from' must be before 'to'");
    if (r == 0)
        r = run_verdict(&x, e);
    mem_free(x.runs);
    if (r < 0) {
        verdict_answer_done(ret);
        return r;
    }
    ret->verdict = judge(&x);
    put_sentence(ret);
    return 0;
}

void verdict_answer_done(struct verdict_answer *a)
{
    drift_answer_done(&a->drift);
    arena_done(&a->arena);
    *a = (struct verdict_answer){0};
}
