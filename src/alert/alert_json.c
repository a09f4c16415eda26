/* SPDX-License-Identifier: Apache-2.0 */
/* Alerts as JSON. See alert_json.h. */
#include "alert/alert_json.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"

static void put_time(struct buf *out, int64_t ns)
{
    if (!ns) {
        buf_puts(out, "null");
        return;
    }
    buf_putc(out, '"');
    clock_format(out, ns / NS_PER_MS * NS_PER_MS);
    buf_putc(out, '"');
}

static void put_given(struct buf *out, bool *first, const char *key, const char *value)
{
    if (value[0])
        json_put_key_text(out, first, key, value);
}

static void put_link(struct buf *out, const struct alert_view *v)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    buf_printf(&b, "%s/%s", v->url, v->alert->link);
    json_put_str(out, buf_str(&b));
}

/* --- the API --- */

const struct record_field alert_row_fields[] = {
    {"rule", RECORD_TEXT, offsetof(struct alert_row, rule), .column = 3},
    {"type", RECORD_WORD, offsetof(struct alert_row, type), .words = alert_type_names},
    {"state", RECORD_WORD, offsetof(struct alert_row, stage), .words = alert_stage_names, .column = 1},
    {"service", RECORD_TEXT, offsetof(struct alert_row, service)},
    {"function", RECORD_TEXT, offsetof(struct alert_row, function)},
    {"version", RECORD_TEXT, offsetof(struct alert_row, version)},
    {"since", RECORD_TIME, offsetof(struct alert_row, since), 0, "when this state began", .column = 2},
    {"active", RECORD_TIME, offsetof(struct alert_row, active), 0, "found for the first time without a break"},
    {"value", RECORD_NUMBER, offsetof(struct alert_row, value)},
    {"limit", RECORD_NUMBER, offsetof(struct alert_row, limit)},
    {"unit", RECORD_WORD, offsetof(struct alert_row, unit), .words = alert_unit_names},
    {"summary", RECORD_TEXT, offsetof(struct alert_row, summary), .column = 4},
    {"url", RECORD_TEXT, offsetof(struct alert_row, url), 0, "the page that shows it"},
    {"fingerprint", RECORD_ID, offsetof(struct alert_row, fingerprint)},
    {"delivery_error", RECORD_TEXT, offsetof(struct alert_row, delivery_error), .column = 5,
     .heading = "DELIVERY ERROR"},
    {0},
};

const char *const alert_rule_states[] = {"inactive", "pending", "firing", NULL};

const struct record_field alert_rule_row_fields[] = {
    {"name", RECORD_TEXT, offsetof(struct alert_rule_row, name), .column = 3, .heading = "RULE"},
    {"id", RECORD_TEXT, offsetof(struct alert_rule_row, id), 0,
     "of a rule that was added on the server; empty: of wick.yaml"},
    {"type", RECORD_WORD, offsetof(struct alert_rule_row, type), .words = alert_type_names, .column = 2},
    {"selector", RECORD_TEXT, offsetof(struct alert_rule_row, selector)},
    {"function", RECORD_TEXT, offsetof(struct alert_rule_row, function)},
    {"over", RECORD_TEXT, offsetof(struct alert_rule_row, over), 0, "the limit"},
    {"window", RECORD_TEXT, offsetof(struct alert_rule_row, window)},
    {"baseline", RECORD_TEXT, offsetof(struct alert_rule_row, baseline)},
    {"for", RECORD_TEXT, offsetof(struct alert_rule_row, hold)},
    {"min_points", RECORD_NUMBER, offsetof(struct alert_rule_row, min_points)},
    {"state", RECORD_WORD, offsetof(struct alert_rule_row, state), 0, "the furthest of its alerts",
     .words = alert_rule_states, .column = 1},
    {"evaluated", RECORD_TIME, offsetof(struct alert_rule_row, evaluated)},
    {"milliseconds", RECORD_NUMBER, offsetof(struct alert_rule_row, milliseconds), 6, "what the evaluation took"},
    {"error", RECORD_TEXT, offsetof(struct alert_rule_row, error), .column = 4},
    {0},
};

