/* SPDX-License-Identifier: Apache-2.0 */
/* query_verdict() of verdict.h: finds the runs of versions and chooses what is compared; verdict_judge.c decides. */
#include "query/verdict.h"

#include <errno.h>

#include "base/clock.h"
#include "base/mem.h"
#include "query/program_of.h"
#include "query/verdict_judge.h"
#include "query/verdict_requests.h"

enum { RUNS_MAX = 4096, PREVIOUS_TRIED = 8 };
static const int64_t STEP_COARSE = 300 * NS_PER_S, SIDE_MAX = 3600 * NS_PER_S, SIDE_MIN = 600 * NS_PER_S,
                     RANGE_DEFAULT = 24 * 3600 * NS_PER_S, WARM_UP = 60 * NS_PER_S, OVERLAP_MIN = 180 * NS_PER_S,
                     PROGRAM_RANGE = 600 * NS_PER_S;

struct verdict_run {
    struct str version;
    int64_t first, last; /* last: end of the last step with data */
    bool other;          /* of another program than the new version */
};

struct judging {
    struct store *store;
    const struct verdict_ask *ask;
    struct verdict_answer *out;
    int64_t from, to, step; /* step: of the runs' ends before they are refined */
    struct verdict_run *runs;
    size_t n_runs, cap_runs;
};

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
                                 .cancel = ask->cancel,
                                 .notes = ask->notes};
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
    p.from = query_at(steps->from);
    p.to = query_at(steps->to);
    r = query_compile(&p, &q, e);
    return r < 0 ? r : query_series(x->store, q, &sp, ret, e);
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

/* The run of another version that began before and was active last, of those that are not known to be another program's. */
static struct verdict_run *previous_run(struct judging *x, const struct verdict_run *new)
{
    struct verdict_run *best = NULL;

    for (size_t i = 0; i < x->n_runs; i++) {
        struct verdict_run *r = &x->runs[i];

        if (!r->other && !str_eq(r->version, new->version) && r->first < new->first && (!best || r->last > best->last))
            best = r;
    }
    return best;
}

/* The program of a run, by its first or last minutes. */
static int read_program(struct judging *x, const struct verdict_run *run, bool end, struct program *ret, struct err *e)
{
    struct arena *a = &x->out->arena;
    struct query_params p = params_of(x);
    int64_t length = MIN(run->last - run->first, PROGRAM_RANGE), from = end ? run->last - length : run->first;
    char *selector = verdict_selector(a, x->ask->type, x->ask->service, run->version);

    if (!selector)
        return -ENOMEM;
    p.query = str_from(selector);
    p.from = query_at(from);
    p.to = query_at(from + MAX(length, NS_PER_S));
    return program_read(x->store, &p, run->version, a, ret, e);
}

/* The run to compare with: the one before, of the same program. A version that was chosen by a person is one of the service,
 * whatever runs. */
static int find_previous(struct judging *x, const struct verdict_run *new, struct verdict_run **ret, struct err *e)
{
    bool chosen = !program_is_build_id(new->version), known = false;
    struct program now = {0}, before;
    struct verdict_run *old;
    int r = 0;

    *ret = NULL;
    for (int i = 0; i < PREVIOUS_TRIED && (old = previous_run(x, new)); i++) {
        if (chosen && !program_is_build_id(old->version)) {
            *ret = old;
            return 0;
        }
        r = known ? 0 : read_program(x, new, false, &now, e);
        known = true;
        if (r == 0)
            r = read_program(x, old, true, &before, e);
        if (r < 0)
            return r;
        if (now.is_interpreters_id) {
            x->out->reason = "the version is the build ID of an interpreter, not of the program that it runs";
            return 0;
        }
        if (!before.is_interpreters_id && program_is_same(&now, &before)) {
            *ret = old;
            return 0;
        }
        old->other = true;
        x->out->reason = "the versions before it are those of other programs";
    }
    return 0;
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
    p.from = query_at(v->from);
    p.to = query_at(v->to);
    p.base_from = query_at(v->base_from);
    p.base_to = query_at(v->base_to);
    r = query_compile(&p, &q, e);
    return r < 0 ? r : query_drift(x->store, q, &ask, &v->drift, e);
}

/* --- all of it --- */

