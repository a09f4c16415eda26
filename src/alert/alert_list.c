/* SPDX-License-Identifier: Apache-2.0 */
/* How alerts are shown: the list of the API, the test of a rule, and metrics. See alert.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "alert/alert.h"
#include "alert/alert_json.h"
#include "alert/alert_send.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

enum { VALUE_SHOWN = 200 };

/* --- the list --- */

static void put_text(struct buf *out, const char *key, const char *value)
{
    buf_printf(out, ",\"%s\":", key);
    json_put_str(out, str_from(value ? value : ""));
}

static void put_duration(struct buf *out, const char *key, int64_t ns)
{
    buf_printf(out, ",\"%s\":\"", key);
    alert_put_duration(out, ns);
    buf_putc(out, '"');
}

static void put_rule(struct buf *out, const struct alert_rule *r, const char *state)
{
    buf_puts(out, "{\"name\":");
    json_put_str(out, str_from(r->name));
    put_text(out, "type", alert_type_names[r->type]);
    put_text(out, "selector", r->selector);
    put_text(out, "function", r->function);
    put_text(out, "over", r->over);
    put_duration(out, "window", r->window);
    put_duration(out, "baseline", r->baseline);
    put_duration(out, "for", r->hold);
    buf_puts(out, ",\"min_points\":");
    json_put_double(out, r->min_points);
    put_text(out, "state", state);
    buf_puts(out, ",\"evaluated\":");
    alert_put_time(out, r->last.at);
    buf_printf(out, ",\"milliseconds\":%.3f", (double) r->last.took_ns / 1e6);
    put_text(out, "error", r->last.error);
    buf_putc(out, '}');
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

static int put_rules(const struct alerts *a, const char *tenant, struct buf *out)
{
    static const char *const names[] = {"inactive", "pending", "firing"};
    _cleanup_(mem_freep) uint8_t *stages = rule_stages(a);
    bool first = true;

    if (!stages)
        return -ENOMEM;
    buf_puts(out, ",\"rules\":[");
    for (uint32_t i = 0; i < a->rules->n; i++)
        if (strcmp(a->rules->v[i].tenant, tenant) == 0) {
            json_sep(out, &first);
            put_rule(out, &a->rules->v[i], names[stages[i]]);
        }
    buf_putc(out, ']');
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

static void put_alerts(const struct alerts *a, const char *tenant, struct buf *out)
{
    bool first = true;

    buf_puts(out, ",\"alerts\":[");
    for (size_t i = 0; i < a->states.n; i++) {
        const struct alert *x = a->states.v[i];
        struct alert_view v = {x, x->at < a->rules->n ? &a->rules->v[x->at] : NULL, a->url};

        if (strcmp(x->tenant, tenant) != 0)
            continue;
        json_sep(out, &first);
        alert_put_api(out, &v, delivery_error(a, x));
    }
    buf_putc(out, ']');
}

static void put_targets(const struct alerts *a, struct buf *out)
{
    bool first = true;

    buf_puts(out, ",\"targets\":[");
    for (uint32_t i = 0; i < ALERT_TARGETS_MAX; i++) {
        const struct alert_slot *s = &a->slots[i];

        if (!s->used)
            continue;
        json_sep(out, &first);
        buf_printf(out, "{\"kind\":\"%s\",\"host\":", a->targets[i].kind == ALERT_WEBHOOK ? "webhook" : "alertmanager");
        json_put_str(out, str_from(s->host));
        buf_printf(out, ",\"sent\":%llu,\"failed\":%llu,\"waiting\":%u", (unsigned long long) s->sent,
                   (unsigned long long) s->failed, alert_slot_waiting(a, i));
        put_text(out, "error", s->error);
        buf_puts(out, ",\"error_at\":");
        alert_put_time(out, s->error[0] ? s->error_at : 0);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
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
    int r;

    pthread_mutex_lock(&a->lock);
    buf_puts(out, "{\"now\":");
    alert_put_time(out, alerts_now(a));
    buf_printf(out, ",\"interval\":%.3f", (double) a->rules->interval / 1e9);
    put_text(out, "url", a->url);
    r = put_rules(a, tenant, out);
    put_alerts(a, tenant, out);
    if (!tenant[0])
        put_targets(a, out);
    put_recorded(a, tenant, out);
    buf_puts(out, "}\n");
    pthread_mutex_unlock(&a->lock);
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

static void put_findings(struct buf *out, const struct alert_rule *r, const struct alert_found *f, const char *url,
                         int64_t now)
{
    buf_puts(out, ",\"alerts\":[");
    for (size_t i = 0; i < f->n; i++) {
        struct alert x;

        if (f->v[i].as_before)
            continue;
        x = alert_of_finding(r, &f->v[i], now);
        if (out->p[out->n - 1] != '[')
            buf_putc(out, ',');
        alert_put_api(out, &(struct alert_view){&x, r, url}, "");
    }
    buf_putc(out, ']');
}

/* Evaluates a source and prints those of its rules that are tested. */
static void test_source(struct alert_eval *x, const struct alert_rules *rules, uint32_t source,
                        const struct alerts_test *t, const char *url, struct buf *out)
{
    const struct alert_source *s = &rules->sources[source];
    struct alert_results res;
    struct err e = {0};
    int r = alert_evaluate(x, rules, source, &res, &e);

    for (uint32_t i = 0; i < s->n_rules; i++) {
        const struct alert_rule *rule = &rules->v[s->rules[i]];
        static const struct alert_found none;
        const struct alert_found *f = r < 0 ? &none : &res.rules[i];

        if (!is_tested(t, rule))
            continue;
        buf_puts(out, out->p[out->n - 1] == '[' ? "{\"name\":" : ",{\"name\":");
        json_put_str(out, str_from(rule->name));
        put_text(out, "error", r < 0 ? err_message(&e, r) : f->unknown ? "there is not enough data" : "");
        put_findings(out, rule, f, url, x->now);
        buf_putc(out, '}');
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
                       const char *url, struct buf *out)
{
    buf_puts(out, ",\"sent\":[");
    for (uint32_t i = 0; i < rules->n_targets; i++) {
        _cleanup_(buf_done) struct buf body = BUF_INIT;
        struct alert_post p = {.rules = rules, .url = rules->targets[i].url, .cancel = t->cancel};
        struct err e = {0};
        int r;

        make_test(&rules->targets[i], rule, url, &body);
        p.body = buf_str(&body);
        r = buf_error(&body) ? buf_error(&body) : alert_post(&p, &e);
        buf_puts(out, i ? ",{\"host\":" : "{\"host\":");
        json_put_str(out, str_from(rules->targets[i].host));
        put_text(out, "error", r < 0 ? err_message(&e, r) : "");
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
}

int alerts_test(struct alerts *a, const struct alerts_test *t, struct buf *out, struct err *e)
{
    _cleanup_(mem_freep) char *url = NULL;
    _cleanup_(alert_rules_unrefp) struct alert_rules *rules = borrow(a, &url);
    struct alert_eval eval = {.store = a->o.store,
                              .names = a->o.names,
                              .spans = a->o.spans,
                              .now = alerts_now(a),
                              .memory_limit = a->o.memory_limit,
                              .cancel = t->cancel};
    const struct alert_rule *first = NULL;

    for (uint32_t i = 0; i < rules->n && !first; i++)
        first = is_tested(t, &rules->v[i]) ? &rules->v[i] : NULL;
    if (!first && t->rule.n)
        return err_set(e, -ENOENT, "there is no rule named '%.*s'", (int) MIN(t->rule.n, (uint32_t) VALUE_SHOWN),
                       t->rule.p);
    if (t->send && t->tenant[0])
        return err_set(e, -EACCES, "only an administrator of the default tenant may send test messages");
    buf_puts(out, "{\"rules\":[");
    for (uint32_t i = 0; url && i < rules->n_sources; i++)
        if (has_tested(rules, i, t))
            test_source(&eval, rules, i, t, url, out);
    buf_putc(out, ']');
    if (t->send && url)
        send_tests(rules, t, t->rule.n ? first : NULL, url, out);
    buf_puts(out, "}\n");
    return url ? buf_error(out) : -ENOMEM;
}

/* --- metrics --- */

/* A label value of the text format. */
static void put_escaped(struct buf *out, struct str s)
{
    for (uint32_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\\' || s.p[i] == '"')
            buf_putc(out, '\\');
        if (s.p[i] == '\n')
            buf_puts(out, "\\n");
        else
            buf_putc(out, s.p[i]);
    }
}

static void put_label(struct buf *out, const char *name, struct str value)
{
    buf_printf(out, "%s%s=\"", out->p[out->n - 1] == '{' ? "" : ",", name);
    if (str_is_utf8(value))
        put_escaped(out, value);
    buf_putc(out, '"');
}

static void put_series(struct buf *out, const char *name, const struct alert_recording *r,
                       const struct alert_recorded *x, double value)
{
    buf_printf(out, "%s{", name);
    put_label(out, "rule", str_from(r->name));
    if (r->tenant[0])
        put_label(out, "tenant", str_from(r->tenant));
    put_label(out, "service", x->service);
    put_label(out, "function", x->function);
    put_label(out, "type", x->type->name);
    buf_printf(out, "} %.9g\n", value);
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

        buf_printf(out, "# HELP %s %s\n# TYPE %s gauge\n", metrics[m].name, metrics[m].help, metrics[m].name);
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

static void put_metric(struct buf *out, const char *name, const char *type, const char *help, double value)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", name, help, name, type, name, value);
}

static void put_notifications(const struct alerts *a, struct buf *out)
{
    uint64_t sent = 0, failed = 0;

    for (uint32_t i = 0; i < ALERT_TARGETS_MAX; i++) {
        sent += a->slots[i].sent;
        failed += a->slots[i].failed;
    }
    buf_printf(
        out,
        "# HELP wick_alert_notifications_total Messages to receivers of alerts, by result.\n"
        "# TYPE wick_alert_notifications_total counter\n"
        "wick_alert_notifications_total{result=\"sent\"} %llu\nwick_alert_notifications_total{result=\"failed\"} %llu\n",
        (unsigned long long) sent, (unsigned long long) failed);
}

void alerts_metrics(struct alerts *a, struct buf *out)
{
    uint64_t stages[3] = {0};

    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < a->states.n; i++)
        stages[a->states.v[i]->stage]++;
    put_metric(out, "wick_alert_rules", "gauge", "Alert rules.", a->rules->n);
    buf_printf(out,
               "# HELP wick_alerts Alerts by state.\n# TYPE wick_alerts gauge\n"
               "wick_alerts{state=\"pending\"} %llu\nwick_alerts{state=\"firing\"} %llu\n",
               (unsigned long long) stages[ALERT_PENDING], (unsigned long long) stages[ALERT_FIRING]);
    put_metric(out, "wick_alert_evaluations_total", "counter", "Evaluations of sources of alert and recording rules.",
               (double) a->evaluations);
    put_metric(out, "wick_alert_evaluation_failures_total", "counter", "Evaluations that failed.",
               (double) a->failures);
    put_metric(out, "wick_alert_cpu_seconds_total", "counter", "CPU time of evaluations.", (double) a->cpu_ns / 1e9);
    put_metric(out, "wick_alert_lag_seconds", "gauge", "How late the last evaluation was.", (double) a->lag_ns / 1e9);
    put_notifications(a, out);
    put_recorded_metrics(a, out);
    pthread_mutex_unlock(&a->lock);
}
