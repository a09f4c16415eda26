/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates sources: the services of a source, thresholds and recording rules over one table of functions, and what the
 * other checks (alert_checks.c) share. See alert_eval.h. */
#include "alert/alert_eval.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/regex.h"
#include "model/semconv.h"
#include "query/query.h"

enum { SERVICES_MAX = 5000, NAME_SHOWN = 300 };
#define SAME_HOUR_FROM (12 * 3600 * NS_PER_S)

/* --- results --- */

void alert_results_done(struct alert_results *r)
{
    for (uint32_t i = 0; i < r->n_rules; i++)
        mem_free(r->rules[i].v);
    mem_free(r->recorded);
    arena_done(&r->arena);
    *r = (struct alert_results){0};
}

void alert_cache_done(struct alert_cache *c)
{
    mem_free(c->v);
    *c = (struct alert_cache){0};
}

struct str alert_printf(struct alert_look *l, const char *fmt, ...)
{
    char text[ALERT_TEXT_MAX];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return arena_str(&l->out->arena, (struct str){text, (uint32_t) MIN(MAX(n, 0), (int) sizeof text - 1)});
}

int alert_add_finding(struct alert_look *l, uint32_t rule, const struct alert_finding *f)
{
    struct alert_found *to = &l->out->rules[rule];
    struct alert_finding copy = *f;

    copy.service = arena_str(&l->out->arena, f->service);
    copy.function = arena_str(&l->out->arena, str_slice(f->function, 0, ALERT_TEXT_MAX));
    copy.version = arena_str(&l->out->arena, f->version);
    if (l->out->arena.failed)
        return -ENOMEM;
    return array_push(to->v, to->n, to->cap, SERVICES_MAX * (size_t) ALERT_FUNCTIONS_MAX, copy);
}

struct alert_cached *alert_cache_at(struct alert_look *l, const char *what)
{
    struct alert_cache *c = l->eval->cache;
    uint64_t key = hash64_str(str_from(l->selector)) ^ hash64_str(str_from(l->source->tenant)) * 3 ^
                   hash64_str(str_from(what)) * 5 ^ hash64_u64((uint64_t) l->source->window) ^
                   hash64_u64((uint64_t) l->source->baseline) * 7;
    struct alert_cached *oldest = NULL;

    for (size_t i = 0; c && i < c->n; i++) {
        if (c->v[i].key == key)
            return &c->v[i];
        if (!oldest || c->v[i].until < oldest->until)
            oldest = &c->v[i];
    }
    if (!c)
        return NULL;
    if (c->n < ALERT_CACHE_MAX &&
        array_push(c->v, c->n, c->cap, ALERT_CACHE_MAX, (struct alert_cached){.key = key}) == 0)
        return &c->v[c->n - 1];
    if (oldest)
        *oldest = (struct alert_cached){.key = key};
    return oldest;
}

/* --- links and ranges --- */

void alert_baseline(int64_t from, int64_t baseline, int64_t *ret_from, int64_t *ret_to)
{
    if (baseline >= SAME_HOUR_FROM) { /* the same hour of another day */
        *ret_from = from - baseline - 25 * 60 * NS_PER_S;
        *ret_to = from - baseline + 35 * 60 * NS_PER_S;
    } else {
        *ret_from = from - baseline;
        *ret_to = from;
    }
}

static void put_param(struct buf *b, const char *name, struct str value)
{
    buf_printf(b, "%s=", name); /* with the separator */
    http_percent_encode(b, value);
}

static void put_time(struct buf *b, const char *name, int64_t ns)
{
    char text[24];

    snprintf(text, sizeof text, "%lld", (long long) (ns / NS_PER_S));
    put_param(b, name, str_from(text));
}

