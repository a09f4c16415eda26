/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_explain() of explain.h.
 *
 * A step is the split of a series of rates into two levels that fits best, if the difference is large (STEP_RATIO) and many
 * times what the points vary by (STEP_T). What is named as its cause is the function that drift_stats.h finds between the two
 * sides. A deploy in the range is judged by the verdict, which knows more; a step at the same time is then left out.
 */
#include "query/explain.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "model/types.h"
#include "query/query_deploys.h"
#include "query/trends.h"
#include "query/verdict.h"
#include "query/verdict_judge.h"

#define ITSELF 0.25 /* a function with this share of self values dominates */
#define MOST 0.5    /* so does one with this share in total … */
#define TRUNK 0.95  /* … unless it is only what everything goes through */
#define STEP_RATIO 1.3
#define STEP_T 6
#define SPIKE_SIGMAS 5
#define GROWTH 0.2 /* of the first eighth of the range */
#define STRAIGHT 0.7
enum { FEW = 20, SIDE_MIN = 3, POINTS_MIN = 8, SHOWN = 120 };

struct explaining {
    struct store *store;
    struct query *q;
    const struct query_params *like;
    struct span_index *spans;
    struct explain *out;
    struct str service; /* of the selection, if it is one */
    struct type type;
};

const char *const explain_kinds[] = {"few_samples", "dominates", "spread", "deploy", "step", "grows", "spike", NULL};

static struct explain_fact *add_fact(struct explaining *x, enum explain_kind kind)
{
    struct explain_fact *f = &x->out->v[x->out->n];

    if (x->out->n == EXPLAIN_FACTS)
        return NULL;
    x->out->n++;
    *f = (struct explain_fact){.kind = kind};
    return f;
}

static const struct store_column *range_of(const struct explaining *x)
{
    return &x->q->q.columns[x->q->is_diff];
}

/* "14:32", with the day if the range is longer than one. */
static void put_time(const struct explaining *x, struct explain_fact *f, int64_t ns)
{
    time_t t = (time_t) (ns / NS_PER_S);
    struct tm tm;

    f->at_ns = ns;
    if (gmtime_r(&t, &tm))
        strftime(f->at_text, sizeof f->at_text,
                 range_of(x)->to - range_of(x)->from > 24 * 3600 * NS_PER_S ? "%b %e %H:%M UTC" : "%H:%M UTC", &tm);
}

/* Appends to the sentence. */
static void _printf_(2, 3) say(struct explain_fact *f, const char *format, ...)
{
    size_t used = strlen(f->sentence);
    va_list ap;

    va_start(ap, format);
    vsnprintf(f->sentence + used, sizeof f->sentence - used, format, ap);
    va_end(ap);
}

static const char *shown(struct explaining *x, struct str name)
{
    const char *text = arena_printf(&x->out->arena, "%.*s", (int) MIN(name.n, (uint32_t) SHOWN), name.n ? name.p : "");

    return text ? text : "";
}

/* A rate as trends.h has it, or a value of what is in use. */
static void put_rate(char *to, size_t size, const struct type *t, double value)
{
    bool cores = t->rule != TYPE_GAUGE && str_is(t->unit, "nanoseconds");
    struct buf b = {0};

    type_format(&b, t, cores ? value * 1e9 : value, t->rule != TYPE_GAUGE);
    snprintf(to, size, "%.*s", (int) MIN(b.n, size - 1), b.n ? b.p : "");
    buf_done(&b);
}

/* " (FILE:LINE)" with the last part of the path, or empty. */
static void put_place(char *to, size_t size, const struct explain_fact *f)
{
    struct str file = f->file;
    ptrdiff_t slash;

    to[0] = '\0';
    while ((slash = str_find_char(file, '/')) >= 0)
        file = str_slice(file, (uint32_t) slash + 1, file.n);
    if (file.n)
        snprintf(to, size, " (%.*s:%lld)", (int) MIN(file.n, 60u), file.p, (long long) f->line);
}

