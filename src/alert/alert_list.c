/* SPDX-License-Identifier: Apache-2.0 */
/* How alerts are shown: the list of the API, the test of a rule, and metrics. See alert.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "alert/alert.h"
#include "alert/alert_definition.h"
#include "alert/alert_json.h"
#include "alert/alert_send.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/metric_text.h"

enum { VALUE_SHOWN = 200 };

/* --- the list --- */

static const char *duration_text(struct arena *a, int64_t ns)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    alert_put_duration(&b, ns);
    return arena_cstr(a, buf_str(&b));
}

static struct alert_rule_row rule_row(const struct alert_rule *r, int state, struct arena *a)
{
    return (struct alert_rule_row){.name = r->name,
                                   .id = r->id,
                                   .type = r->type,
                                   .selector = r->selector,
                                   .function = r->function,
                                   .over = r->over,
                                   .window = duration_text(a, r->window),
                                   .baseline = duration_text(a, r->baseline),
                                   .hold = duration_text(a, r->hold),
                                   .min_points = r->min_points,
                                   .state = state,
                                   .evaluated = r->last.at / NS_PER_MS * NS_PER_MS,
                                   .milliseconds = (double) r->last.took_ns / 1e6,
                                   .error = r->last.error};
}

/* The furthest stage of each rule's alerts: pending 1, firing 2. */
static uint8_t *rule_stages(const struct alerts *a)
{
    uint8_t *v = mem_zalloc_array((size_t) a->rules->n + 1, sizeof *v);

    for (size_t i = 0; v && i < a->states.n; i++) {
        const struct alert *x = a->states.v[i];

        if (x->at < a->rules->n && x->stage != ALERT_RESOLVED)
            v[x->at] = (uint8_t) MAX(v[x->at], x->stage + 1);
    }
    return v;
}

static int list_rules(const struct alerts *a, const char *tenant, struct arena *arena, struct record_list *ret)
{
    _cleanup_(mem_freep) uint8_t *stages = rule_stages(a);
    struct alert_rule_row *v = arena_zalloc_array(arena, (size_t) a->rules->n + a->rules->n_invalid + 1, sizeof *v);

    if (!stages || !v)
        return -ENOMEM;
    ret->v = v;
    for (uint32_t i = 0; i < a->rules->n; i++)
        if (strcmp(a->rules->v[i].tenant, tenant) == 0)
            v[ret->n++] = rule_row(&a->rules->v[i], stages[i], arena);
    for (uint32_t i = 0; i < a->rules->n_invalid; i++) {
        const struct alert_invalid *x = &a->rules->invalid[i];

        if (strcmp(x->tenant, tenant) == 0)
            v[ret->n++] = (struct alert_rule_row){.name = x->name, .id = x->id, .error = x->problem};
    }
    return 0;
}

/* The error of a receiver that does not know about the alert yet. */
static const char *delivery_error(const struct alerts *a, const struct alert *x)
{
    uint32_t targets = x->at < a->rules->n ? a->rules->v[x->at].targets : x->notified;

    for (uint32_t i = 0; i < ALERT_TARGETS_MAX; i++) {
        bool open =
            x->stage == ALERT_FIRING ? !(x->notified & 1u << i) : x->stage == ALERT_RESOLVED && x->notified & 1u << i;

        if (targets & 1u << i && a->slots[i].used && a->slots[i].error[0] && (open || a->slots[i].given_up))
            return a->slots[i].error;
    }
    return "";
}

static int list_alerts(const struct alerts *a, const char *tenant, struct arena *arena, struct record_list *ret)
{
    struct alert_row *v = arena_zalloc_array(arena, a->states.n + 1, sizeof *v);

    ret->v = v;
    for (size_t i = 0; v && i < a->states.n; i++) {
        const struct alert *x = a->states.v[i];

        if (strcmp(x->tenant, tenant) == 0)
            v[ret->n++] =
                alert_row_of(&(struct alert_view){x, x->at < a->rules->n ? &a->rules->v[x->at] : NULL, a->url},
                             delivery_error(a, x), arena);
    }
    return v ? 0 : -ENOMEM;
}