struct str alert_link(struct alert_look *l, const char *base, int64_t base_from, int64_t base_to, struct str function)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    put_param(&b, "compare?query", str_from(l->selector));
    put_time(&b, "&from", l->from);
    put_time(&b, "&to", l->to);
    put_param(&b, "&base_query", str_from(base));
    put_time(&b, "&base_from", base_from);
    put_time(&b, "&base_to", base_to);
    if (function.n && function.n <= NAME_SHOWN && str_find(function, STR("\\E")) < 0)
        put_param(&b, "&focus", alert_printf(l, "^\\Q%.*s\\E$", STR_FMT(function)));
    return arena_str(&l->out->arena, buf_str(&b));
}

struct query_params alert_params(const struct alert_look *l, int64_t from, int64_t to)
{
    return (struct query_params){.tenant = l->source->tenant,
                                 .query = str_from(l->selector),
                                 .from = query_at(from),
                                 .to = query_at(to),
                                 .names = l->eval->names,
                                 .now = l->eval->now,
                                 .memory_limit = l->eval->memory_limit,
                                 .cancel = l->eval->cancel};
}

int alert_compile(const struct alert_look *l, int64_t from, int64_t to, struct query **ret, struct err *e)
{
    struct query_params p = alert_params(l, from, to);

    return query_compile(&p, ret, e);
}

/* --- tables: thresholds and recording rules --- */

/* What a value of the table is per covered second: cores, or the unit of its type. A gauge is what it is. */
static double rate_of(const struct type *t, const struct query_table *table, int64_t value, int64_t window)
{
    double seconds = (double) (table->covered_ns[0] > 0 ? table->covered_ns[0] : window) / 1e9;

    if (t->rule == TYPE_GAUGE)
        return (double) value;
    return (double) value / seconds / (str_is(t->unit, "nanoseconds") ? 1e9 : 1);
}

static double share_of(const struct query_table *t, int64_t value)
{
    return t->total[0] > 0 ? (double) value / (double) t->total[0] : 0;
}

static void put_rate(struct buf *out, const struct type *t, double rate)
{
    type_format(out, t, str_is(t->unit, "nanoseconds") ? rate * 1e9 : rate, t->rule != TYPE_GAUGE);
}

static struct str threshold_summary(struct alert_look *l, const struct alert_rule *r, struct str function, double value)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    if (function.n)
        buf_printf(&b, "%.*s uses ", (int) MIN(function.n, (uint32_t) NAME_SHOWN), function.p);
    else
        buf_puts(&b, "The selection uses ");
    if (r->unit == ALERT_SHARE)
        buf_printf(&b, "%.1f %%", value * 100);
    else
        put_rate(&b, &l->source->value, value);
    buf_printf(&b, " of %s (limit %s)", l->selector, r->over);
    return arena_str(&l->out->arena, buf_str(&b));
}

static int add_threshold(struct alert_look *l, uint32_t index, struct str function, double value)
{
    const struct alert_rule *r = &l->rules->v[l->source->rules[index]];
    struct alert_finding f = {.service = l->service,
                              .function = function,
                              .value = value,
                              .limit = r->limit,
                              .unit = r->unit,
                              .summary = threshold_summary(l, r, function, value),
                              .link = alert_link(l, l->selector, l->from - r->baseline, l->to - r->baseline, function)};

    return alert_add_finding(l, index, &f);
}

/* The regular expression is asked last: few rows are over a limit. */
static int check_threshold(struct alert_look *l, uint32_t index, const struct query_table *t)
{
    const struct alert_rule *r = &l->rules->v[l->source->rules[index]];
    const struct type *type = &l->source->value;
    uint32_t n = 0;
    int x = 0;

    if (!r->regex) {
        double rate = rate_of(type, t, t->total[0], r->window);

        return rate > r->limit ? add_threshold(l, index, (struct str){"", 0}, rate) : 0;
    }
    for (uint32_t i = 0; x == 0 && i < t->n && n < ALERT_FUNCTIONS_MAX; i++) {
        int64_t of = r->self ? t->rows[i].self[0] : t->rows[i].total[0];
        double value = r->unit == ALERT_SHARE ? share_of(t, of) : rate_of(type, t, of, r->window);

        if (value <= r->limit || !regex_full(r->regex, t->rows[i].name))
            continue;
        x = add_threshold(l, index, t->rows[i].name, value);
        n++;
    }
    return x;
}