/* The function's line with the largest value. */
static int find_line(struct explaining *x, struct explain_fact *f, struct err *e)
{
    struct query_table t;
    int64_t most = 0;
    int r = query_lines(x->store, x->q, &(struct query_place){.function = f->function}, &t, e);

    if (r < 0)
        return r;
    for (uint32_t i = 0; i < t.n; i++)
        if (t.rows[i].line && t.rows[i].file.n && t.rows[i].total[0] > most) {
            most = t.rows[i].total[0];
            f->file = arena_str(&x->out->arena, t.rows[i].file);
            f->line = t.rows[i].line;
        }
    query_table_done(&t);
    return x->out->arena.failed ? -ENOMEM : 0;
}

/* --- what dominates --- */

/* The smallest of the functions that contain most of the selection; NULL: none does, or only what everything goes through. */
static const struct query_row *find_most(const struct query_table *t)
{
    const struct query_row *best = NULL;
    double whole = (double) t->total[0];

    for (uint32_t i = 0; i < t->n; i++) {
        double share = (double) t->rows[i].total[0] / whole;

        if (share >= MOST && share < TRUNK && (!best || t->rows[i].total[0] < best->total[0]))
            best = &t->rows[i];
    }
    return best;
}

static int say_dominant(struct explaining *x, const struct query_table *t, const struct query_row *row, struct err *e)
{
    double whole = (double) t->total[0], self = (double) row->self[0] / whole, total = (double) row->total[0] / whole;
    struct explain_fact *f = add_fact(x, EXPLAIN_DOMINATES);
    char place[96];
    int r;

    if (!f)
        return 0;
    f->function = arena_str(&x->out->arena, row->name);
    f->share = self >= ITSELF ? self : total;
    r = find_line(x, f, e);
    put_place(place, sizeof place, f);
    if (self >= ITSELF)
        say(f, "%s%s has %.0f %% of the %.*s itself%s", shown(x, row->name), place, 100 * self, STR_FMT(x->type.title),
            total > self + 0.05 ? "" : ".");
    else
        say(f, "%s%s and what it calls have %.0f %% of the %.*s, %.0f %% itself.", shown(x, row->name), place,
            100 * total, STR_FMT(x->type.title), 100 * self);
    if (self >= ITSELF && total > self + 0.05)
        say(f, ", %.0f %% with what it calls.", 100 * total);
    return r;
}

static void say_spread(struct explaining *x, const struct query_table *t)
{
    struct explain_fact *f = add_fact(x, EXPLAIN_SPREAD);

    if (!f || !t->n)
        return;
    f->function = arena_str(&x->out->arena, t->rows[0].name);
    f->share = (double) t->rows[0].self[0] / (double) t->total[0];
    say(f, "No function dominates: the largest, %s, has %.1f %% of the %.*s itself.", shown(x, f->function),
        100 * f->share, STR_FMT(x->type.title));
}

static int explain_whole(struct explaining *x, struct err *e)
{
    struct query_table t;
    const struct query_row *row;
    int r = query_top(x->store, x->q, &(struct query_order){ROWS_FUNCTION, QUERY_SORT_SELF, 0}, &t, e);

    if (r < 0)
        return r;
    if (t.n && t.total[0] > 0) {
        row = (double) t.rows[0].self[0] >= ITSELF * (double) t.total[0] ? &t.rows[0] : find_most(&t);
        if (row)
            r = say_dominant(x, &t, row, e);
        else
            say_spread(x, &t);
    }
    query_table_done(&t);
    return r < 0 ? r : x->out->arena.failed ? -ENOMEM : 0;
}

/* --- what changed --- */

static bool same_time(const struct explaining *x, int64_t at, int64_t step)
{
    for (uint32_t i = 0; i < x->out->n; i++)
        if (x->out->v[i].at_ns && llabs(x->out->v[i].at_ns - at) <= 3 * step)
            return true;
    return false;
}