static int list_targets(const struct alerts *a, struct arena *arena, struct record_list *ret)
{
    struct alert_target_row *v = arena_zalloc_array(arena, ALERT_TARGETS_MAX, sizeof *v);

    ret->v = v;
    for (uint32_t i = 0; v && i < ALERT_TARGETS_MAX; i++) {
        const struct alert_slot *s = &a->slots[i];

        if (s->used)
            v[ret->n++] = (struct alert_target_row){.kind = a->targets[i].kind,
                                                    .host = s->host,
                                                    .sent = s->sent,
                                                    .failed = s->failed,
                                                    .waiting = alert_slot_waiting(a, i),
                                                    .error = s->error,
                                                    .error_at = s->error[0] ? s->error_at / NS_PER_MS * NS_PER_MS : 0};
    }
    return v ? 0 : -ENOMEM;
}

static void put_recorded(const struct alerts *a, const char *tenant, struct buf *out)
{
    bool first = true;

    buf_puts(out, ",\"recording\":[");
    for (uint32_t i = 0; i < a->n_kept; i++)
        for (size_t k = 0; k < a->kept[i].n_recorded; k++) {
            const struct alert_recorded *x = &a->kept[i].recorded[k];
            const struct alert_recording *r = &a->rules->recordings[x->recording];

            if (strcmp(r->tenant, tenant) != 0)
                continue;
            json_sep(out, &first);
            buf_puts(out, "{\"name\":");
            json_put_str(out, str_from(r->name));
            buf_puts(out, ",\"service\":");
            json_put_str(out, x->service);
            buf_puts(out, ",\"function\":");
            json_put_str(out, x->function);
            buf_printf(out, ",\"%s\":", str_is(x->type->unit, "nanoseconds") ? "cores" : "rate");
            json_put_double(out, x->rate);
            buf_puts(out, ",\"share\":");
            json_put_double(out, x->share);
            buf_putc(out, '}');
        }
    buf_putc(out, ']');
}

int alerts_each_recording(struct alerts *a, const char *tenant, alerts_recording_fn fn, void *ctx)
{
    int r = 0;

    if (!a)
        return 0;
    pthread_mutex_lock(&a->lock);
    for (uint32_t i = 0; r == 0 && i < a->rules->n_recordings; i++) {
        const struct alert_recording *x = &a->rules->recordings[i];

        if (!x->added && strcmp(x->tenant, tenant) == 0)
            r = fn(ctx, x, &a->rules->sources[x->source]);
    }
    pthread_mutex_unlock(&a->lock);
    return r;
}

int alerts_json(struct alerts *a, const char *tenant, struct buf *out)
{
    struct alerts_answer x = {0};
    struct arena arena;
    bool first = true;
    int r;

    arena_init(&arena, 0);
    pthread_mutex_lock(&a->lock);
    x.now = alerts_now(a) / NS_PER_MS * NS_PER_MS;
    x.interval = (double) a->rules->interval / 1e9;
    x.url = a->url;
    r = list_rules(a, tenant, &arena, &x.rules);
    if (r == 0)
        r = list_alerts(a, tenant, &arena, &x.alerts);
    if (r == 0 && !tenant[0])
        r = list_targets(a, &arena, &x.targets);
    buf_putc(out, '{');
    if (r == 0 && !arena.failed)
        record_put_fields(out, &first, alerts_answer_fields, &x);
    put_recorded(a, tenant, out);
    buf_puts(out, "}\n");
    pthread_mutex_unlock(&a->lock);
    r = arena.failed ? -ENOMEM : r;
    arena_done(&arena);
    return r < 0 ? r : buf_error(out);
}

/* --- trying out --- */

/* The rules and the URL of this moment; both are the caller's. */
static struct alert_rules *borrow(struct alerts *a, char **ret_url)
{
    struct alert_rules *rules;

    pthread_mutex_lock(&a->lock);
    rules = alert_rules_ref(a->rules);
    *ret_url = mem_strdup(a->url);
    pthread_mutex_unlock(&a->lock);
    return rules;
}

