/* SPDX-License-Identifier: Apache-2.0 */
/* The checks that compare: drift of functions against a baseline, and the verdict on a new version. See alert_eval.h. */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "alert/alert_eval.h"
#include "base/clock.h"
#include "base/regex.h"
#include "query/drift.h"
#include "query/query.h"
#include "query/verdict.h"

enum { NAME_SHOWN = 300 };

/* --- drift --- */

static int compile_diff(struct alert_look *l, int64_t base_from, int64_t base_to, struct query **ret, struct err *e)
{
    struct query_params p = alert_params(l, l->from, l->to);

    p.base_from = query_at(base_from);
    p.base_to = query_at(base_to);
    return query_compile(&p, ret, e);
}

static bool is_wanted(const struct alert_rule *r, const struct drift_row *row)
{
    if (!row->significant || fabs(row->points) < r->min_points)
        return false;
    if ((r->direction == ALERT_UP && row->points < 0) || (r->direction == ALERT_DOWN && row->points > 0))
        return false;
    return !r->regex || regex_full(r->regex, row->function);
}

static int add_drift(struct alert_look *l, uint32_t index, const struct drift_row *row, int64_t base_from,
                     int64_t base_to)
{
    const struct alert_rule *r = &l->rules->v[l->source->rules[index]];
    struct alert_finding f = {.service = l->service,
                              .function = row->function,
                              .value = row->points,
                              .limit = r->min_points,
                              .unit = ALERT_POINTS};

    f.summary = alert_printf(l, "%.*s: %+.1f points of %s (%.1f %% to %.1f %%, %+.2f cores, p %.2g)",
                             (int) MIN(row->function.n, (uint32_t) NAME_SHOWN), row->function.p, row->points,
                             l->selector, row->before * 100, row->now * 100, row->cores, row->p);
    f.link = alert_link(l, l->selector, base_from, base_to, row->function);
    return alert_add_finding(l, index, &f);
}

int alert_look_drift(struct alert_look *l, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct drift_ask ask = {.min_points = l->source->min_points, .spans = l->eval->spans};
    struct drift_answer d = {0};
    struct store_notes notes = {0};
    int64_t base_from, base_to;
    int r;

    alert_baseline(l->from, l->source->baseline, &base_from, &base_to);
    r = compile_diff(l, base_from, base_to, &q, e);
    if (r < 0)
        return r;
    q->q.notes = &notes; /* of the sampling rate */
    r = query_drift(l->eval->store, q, &ask, &d, e);
    if (r == -ENODATA)
        return 0;
    for (uint32_t i = 0; r == 0 && i < l->source->n_rules; i++) {
        const struct alert_rule *rule = &l->rules->v[l->source->rules[i]];
        uint32_t n = 0;

        if (d.minimum_detectable_points >= 100 && !l->source->each) /* too little data to test */
            l->out->rules[i].unknown = true;
        for (uint32_t k = 0; r == 0 && k < d.n && n < ALERT_FUNCTIONS_MAX; k++)
            if (is_wanted(rule, &d.rows[k])) {
                r = add_drift(l, i, &d.rows[k], base_from, base_to);
                n++;
            }
    }
    drift_answer_done(&d);
    return r;
}

/* --- verdict --- */

static int add_verdict(struct alert_look *l, uint32_t index, const struct verdict_answer *v)
{
    const struct alert_rule *r = &l->rules->v[l->source->rules[index]];
    struct alert_finding f = {.service = l->service,
                              .version = v->version,
                              .value = v->drift.n ? v->drift.rows[0].points : 0,
                              .limit = r->min_points,
                              .unit = ALERT_POINTS,
                              .as_before = v->verdict == VERDICT_UNKNOWN};
    struct alert_look shown = *l;
    const char *base = alert_selector(l, v->previous);

    shown.selector = alert_selector(l, v->version);
    if (v->to) {
        shown.from = v->from;
        shown.to = v->to;
    }
    if (!base || !shown.selector)
        return -ENOMEM;
    f.summary = alert_printf(l, "%s", v->sentence);
    f.link = alert_link(&shown, base, v->base_from, v->base_to, (struct str){"", 0});
    return alert_add_finding(l, index, &f);
}

int alert_look_verdict(struct alert_look *l, struct err *e)
{
    struct store_notes notes = {0};
    struct verdict_ask ask = {.tenant = l->source->tenant,
                              .service = l->service,
                              .type = l->source->parsed.type,
                              .min_points = l->source->min_points,
                              .names = l->eval->names,
                              .spans = l->eval->spans,
                              .now = l->eval->now,
                              .memory_limit = l->eval->memory_limit,
                              .cancel = l->eval->cancel,
                              .notes = &notes};
    struct verdict_answer v = {0};
    int r = query_verdict(l->eval->store, &ask, &v, e);

    if (r == -ENODATA)
        return 0;
    for (uint32_t i = 0; r == 0 && i < l->source->n_rules; i++)
        if (v.verdict == VERDICT_WORSE || (v.verdict == VERDICT_UNKNOWN && v.version.n))
            r = add_verdict(l, i, &v);
    verdict_answer_done(&v);
    return r;
}