static int record(struct alert_look *l, uint32_t recording, const struct query_table *t)
{
    const struct alert_recording *r = &l->rules->recordings[recording];
    struct alert_results *out = l->out;
    uint32_t n = 0;
    int x = 0;

    for (uint32_t i = 0; x == 0 && n < r->limit && (r->regex ? i < t->n : i < 1); i++) {
        int64_t of = !r->regex ? t->total[0] : r->self ? t->rows[i].self[0] : t->rows[i].total[0];
        struct str function = r->regex ? t->rows[i].name : (struct str){"", 0};
        struct alert_recorded value = {.recording = recording,
                                       .service = l->service,
                                       .rate = rate_of(&l->source->value, t, of, l->source->window),
                                       .share = share_of(t, of),
                                       .type = &l->source->value};

        if (r->regex && !regex_full(r->regex, function))
            continue;
        value.function = arena_str(&out->arena, str_slice(function, 0, ALERT_TEXT_MAX));
        value.service = arena_str(&out->arena, l->service);
        x = out->arena.failed
                ? -ENOMEM
                : array_push(out->recorded, out->n_recorded, out->cap_recorded, ALERT_RECORDED_MAX, value);
        n++;
    }
    return x == -E2BIG ? 0 : x;
}

static int look_table(struct alert_look *l, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_table t = {0};
    int r = alert_compile(l, l->from, l->to, &q, e);

    if (r == 0)
        r = query_top(l->eval->store, q, &(struct query_order){ROWS_FUNCTION, QUERY_SORT_TOTAL, 0}, &t, e);
    if (r < 0)
        return r;
    for (uint32_t i = 0; r == 0 && i < l->source->n_rules; i++)
        r = check_threshold(l, i, &t);
    for (uint32_t i = 0; r == 0 && i < l->source->n_recordings; i++)
        r = record(l, l->source->recordings[i], &t);
    query_table_done(&t);
    return r;
}

/* --- services --- */

static int look(struct alert_look *l, struct err *e)
{
    static int (*const looks[])(struct alert_look *, struct err *) = {
        [ALERT_TABLE] = look_table,       [ALERT_DRIFTS] = alert_look_drift,      [ALERT_VERDICTS] = alert_look_verdict,
        [ALERT_RATES] = alert_look_spike, [ALERT_PRESENCE] = alert_look_presence,
    };

    return looks[l->source->kind](l, e);
}

struct service_list {
    const struct alert_source *source;
    struct arena *arena;
    struct map names;
    struct str v[SERVICES_MAX];
    uint32_t n;
};

static int add_service(void *ctx, const struct type *t, const struct labels *labels)
{
    struct service_list *x = ctx;
    struct str name = labels_get(labels, STR(SEMCONV_SERVICE_NAME));
    uint64_t h = hash64_str(name);

    if (!name.n || !str_eq(t->name, x->source->value.name) || !selector_matches(&x->source->parsed, labels))
        return 0;
    for (struct map_pos p = map_find(&x->names, h); p.index != MAP_NONE; p = map_next(&x->names, p))
        if (str_eq(x->v[p.index], name))
            return 0;
    if (x->n == SERVICES_MAX)
        return 0;
    x->v[x->n] = arena_str(x->arena, name);
    return x->v[x->n].p ? map_insert(&x->names, h, x->n++) : -ENOMEM;
}

struct str alert_service_of(const struct selector *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->v[i].op == MATCH_EQ && label_name_eq(s->v[i].name, STR(SEMCONV_SERVICE_NAME)))
            return s->v[i].value;
    return (struct str){"", 0};
}