static bool is_tested(const struct alerts_test *t, const struct alert_rule *r)
{
    return strcmp(r->tenant, t->tenant) == 0 && (!t->rule.n || str_is(t->rule, r->name));
}

struct tested {
    struct alerts_tested answer;
    struct arena arena;
};

static struct record_list list_findings(const struct alert_rule *r, const struct alert_found *f, const char *url,
                                        int64_t now, struct arena *a)
{
    struct alert_row *v = arena_zalloc_array(a, f->n + 1, sizeof *v);
    struct record_list l = {v, 0};

    for (size_t i = 0; v && i < f->n; i++) {
        struct alert x = alert_of_finding(r, &f->v[i], now);

        if (f->v[i].as_before)
            continue;
        v[l.n] = alert_row_of(&(struct alert_view){&x, r, url}, "", a);
        v[l.n].service = arena_cstr(a, str_from(x.service));
        v[l.n].function = arena_cstr(a, str_from(x.function));
        v[l.n].version = arena_cstr(a, str_from(x.version));
        v[l.n++].summary = arena_cstr(a, str_from(x.summary));
    }
    return l;
}

/* Evaluates a source and lists those of its rules that are tested. */
static void test_source(struct alert_eval *x, const struct alert_rules *rules, uint32_t source,
                        const struct alerts_test *t, const char *url, struct tested *ret)
{
    const struct alert_source *s = &rules->sources[source];
    struct alert_tested_row *v = ret->answer.rules.v;
    struct alert_results res;
    struct err e = {0};
    int r = alert_evaluate(x, rules, source, &res, &e);

    for (uint32_t i = 0; i < s->n_rules; i++) {
        const struct alert_rule *rule = &rules->v[s->rules[i]];
        static const struct alert_found none;
        const struct alert_found *f = r < 0 ? &none : &res.rules[i];
        const char *error = r < 0 ? err_message(&e, r) : f->unknown ? "there is not enough data" : "";

        if (is_tested(t, rule))
            v[ret->answer.rules.n++] = (struct alert_tested_row){rule->name, arena_cstr(&ret->arena, str_from(error)),
                                                                 list_findings(rule, f, url, x->now, &ret->arena)};
    }
    alert_results_done(&res);
}

static bool has_tested(const struct alert_rules *rules, uint32_t source, const struct alerts_test *t)
{
    const struct alert_source *s = &rules->sources[source];

    for (uint32_t i = 0; i < s->n_rules; i++)
        if (is_tested(t, &rules->v[s->rules[i]]))
            return true;
    return false;
}

/* A message that says that it is a test: about the rule, or about none. */
static void make_test(const struct alert_target *target, const struct alert_rule *rule, const char *url,
                      struct buf *out)
{
    struct alert_finding f = {.summary = STR("This is a test message of wick; nothing is wrong."),
                              .link = STR("alerts")};
    struct alert_rule other = {.name = "test", .tenant = "", .type = ALERT_THRESHOLD};
    struct alert x = alert_of_finding(rule ? rule : &other, &f, clock_wall());
    struct alert_view v = {&x, rule ? rule : &other, url};

    if (target->kind == ALERT_ALERTMANAGER) {
        buf_putc(out, '[');
        alert_put_alertmanager(out, &v, x.since + 60 * NS_PER_S);
        buf_putc(out, ']');
        return;
    }
    alert_put_webhook_head(out, &v, true);
    alert_put_webhook(out, &v);
    buf_puts(out, "]}");
}