static int say_verdict(struct explaining *x, const struct query_deploy *d, struct err *e)
{
    struct verdict_ask ask = {.tenant = x->like->tenant,
                              .service = d->service,
                              .version = d->version,
                              .from = x->like->from,
                              .to = x->like->to,
                              .limit = 20,
                              .names = x->like->names,
                              .spans = x->spans,
                              .now = x->like->now,
                              .memory_limit = x->like->memory_limit,
                              .cancel = x->like->cancel,
                              .notes = x->like->notes};
    struct verdict_answer v;
    struct explain_fact *f;
    char place[96];
    int r = query_verdict(x->store, &ask, &v, e);

    if (r == -ENODATA)
        return 0;
    if (r < 0)
        return r;
    if (v.headline[0] && (f = add_fact(x, EXPLAIN_DEPLOY))) {
        put_time(x, f, v.deployed_ns);
        f->warning = v.verdict == VERDICT_WORSE;
        if (v.cause) {
            f->function = arena_str(&x->out->arena, v.cause->function);
            f->file = arena_str(&x->out->arena, v.file);
            f->line = v.line;
        }
        put_place(place, sizeof place, f);
        say(f, "%s, %s %s, %s (%s)%s%s%s.", shown(x, v.version), v.rollback ? "rolled back to at" : "deployed at",
            f->at_text, v.headline, v.interval, v.cause && v.cost_known ? ", mostly in " : "",
            v.cost_known ? shown(x, f->function) : "", place);
    }
    verdict_answer_done(&v);
    return x->out->arena.failed ? -ENOMEM : 0;
}

static int explain_deploy(struct explaining *x, struct err *e)
{
    const struct query_deploy *latest = NULL;
    struct query_deploys d = {0};
    int r;

    if (!x->service.n || !str_is(x->type.name, "cpu"))
        return 0;
    r = query_deploys(x->store, x->q, x->like, &d, e);
    for (uint32_t i = 0; r == 0 && i < d.n; i++)
        if (d.v[i].latest && d.v[i].deployed)
            latest = &d.v[i];
    if (latest)
        r = say_verdict(x, latest, e);
    query_deploys_done(&d);
    return r;
}

struct step {
    uint32_t at;
    double before, after, t;
};

/* Rates of the points that have some, and which points these are. */
static uint32_t read_rates(const struct trends *t, double *rates, uint32_t *points)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->points.n_points; i++)
        if (trends_rate(t, 0, i) >= 0) {
            points[n] = i;
            rates[n++] = trends_rate(t, 0, i);
        }
    return n;
}

static struct step find_step(const double *v, uint32_t n)
{
    struct step best = {0};
    double sum = 0, squares = 0, left = 0;

    for (uint32_t i = 0; i < n; i++) {
        sum += v[i];
        squares += v[i] * v[i];
    }
    for (uint32_t k = 1; k < n; k++) {
        double a, b, within, t;

        left += v[k - 1];
        if (k < SIDE_MIN || n - k < SIDE_MIN)
            continue;
        a = left / k;
        b = (sum - left) / (n - k);
        within = fmax(squares - a * a * k - b * b * (n - k), 1e-12 * squares);
        t = fabs(b - a) / sqrt(within / (n - 2) * (1.0 / k + 1.0 / (n - k)));
        if (t > best.t)
            best = (struct step){k, a, b, t};
    }
    return best;
}