static const char *const target_kinds[] = {"webhook", "alertmanager", NULL};

static const struct record_field target_fields[] = {
    {"kind", RECORD_WORD, offsetof(struct alert_target_row, kind), .words = target_kinds},
    {"host", RECORD_TEXT, offsetof(struct alert_target_row, host)},
    {"sent", RECORD_COUNT, offsetof(struct alert_target_row, sent)},
    {"failed", RECORD_COUNT, offsetof(struct alert_target_row, failed)},
    {"waiting", RECORD_COUNT, offsetof(struct alert_target_row, waiting), 0, "alerts that it does not know about yet"},
    {"error", RECORD_TEXT, offsetof(struct alert_target_row, error)},
    {"error_at", RECORD_TIME, offsetof(struct alert_target_row, error_at)},
    {0},
};

#define ROWS(key, struct_of, member, row_struct, table)                                                          \
    {                                                                                                            \
        key, RECORD_LIST, offsetof(struct struct_of, member), .fields = table, .size = sizeof(struct row_struct) \
    }

const struct record_field alerts_answer_fields[] = {
    {"now", RECORD_TIME, offsetof(struct alerts_answer, now)},
    {"interval", RECORD_NUMBER, offsetof(struct alerts_answer, interval), 6, "seconds between evaluations"},
    {"url", RECORD_TEXT, offsetof(struct alerts_answer, url)},
    ROWS("rules", alerts_answer, rules, alert_rule_row, alert_rule_row_fields),
    ROWS("alerts", alerts_answer, alerts, alert_row, alert_row_fields),
    {"targets", RECORD_LIST, offsetof(struct alerts_answer, targets), 0, "receivers", RECORD_SPARSE,
     .fields = target_fields, .size = sizeof(struct alert_target_row)},
    {0},
};

static const struct record_field sent_fields[] = {
    {"host", RECORD_TEXT, offsetof(struct alert_target_row, host)},
    {"error", RECORD_TEXT, offsetof(struct alert_target_row, error)},
    {0},
};

static const struct record_field tested_fields[] = {
    {"name", RECORD_TEXT, offsetof(struct alert_tested_row, name)},
    {"error", RECORD_TEXT, offsetof(struct alert_tested_row, error)},
    ROWS("alerts", alert_tested_row, alerts, alert_row, alert_row_fields),
    {0},
};

const struct record_field alerts_tested_fields[] = {
    ROWS("rules", alerts_tested, rules, alert_tested_row, tested_fields),
    {"sent", RECORD_LIST, offsetof(struct alerts_tested, sent), 0, NULL, RECORD_SPARSE, .fields = sent_fields,
     .size = sizeof(struct alert_target_row)},
    {0},
};

struct alert_row alert_row_of(const struct alert_view *v, const char *delivery_error, struct arena *a)
{
    const struct alert *x = v->alert;

    return (struct alert_row){.rule = x->rule,
                              .service = x->service,
                              .function = x->function,
                              .version = x->version,
                              .summary = x->summary,
                              .url = arena_printf(a, "%s/%s", v->url, x->link),
                              .delivery_error = delivery_error,
                              .type = x->type,
                              .stage = x->stage,
                              .unit = x->unit,
                              .since = x->since / NS_PER_MS * NS_PER_MS,
                              .active = x->active / NS_PER_MS * NS_PER_MS,
                              .value = x->value,
                              .limit = x->limit,
                              .fingerprint = x->id};
}

/* --- receivers --- */

static bool has_label(const struct alert_rule *r, const char *name)
{
    for (uint32_t i = 0; r && i < r->n_labels; i++)
        if (str_is(r->labels[i].name, name))
            return true;
    return false;
}