/* Posts to each receiver. Which of them a rule has is known by slots only, so all of them are tried. */
static void send_tests(const struct alert_rules *rules, const struct alerts_test *t, const struct alert_rule *rule,
                       const char *url, struct tested *ret)
{
    struct alert_target_row *v = arena_zalloc_array(&ret->arena, (size_t) rules->n_targets + 1, sizeof *v);

    ret->answer.sent = (struct record_list){v, v ? rules->n_targets : 0};
    for (uint32_t i = 0; v && i < rules->n_targets; i++) {
        _cleanup_(buf_done) struct buf body = BUF_INIT;
        struct alert_post p = {.rules = rules, .url = rules->targets[i].url, .cancel = t->cancel};
        struct err e = {0};
        int r;

        make_test(&rules->targets[i], rule, url, &body);
        p.body = buf_str(&body);
        r = buf_error(&body) ? buf_error(&body) : alert_post(&p, &e);
        v[i].host = rules->targets[i].host;
        v[i].error = arena_cstr(&ret->arena, str_from(r < 0 ? err_message(&e, r) : ""));
    }
}

/* Evaluates the rules that are tested, and prints what they find. first: the only one, for test messages; may be NULL. */
static int run_test(struct alerts *a, const struct alert_rules *rules, const struct alerts_test *t, const char *url,
                    const struct alert_rule *first, struct buf *out)
{
    struct alert_eval eval = {.store = a->o.store,
                              .names = a->o.names,
                              .spans = a->o.spans,
                              .now = alerts_now(a),
                              .memory_limit = a->o.memory_limit,
                              .cancel = t->cancel};
    struct tested x = {0};
    bool failed;

    arena_init(&x.arena, 0);
    x.answer.rules.v = arena_zalloc_array(&x.arena, (size_t) rules->n + 1, sizeof(struct alert_tested_row));
    for (uint32_t i = 0; x.answer.rules.v && i < rules->n_sources; i++)
        if (has_tested(rules, i, t))
            test_source(&eval, rules, i, t, url, &x);
    if (t->send)
        send_tests(rules, t, first, url, &x);
    failed = x.arena.failed;
    if (!failed)
        record_put(out, alerts_tested_fields, &x.answer);
    buf_putc(out, '\n');
    arena_done(&x.arena);
    return failed ? -ENOMEM : buf_error(out);
}

int alerts_test(struct alerts *a, const struct alerts_test *t, struct buf *out, struct err *e)
{
    _cleanup_(mem_freep) char *url = NULL;
    _cleanup_(alert_rules_unrefp) struct alert_rules *rules = borrow(a, &url);
    const struct alert_rule *first = NULL;

    for (uint32_t i = 0; i < rules->n && !first; i++)
        first = is_tested(t, &rules->v[i]) ? &rules->v[i] : NULL;
    if (!first && t->rule.n)
        return err_set(e, -ENOENT, "there is no rule named '%.*s'", (int) MIN(t->rule.n, (uint32_t) VALUE_SHOWN),
                       t->rule.p);
    if (t->send && t->tenant[0])
        return err_set(e, -EACCES, "only an administrator of the default tenant may send test messages");
    return url ? run_test(a, rules, t, url, t->rule.n ? first : NULL, out) : -ENOMEM;
}

/* The rules of a configuration that has this one alone. */
static int compile_one(const struct alert_definition *d, struct conf *c, struct alert_rules **ret, struct err *e)
{
    struct alert_config config = {0};
    struct option_tables none = {0};
    struct alert_added one;
    int r = alert_definition_read(d, c, &one);

    if (r == 0)
        r = option_parse(c, alert_options, NULL, &config, e);
    if (r == 0)
        r = alert_rules_new(&(struct alert_sections){.alerts = &config,
                                                     .recording = &none,
                                                     .added_rules = &(struct alert_added_list){&one, 1}},
                            ret, e);
    return r == 0 && one.invalid ? err_set(e, -EINVAL, "%s", one.problem.message) : r;
}

int alerts_try(struct alerts *a, const struct alert_definition *d, const atomic_bool *cancel, struct buf *out,
               struct err *e)
{
    _cleanup_(mem_freep) char *url = NULL;
    _cleanup_(alert_rules_unrefp) struct alert_rules *now = borrow(a, &url), *rules = NULL;
    struct conf c;
    int r;

    if (!url)
        return -ENOMEM;
    conf_init(&c);
    r = compile_one(d, &c, &rules, e);
    if (r == 0)
        r = run_test(a, rules, &(struct alerts_test){.tenant = rules->v[0].tenant, .cancel = cancel}, url, NULL, out);
    conf_done(&c);
    return r;
}