/* The function that changed most between the times before and after; NULL: none that is known. */
static int find_changed(struct explaining *x, int64_t at, bool more, struct explain_fact *f, struct err *e)
{
    struct arena *a = &x->out->arena;
    struct query_params p = *x->like;
    struct drift_ask ask = {.limit = 50, .spans = x->spans};
    _cleanup_(query_freep) struct query *q = NULL;
    const struct drift_row *row;
    struct drift_answer d;
    int r;

    p.base_query = p.query;
    p.base_from = query_at(range_of(x)->from);
    p.base_to = p.from = query_at(at);
    p.to = query_at(range_of(x)->to);
    r = query_compile(&p, &q, e);
    if (r == 0)
        r = query_drift(x->store, q, &ask, &d, e);
    if (r < 0)
        return r == -ENODATA ? 0 : r;
    row = verdict_cause(&d, more ? 1 : -1);
    if (row) {
        f->function = arena_str(a, row->function);
        f->share = row->now;
        say(f, ". %s has %.0f %% of it since, %.0f %% before.", shown(x, row->function), 100 * row->now,
            100 * row->before);
    } else {
        say(f, "%s", d.minimum_detectable_points <= 5 ? ". No function's share changed: it was the load." : ".");
    }
    drift_answer_done(&d);
    return a->failed ? -ENOMEM : 0;
}

static int say_step(struct explaining *x, const struct step *s, int64_t at, struct err *e)
{
    struct explain_fact *f = add_fact(x, EXPLAIN_STEP);
    char before[48], after[48], times[32] = "";
    bool more = s->after > s->before;
    int r;

    if (!f)
        return 0;
    put_time(x, f, at);
    f->warning = more;
    put_rate(before, sizeof before, &x->type, s->before);
    put_rate(after, sizeof after, &x->type, s->after);
    if (s->before > 0 && more)
        snprintf(times, sizeof times, " (%.1f times)", s->after / s->before);
    say(f, "%.*s %s from %s to %s%s at %s", STR_FMT(x->type.title), more ? "rose" : "fell", before, after, times,
        f->at_text);
    if (f->sentence[0] >= 'a' && f->sentence[0] <= 'z')
        f->sentence[0] = (char) (f->sentence[0] - 'a' + 'A');
    r = find_changed(x, at, more, f, e);
    return r == 0 && f->function.n ? find_line(x, f, e) : r;
}

/* Whether a point is higher than what sampling alone would make of the usual rate. */
static bool is_sure(const struct explaining *x, const struct trends *t, uint32_t point)
{
    double ratio = t->v[0].usual / trends_rate(t, 0, point),
           samples = t->points.values[point] / 1e9 * x->q->q.notes->rate_mean;

    return !str_is(x->type.unit, "nanoseconds") || samples * (1 - ratio) > SPIKE_SIGMAS * sqrt(samples * ratio + 1);
}

static void say_spikes(struct explaining *x, const struct trends *t)
{
    const struct trend *v = &t->v[0];
    uint32_t top = v->spikes[0];
    struct explain_fact *f;
    char usual[48];

    for (uint32_t i = 0; i < v->n_spikes; i++)
        if (trends_rate(t, 0, v->spikes[i]) > trends_rate(t, 0, top))
            top = v->spikes[i];
    f = is_sure(x, t, top) ? add_fact(x, EXPLAIN_SPIKE) : NULL;
    if (!f)
        return;
    put_time(x, f, t->points.from + top * t->points.step);
    put_rate(usual, sizeof usual, &x->type, v->usual);
    if (v->n_spikes == 1)
        say(f, "A spike at %s: %.1f times the usual %s.", f->at_text, trends_rate(t, 0, top) / v->usual, usual);
    else
        say(f, "%u spikes, the highest at %s: %.1f times the usual %s.", v->n_spikes, f->at_text,
            trends_rate(t, 0, top) / v->usual, usual);
}

