/* SPDX-License-Identifier: Apache-2.0 */
/* Alerts as JSON. See alert_json.h. */
#include "alert/alert_json.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"

void alert_put_time(struct buf *out, int64_t ns)
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

static void put_number(struct buf *out, const char *key, double v)
{
    buf_printf(out, ",\"%s\":", key);
    json_put_double(out, v);
}

static void put_link(struct buf *out, const struct alert_view *v)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    buf_printf(&b, "%s/%s", v->url, v->alert->link);
    json_put_str(out, buf_str(&b));
}

/* --- the API --- */

void alert_put_api(struct buf *out, const struct alert_view *v, const char *error)
{
    const struct alert *a = v->alert;
    bool first = true;

    buf_putc(out, '{');
    json_put_key_text(out, &first, "rule", a->rule);
    json_put_key_text(out, &first, "type", alert_type_names[a->type]);
    json_put_key_text(out, &first, "state", alert_stage_name(a->stage));
    json_put_key_text(out, &first, "service", a->service);
    json_put_key_text(out, &first, "function", a->function);
    json_put_key_text(out, &first, "version", a->version);
    buf_puts(out, ",\"since\":");
    alert_put_time(out, a->since);
    buf_puts(out, ",\"active\":");
    alert_put_time(out, a->active);
    put_number(out, "value", a->value);
    put_number(out, "limit", a->limit);
    json_put_key_text(out, &first, "unit", alert_unit_name(a->unit));
    json_put_key_text(out, &first, "summary", a->summary);
    buf_puts(out, ",\"url\":");
    put_link(out, v);
    buf_printf(out, ",\"fingerprint\":\"%016llx\"", (unsigned long long) a->id);
    json_put_key_text(out, &first, "delivery_error", error);
    buf_putc(out, '}');
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
               alert_unit_name(a->unit));
}

static void put_common(struct buf *out, const struct alert_view *v, int64_t ends)
{
    buf_puts(out, "\"labels\":");
    put_labels(out, v);
    buf_puts(out, ",\"annotations\":");
    put_annotations(out, v->alert);
    buf_puts(out, ",\"startsAt\":");
    alert_put_time(out, v->alert->active ? v->alert->active : v->alert->since);
    buf_puts(out, ",\"endsAt\":");
    if (ends)
        alert_put_time(out, ends);
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