/* --- metrics --- */

static void put_series(struct buf *out, const char *name, const struct alert_recording *r,
                       const struct alert_recorded *x, double value)
{
    _cleanup_(buf_done) struct buf labels = BUF_INIT;

    metric_label(&labels, "rule", str_from(r->name));
    if (r->tenant[0])
        metric_label(&labels, "tenant", str_from(r->tenant));
    metric_label(&labels, "service", x->service);
    metric_label(&labels, "function", x->function);
    metric_label(&labels, "type", x->type->name);
    if (buf_cstr(&labels))
        metric_value(out, name, labels.p, value);
}

/* Cores for what is measured in time; the unit of the type per second, or of a gauge, for the rest. */
static void put_recorded_metrics(const struct alerts *a, struct buf *out)
{
    static const struct {
        const char *name, *help;
    } metrics[] = {
        {"wick_function_cores", "Cores that a function uses, by recording rule: mean over its window."},
        {"wick_function_rate", "Value of a function per second, or of a gauge, in the unit of its type."},
        {"wick_function_share", "Share of a function in the selection of its recording rule, 0 to 1."},
    };

    for (size_t m = 0; m < ARRAY_SIZE(metrics); m++) {
        uint32_t n = 0;

        metric_head(out, metrics[m].name, METRIC_GAUGE, metrics[m].help);
        for (uint32_t i = 0; i < a->n_kept; i++)
            for (size_t k = 0; k < a->kept[i].n_recorded && n < ALERT_RECORDED_MAX; k++) {
                const struct alert_recorded *x = &a->kept[i].recorded[k];
                bool cores = str_is(x->type->unit, "nanoseconds");

                if (m < 2 && cores != (m == 0))
                    continue;
                put_series(out, metrics[m].name, &a->rules->recordings[x->recording], x, m == 2 ? x->share : x->rate);
                n++;
            }
    }
}

static void put_notifications(const struct alerts *a, struct buf *out)
{
    uint64_t sent = 0, failed = 0;

    for (uint32_t i = 0; i < ALERT_TARGETS_MAX; i++) {
        sent += a->slots[i].sent;
        failed += a->slots[i].failed;
    }
    metric_head(out, "wick_alert_notifications_total", METRIC_COUNTER, "Messages to receivers of alerts, by result.");
    metric_value(out, "wick_alert_notifications_total", "result=\"sent\"", (double) sent);
    metric_value(out, "wick_alert_notifications_total", "result=\"failed\"", (double) failed);
}

void alerts_metrics(struct alerts *a, struct buf *out)
{
    uint64_t stages[3] = {0};

    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < a->states.n; i++)
        stages[a->states.v[i]->stage]++;
    metric_put(out, "wick_alert_rules", METRIC_GAUGE, "Alert rules.", a->rules->n);
    metric_head(out, "wick_alerts", METRIC_GAUGE, "Alerts by state.");
    metric_value(out, "wick_alerts", "state=\"pending\"", (double) stages[ALERT_PENDING]);
    metric_value(out, "wick_alerts", "state=\"firing\"", (double) stages[ALERT_FIRING]);
    metric_put(out, "wick_alert_evaluations_total", METRIC_COUNTER,
               "Evaluations of sources of alert and recording rules.", (double) a->evaluations);
    metric_put(out, "wick_alert_evaluation_failures_total", METRIC_COUNTER, "Evaluations that failed.",
               (double) a->failures);
    metric_put(out, "wick_alert_cpu_seconds_total", METRIC_COUNTER, "CPU time of evaluations.",
               (double) a->cpu_ns / 1e9);
    metric_put(out, "wick_alert_lag_seconds", METRIC_GAUGE, "How late the last evaluation was.",
               (double) a->lag_ns / 1e9);
    put_notifications(a, out);
    put_recorded_metrics(a, out);
    pthread_mutex_unlock(&a->lock);
}