/* Labels identify an alert at the receiver. Those of the rule take precedence; empty ones do not exist. */
static void put_labels(struct buf *out, const struct alert_view *v)
{
    const struct alert *a = v->alert;
    const struct {
        const char *name, *value;
    } own[] = {{"alertname", a->rule},  {"service", a->service}, {"function", a->function},
               {"version", a->version}, {"tenant", a->tenant},   {"type", alert_type_names[a->type]}};
    bool first = true;

    buf_putc(out, '{');
    for (size_t i = 0; i < ARRAY_SIZE(own); i++)
        if (!has_label(v->rule, own[i].name))
            put_given(out, &first, own[i].name, own[i].value);
    for (uint32_t i = 0; v->rule && i < v->rule->n_labels; i++) {
        if (!v->rule->labels[i].value.n)
            continue;
        json_sep(out, &first);
        json_put_str(out, v->rule->labels[i].name);
        buf_putc(out, ':');
        json_put_str(out, v->rule->labels[i].value);
    }
    buf_putc(out, '}');
}

static void put_annotations(struct buf *out, const struct alert *a)
{
    bool first = true;

    buf_putc(out, '{');
    json_put_key_text(out, &first, "summary", a->summary);
    buf_printf(out, ",\"value\":\"%.6g\",\"limit\":\"%.6g\",\"unit\":\"%s\"}", a->value, a->limit,
               alert_unit_names[a->unit]);
}

static void put_common(struct buf *out, const struct alert_view *v, int64_t ends)
{
    buf_puts(out, "\"labels\":");
    put_labels(out, v);
    buf_puts(out, ",\"annotations\":");
    put_annotations(out, v->alert);
    buf_puts(out, ",\"startsAt\":");
    put_time(out, v->alert->active ? v->alert->active : v->alert->since);
    buf_puts(out, ",\"endsAt\":");
    if (ends)
        put_time(out, ends);
    else
        buf_puts(out, "\"0001-01-01T00:00:00Z\""); /* Go's zero time, as Alertmanager sends it */
    buf_puts(out, ",\"generatorURL\":");
    put_link(out, v);
}

void alert_put_webhook_head(struct buf *out, const struct alert_view *first, bool firing)
{
    _cleanup_(buf_done) struct buf key = BUF_INIT;

    buf_puts(&key, "{}:{alertname=");
    json_put_str(&key, str_from(first->alert->rule));
    buf_puts(&key, "}");
    buf_puts(out, "{\"version\":\"4\",\"groupKey\":");
    json_put_str(out, buf_str(&key));
    buf_printf(out, ",\"truncatedAlerts\":0,\"status\":\"%s\",\"receiver\":\"wick\",\"groupLabels\":{\"alertname\":",
               firing ? "firing" : "resolved");
    json_put_str(out, str_from(first->alert->rule));
    buf_puts(out, "},\"commonLabels\":{\"alertname\":");
    json_put_str(out, str_from(first->alert->rule));
    buf_puts(out, "},\"commonAnnotations\":{},\"externalURL\":");
    json_put_str(out, str_from(first->url));
    buf_puts(out, ",\"alerts\":[");
}

void alert_put_webhook(struct buf *out, const struct alert_view *v)
{
    bool resolved = v->alert->stage == ALERT_RESOLVED;

    buf_printf(out, "{\"status\":\"%s\",", resolved ? "resolved" : "firing");
    put_common(out, v, resolved ? v->alert->since : 0);
    buf_printf(out, ",\"fingerprint\":\"%016llx\"}", (unsigned long long) v->alert->id);
}

void alert_put_alertmanager(struct buf *out, const struct alert_view *v, int64_t ends)
{
    buf_putc(out, '{');
    put_common(out, v, v->alert->stage == ALERT_RESOLVED ? v->alert->since : ends);
    buf_putc(out, '}');
}

struct alert alert_of_finding(const struct alert_rule *r, const struct alert_finding *f, int64_t now)
{
    return (struct alert){.tenant = (char *) r->tenant,
                          .rule = (char *) r->name,
                          .service = (char *) (f->service.p ? f->service.p : ""),
                          .function = (char *) (f->function.p ? f->function.p : ""),
                          .version = (char *) (f->version.p ? f->version.p : ""),
                          .summary = (char *) (f->summary.p ? f->summary.p : ""),
                          .link = (char *) (f->link.p ? f->link.p : ""),
                          .type = r->type,
                          .stage = ALERT_FIRING,
                          .active = now,
                          .since = now,
                          .seen = now,
                          .value = f->value,
                          .limit = f->limit,
                          .unit = f->unit};
}