static int explain_times(struct explaining *x, struct err *e)
{
    struct query_series_params p = {0};
    struct trends t;
    uint32_t *points;
    double *rates;
    int r = query_interval(x->store, x->q, &p.interval, e);

    if (r == 0)
        r = query_trends(x->store, x->q, &p, &t, e);
    if (r < 0)
        return r;
    rates = arena_zalloc_array(&x->out->arena, t.points.n_points + 1, sizeof *rates);
    points = arena_zalloc_array(&x->out->arena, t.points.n_points + 1, sizeof *points);
    if (rates && points && t.points.n_series) {
        uint32_t n = read_rates(&t, rates, points);
        struct step s = n >= POINTS_MIN ? find_step(rates, n) : (struct step){0};
        int64_t at = t.points.from + (s.t > 0 ? points[s.at] : 0) * t.points.step;

        if (s.t >= STEP_T && fmax(s.before, s.after) >= STEP_RATIO * fmin(s.before, s.after)) {
            if (!same_time(x, at, t.points.step))
                r = say_step(x, &s, at, e);
        } else if (t.v[0].n_spikes && t.v[0].usual > 0) {
            say_spikes(x, &t);
        }
    }
    trends_done(&t);
    return r < 0 ? r : x->out->arena.failed ? -ENOMEM : 0;
}

/* --- what grows --- */

/* Functions of allocators and of containers grow for their callers. */
static bool is_allocator(struct str name)
{
    static const char *const starts[] = {"std::",       "__gnu_cxx::", "operator new", "malloc",       "calloc",
                                         "realloc",     "alloc::",     "core::",       "runtime.",     "__libc_",
                                         "hashbrown::", "_Py",         "Py",           "aligned_alloc"};

    for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
        if (str_starts(name, str_from(starts[i])))
            return true;
    return !name.n;
}

/* The function that most of the growth is below: down the tree while one child has most of it. slopes: per node, with all below. */
static uint32_t grown(const struct tree *t, const double *slopes, double *ret_share)
{
    uint32_t best = 0, at = 0;

    for (uint32_t i = 1; i < t->n_nodes; i++) { /* children come after their parents, and at most one has so much */
        if (t->parent[i] != at || slopes[i] <= MOST * slopes[0])
            continue;
        at = i;
        if (!is_allocator(t->frames[t->frame[i]].function)) {
            best = i;
            *ret_share = slopes[i] / slopes[0];
        }
    }
    return best;
}

static int say_growth(struct explaining *x, const struct query_leaks *l, const double *windows, double per_hour,
                      struct err *e)
{
    const struct tree *t = l->tree;
    double *slopes = arena_zalloc_array(&x->out->arena, t->n_nodes, sizeof *slopes), share = 0;
    struct explain_fact *f = add_fact(x, EXPLAIN_GROWS);
    char first[48], last[48], hour[48];
    uint32_t node;
    int r = 0;

    if (!slopes || !f)
        return slopes ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < l->n; i++)
        slopes[l->rows[i].node] += l->rows[i].slope;
    for (uint32_t i = t->n_nodes; i-- > 1;)
        slopes[t->parent[i]] += slopes[i];
    node = grown(t, slopes, &share);
    put_rate(first, sizeof first, &x->type, windows[0]);
    put_rate(last, sizeof last, &x->type, windows[QUERY_LEAK_WINDOWS - 1]);
    put_rate(hour, sizeof hour, &x->type, per_hour);
    f->warning = true;
    say(f, "It grows: from %s to %s in this range, %s per hour.", first, last, hour);
    if (node) {
        char place[96];

        f->function = arena_str(&x->out->arena, t->frames[t->frame[node]].function);
        f->share = share;
        r = find_line(x, f, e);
        put_place(place, sizeof place, f);
        say(f, " %.0f %% of the growth is allocated in %s%s.", 100 * share, shown(x, f->function), place);
    }
    return r;
}