const char *alert_selector(struct alert_look *l, struct str version)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    const struct selector *from = &l->source->parsed;
    struct selector s = {.type = from->type, .n = from->n};

    s.v = arena_zalloc_array(&l->out->arena, (size_t) s.n + 2, sizeof *s.v);
    if (!s.v)
        return NULL;
    if (from->n)
        memcpy(s.v, from->v, from->n * sizeof *s.v);
    if (l->service.n && !alert_service_of(from).n)
        s.v[s.n++] = (struct matcher){.name = STR(SEMCONV_SERVICE_NAME), .value = l->service, .op = MATCH_EQ};
    if (version.n)
        s.v[s.n++] = (struct matcher){.name = STR(SEMCONV_SERVICE_VERSION), .value = version, .op = MATCH_EQ};
    selector_print(&b, &s);
    return buf_error(&b) ? NULL : arena_cstr(&l->out->arena, buf_str(&b));
}

/* A service that cannot be evaluated does not keep others from it. Its own alerts stay as they are. */
static int skip_service(struct alert_look *l, const char *why, uint32_t n)
{
    int r = 0;

    snprintf(l->out->problem, sizeof l->out->problem,
             "%u service%s could not be evaluated, the last one '%.*s': %.100s", n, n == 1 ? "" : "s",
             (int) MIN(l->service.n, 60u), l->service.p, why);
    for (uint32_t i = 0; r == 0 && i < l->source->n_rules; i++) {
        struct alert_found *f = &l->out->rules[i];
        size_t kept = 0;

        for (size_t k = 0; k < f->n; k++) /* what was found before the failure does not count */
            if (!str_eq(f->v[k].service, l->service))
                f->v[kept++] = f->v[k];
        f->n = kept;
        r = alert_add_finding(l, i,
                              &(struct alert_finding){.service = l->service, .as_before = true, .of_service = true});
    }
    return r;
}

static int look_each(struct alert_look *l, struct err *e)
{
    _cleanup_(mem_freep) struct service_list *x = mem_zalloc(sizeof *x);
    struct store *s = l->eval->store;
    int64_t from = l->from - l->source->baseline;
    uint32_t failed = 0;
    int r;

    if (!x)
        return -ENOMEM;
    x->source = l->source;
    x->arena = &l->out->arena;
    r = s->ops->each_series(s, &(struct store_range){l->source->tenant, from, l->to, NULL}, add_service, x);
    if (r < 0) {
        map_done(&x->names);
        return err_set(e, r, "cannot list services: %m");
    }
    for (uint32_t i = 0; r == 0 && i < x->n; i++) {
        struct err why = {0};

        l->service = x->v[i];
        l->selector = alert_selector(l, (struct str){"", 0});
        r = l->selector ? look(l, &why) : -ENOMEM;
        if (r < 0 && r != -ENOMEM && r != -ECANCELED)
            r = skip_service(l, err_message(&why, r), ++failed);
        else if (r < 0)
            err_set(e, r, "%s", err_message(&why, r));
    }
    map_done(&x->names);
    return r;
}

int alert_evaluate(struct alert_eval *x, const struct alert_rules *rules, uint32_t source, struct alert_results *ret,
                   struct err *e)
{
    const struct alert_source *s = &rules->sources[source];
    struct alert_look l = {.eval = x,
                           .rules = rules,
                           .source = s,
                           .out = ret,
                           .service = alert_service_of(&s->parsed),
                           .selector = s->selector,
                           .from = x->now - s->window,
                           .to = x->now};

    *ret = (struct alert_results){.n_rules = s->n_rules};
    arena_init(&ret->arena, 256 << 20);
    ret->rules = arena_zalloc_array(&ret->arena, s->n_rules + 1u, sizeof *ret->rules);
    if (!ret->rules) {
        ret->n_rules = 0;
        return -ENOMEM;
    }
    return s->each && !l.service.n ? look_each(&l, e) : look(&l, e);
}