/* Finds both runs, with fine times. *ret_n: how many there are, the new one first. */
static int choose_runs(struct judging *x, struct verdict_run kept[2], int *ret_n, struct err *e)
{
    struct verdict_answer *v = x->out;
    struct verdict_run *new, *old = NULL;
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
    v->version = new->version;
    r = find_previous(x, new, &old, e);
    kept[0] = *new;
    if (old)
        kept[1] = *old;
    *ret_n = old ? 2 : 1;
    for (int i = 0; r == 0 && i < *ret_n; i++)
        r = refine(x, &kept[i], e);
    for (size_t i = 0; old && i < x->n_runs; i++)
        v->rollback |= str_eq(x->runs[i].version, new->version) && x->runs[i].first < old->first;
    return r;
}

static int run_verdict(struct judging *x, struct err *e)
{
    struct verdict_answer *v = x->out;
    struct verdict_run kept[2] = {0};
    int n = 0, r = choose_runs(x, kept, &n, e);

    if (r < 0)
        return r;
    v->deployed_ns = kept[0].first;
    v->drift.minimum_detectable_points = 100;
    if (n == 1) {
        v->reason = v->reason ? v->reason : "there is no earlier version to compare with";
        return 0;
    }
    v->previous = kept[1].version;
    choose_times(x, &kept[0], &kept[1]);
    if (v->to <= v->from || v->base_to <= v->base_from)
        return 0;
    r = compare(x, e);
    if (r == -ENODATA)
        return 0;
    v->cost_known = v->drift.cost_known;
    v->cost_change = v->drift.cost_change;
    v->cost_low = v->drift.cost_low;
    v->cost_high = v->drift.cost_high;
    return r < 0 ? r : verdict_requests(x->store, x->ask, v, e);
}

/* The file and the line of the cause: the line with most of it now, or before if it became better. */
static int find_line(struct judging *x, struct err *e)
{
    struct verdict_answer *v = x->out;
    struct arena *a = &v->arena;
    struct query_params p = params_of(x);
    bool old = v->cause->points < 0;
    char *selector = verdict_selector(a, x->ask->type, v->service, old ? v->previous : v->version);
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_table t;
    int64_t most = 0;
    int r;

    if (!selector)
        return -ENOMEM;
    p.query = str_from(selector);
    p.from = query_at(old ? v->base_from : v->from);
    p.to = query_at(old ? v->base_to : v->to);
    r = query_compile(&p, &q, e);
    if (r == 0)
        r = query_lines(x->store, q, &(struct query_place){.function = v->cause->function}, &t, e);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < t.n; i++)
        if (t.rows[i].line && t.rows[i].file.n && t.rows[i].total[0] > most) {
            most = t.rows[i].total[0];
            v->file = arena_str(a, t.rows[i].file);
            v->line = t.rows[i].line;
        }
    query_table_done(&t);
    return a->failed ? -ENOMEM : 0;
}

int query_verdict(struct store *s, const struct verdict_ask *ask, struct verdict_answer *ret, struct err *e)
{
    struct judging x = {.store = s, .ask = ask, .out = ret, .from = 0, .to = ask->now};
    int r = 0;

    *ret = (struct verdict_answer){.cost_p = 1};
    arena_init(&ret->arena, 16 << 20);
    if (!ask->service.n)
        return err_set(e, -EINVAL, "service is required");
    ret->service = arena_str(&ret->arena, ask->service);
    if (ask->to.given)
        x.to = ask->to.ns;
    x.from = ask->from.given ? ask->from.ns : x.to - RANGE_DEFAULT;
    if (x.from >= x.to)
        r = err_set(e, -EINVAL, "the time range is empty: 'from' must be before 'to'");
    if (r == 0)
        r = run_verdict(&x, e);
    if (r == 0) {
        verdict_judge(ret, ask->min_points);
        r = ret->cause ? find_line(&x, e) : 0;
        ret->total_change = verdict_total_change(ret);
        ret->is_compared = ret->to;
        ret->is_card = ret->headline[0];
        ret->is_named = ret->is_card && ret->cause;
        if (ret->is_named)
            ret->named = *ret->cause;
    }
    mem_free(x.runs);
    if (r < 0)
        verdict_answer_done(ret);
    return r;
}

void verdict_answer_done(struct verdict_answer *a)
{
    drift_answer_done(&a->drift);
    arena_done(&a->arena);
    *a = (struct verdict_answer){0};
}