static int explain_growth(struct explaining *x, struct err *e)
{
    double windows[QUERY_LEAK_WINDOWS] = {0}, n = QUERY_LEAK_WINDOWS, mx = (n - 1) / 2, my = 0, sxy = 0, sxx = 0,
           syy = 0;
    struct query_leaks l;
    int r = query_leaks(x->store, x->q, 0, &l, e);

    if (r < 0)
        return r;
    for (uint32_t i = 0; i < l.tree->n_nodes; i++)
        for (uint32_t w = 0; w < QUERY_LEAK_WINDOWS; w++)
            windows[w] += (double) l.windows.values[(size_t) i * QUERY_LEAK_WINDOWS + w];
    for (uint32_t w = 0; w < QUERY_LEAK_WINDOWS; w++)
        my += windows[w] / n;
    for (uint32_t w = 0; w < QUERY_LEAK_WINDOWS; w++) {
        sxy += (w - mx) * (windows[w] - my);
        sxx += (w - mx) * (w - mx);
        syy += (windows[w] - my) * (windows[w] - my);
    }
    if (windows[0] > 0 && sxy > 0 && sxy * sxy / (sxx * syy) >= STRAIGHT &&
        windows[QUERY_LEAK_WINDOWS - 1] >= (1 + GROWTH) * windows[0])
        r = say_growth(x, &l, windows, sxy / sxx * (3600.0 * NS_PER_S / (double) l.window_ns), e);
    query_leaks_done(&l);
    return r;
}

/* --- all --- */

/* How many samples there are: what a value stands for where the rate is known, else what the store looked at. */
static int too_few(struct explaining *x, bool *ret, struct err *e)
{
    struct query_table t;
    int64_t covered[2];
    double n;
    int r = query_coverage(x->store, x->q, covered, e);

    if (r == 0)
        r = query_top(x->store, x->q, &(struct query_order){ROWS_FUNCTION, QUERY_SORT_SELF, 1}, &t, e);
    if (r < 0)
        return r;
    n = str_is(x->type.unit, "nanoseconds") && x->q->q.notes->rate_mean > 0
            ? (double) t.total[0] / 1e9 * x->q->q.notes->rate_mean
            : FEW;
    *ret = t.total[0] <= 0 || n < FEW;
    if (t.total[0] > 0 && n < FEW) {
        struct explain_fact *f = add_fact(x, EXPLAIN_FEW);

        say(f, "This rests on %.0f sample%s: too few to say what stands out.", fmax(n, 1), n < 1.5 ? "" : "s");
    }
    query_table_done(&t);
    return 0;
}

static bool is_whole(const struct query_params *p, const struct query *q)
{
    return !p->has_trace && !p->has_span && !p->has_profile && !p->focus.n && !p->ignore.n && !p->hide.n &&
           !p->by_sample && !q->q.columns[0].spans && !q->is_diff;
}

static struct str service_of(const struct selector *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->v[i].op == MATCH_EQ && label_name_eq(s->v[i].name, STR("service.name")))
            return s->v[i].value;
    return (struct str){0};
}

int query_explain(struct store *s, struct query *q, const struct explain_ask *ask, struct explain *ret, struct err *e)
{
    struct explaining x = {.store = s, .q = q, .like = ask->like, .spans = ask->spans, .out = ret};
    bool few = false;
    int r;

    *ret = (struct explain){0};
    arena_init(&ret->arena, 16 << 20);
    ret->v = arena_zalloc_array(&ret->arena, EXPLAIN_FACTS, sizeof *ret->v);
    if (!ret->v)
        return -ENOMEM;
    type_by_name(range_of(&x)->selector->type, &x.type);
    ret->type = arena_str(&ret->arena, x.type.name);
    x.service = service_of(range_of(&x)->selector);
    r = too_few(&x, &few, e);
    if (r == 0 && !few && is_whole(ask->like, q)) {
        r = x.type.rule == TYPE_GAUGE ? explain_growth(&x, e) : explain_deploy(&x, e);
        if (r == 0 && x.type.rule != TYPE_GAUGE)
            r = explain_times(&x, e);
    }
    if (r == 0 && !few)
        r = explain_whole(&x, e);
    if (r < 0)
        explain_done(ret);
    return r;
}

void explain_done(struct explain *x)
{
    arena_done(&x->arena);
    *x = (struct explain){0};
}
