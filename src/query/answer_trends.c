/* SPDX-License-Identifier: Apache-2.0 */
/* Answers the questions findings and trends: reads the parameters, asks findings.h and trends.h, and prints JSON. */
#include <errno.h>

#include "base/json.h"
#include "query/answer_drift.h"
#include "query/answer_run.h"
#include "query/findings.h"
#include "query/query_json.h"
#include "query/trends.h"

static int compile_range(struct answer_request *c, struct query **ret, struct err *e)
{
    struct query_params p = {.tenant = c->tenant,
                             .query = answer_param(c, "query"),
                             .from = answer_param(c, "from"),
                             .to = answer_param(c, "to"),
                             .names = c->names,
                             .now = c->now,
                             .memory_limit = c->memory_limit,
                             .cancel = c->cancel};
    int r = query_compile(&p, ret, e);

    if (r == 0)
        (*ret)->q.notes = &c->notes;
    return r;
}

/* --- findings --- */

static void put_finding(struct buf *out, const struct finding *f)
{
    bool first = true;

    buf_putc(out, '{');
    json_put_key_text(out, &first, "rule", f->rule);
    json_put_key_text(out, &first, "title", f->title);
    json_put_key_text(out, &first, "severity", f->warning ? "warning" : "info");
    json_put_key_double(out, &first, "share", f->share);
    json_put_key_text(out, &first, "sentence", f->sentence);
    json_put_key(out, &first, "frames");
    buf_putc(out, '[');
    for (uint32_t i = 0; i < f->n_frames; i++) {
        bool inner = true;

        buf_puts(out, i ? ",{" : "{");
        json_put_key_str(out, &inner, "function", f->frames[i].function);
        json_put_key_double(out, &inner, "share", f->frames[i].share);
        buf_putc(out, '}');
    }
    buf_puts(out, "]}");
}

int answer_run_findings(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct findings f;
    bool first = true;
    int r = answer_compile(c, &q, e);

    if (r == 0)
        r = query_findings(c->store, q, &f, &c->notes, e);
    if (r < 0)
        return r;
    buf_putc(out, '{');
    json_put_key_str(out, &first, "type", f.type);
    json_put_key_str(out, &first, "unit", f.unit);
    json_put_key_i64(out, &first, "total", f.total);
    json_put_key(out, &first, "findings");
    buf_putc(out, '[');
    for (uint32_t i = 0; i < f.n; i++) {
        if (i)
            buf_putc(out, ',');
        put_finding(out, &f.v[i]);
    }
    buf_puts(out, "]}");
    findings_done(&f);
    return 0;
}

/* --- trends --- */

static void put_spikes(struct buf *out, const struct trends *t, uint32_t series)
{
    const struct trend *v = &t->v[series];

    buf_putc(out, '[');
    for (uint32_t i = 0; i < v->n_spikes; i++) {
        int64_t at = t->points.from + v->spikes[i] * t->points.step;

        buf_printf(out, "%s{\"time\":\"%lld\",\"rate\":", i ? "," : "", (long long) at);
        json_put_double(out, trends_rate(t, series, v->spikes[i]));
        buf_puts(out, ",\"usual\":");
        json_put_double(out, v->usual);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
}

static void put_rates(struct buf *out, const struct trends *t, uint32_t series)
{
    buf_putc(out, '[');
    for (uint32_t i = 0; i < t->points.n_points; i++) {
        double v = trends_rate(t, series, i);

        if (i)
            buf_putc(out, ',');
        if (v < 0)
            buf_puts(out, "null");
        else
            json_put_double(out, v);
    }
    buf_putc(out, ']');
}

static void put_trend(struct buf *out, const struct trends *t, uint32_t series)
{
    const struct trend *v = &t->v[series];
    bool first = true;

    buf_putc(out, '{');
    json_put_key(out, &first, "labels");
    query_labels_json(out, &t->points.labels[series]);
    json_put_key_u64(out, &first, "points", v->points);
    json_put_key_double(out, &first, "rate", v->rate);
    json_put_key_double(out, &first, "usual", v->usual);
    json_put_key_double(out, &first, "change_per_hour", v->per_hour);
    json_put_key_double(out, &first, "fit", v->fit);
    json_put_key(out, &first, "rates");
    put_rates(out, t, series);
    json_put_key(out, &first, "spikes");
    put_spikes(out, t, series);
    buf_putc(out, '}');
}

int answer_run_trends(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_series_params p = {.by = answer_param(c, "group_by"), .function = answer_param(c, "function")};
    struct trends t;
    bool first = true;
    int r = compile_range(c, &q, e);

    if (r == 0)
        r = answer_param_duration(c, "step", &p.step, e);
    if (r == 0)
        r = query_trends(c->store, q, &p, &t, &c->notes, e);
    if (r < 0)
        return r;
    buf_putc(out, '{');
    json_put_key_str(out, &first, "type", t.points.type.name);
    json_put_key_str(out, &first, "unit", t.points.type.unit);
    json_put_key(out, &first, "from");
    buf_printf(out, "\"%lld\"", (long long) t.points.from);
    json_put_key(out, &first, "step");
    buf_printf(out, "\"%lld\"", (long long) t.points.step);
    json_put_key(out, &first, "trends");
    buf_putc(out, '[');
    for (uint32_t i = 0; i < t.points.n_series; i++) {
        if (i)
            buf_putc(out, ',');
        put_trend(out, &t, i);
    }
    buf_puts(out, "]}");
    trends_done(&t);
    return 0;
}
