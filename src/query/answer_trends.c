/* SPDX-License-Identifier: Apache-2.0 */
/* Answers the questions explain, findings and trends: reads the parameters, asks explain.h, findings.h and trends.h. */
#include <errno.h>
#include <math.h>

#include "query/answer_drift.h"
#include "query/answer_fields.h"
#include "query/answer_run.h"
#include "query/trends.h"

static int compile_range(struct answer_request *c, struct query **ret, struct err *e)
{
    static const char *const names[] = {"query", "from", "to", NULL};
    struct query_params p = answer_params_none(c);
    int r = query_params_read(&p, names, c->param, c->ctx, e);

    return r < 0 ? r : query_compile(&p, ret, e);
}

int answer_run_findings(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct findings f;
    int r = answer_compile(c, &q, e);

    if (r == 0)
        r = query_findings(c->store, q, &f, e);
    if (r < 0)
        return r;
    answer_put(c, out, &f);
    findings_done(&f);
    return 0;
}

int answer_run_explain(struct answer_request *c, struct buf *out, struct err *e)
{
    struct query_params like;
    _cleanup_(query_freep) struct query *q = NULL;
    struct explain x;
    int r = answer_params_of(c, &like, e);

    if (r == 0)
        r = answer_compile_params(c, &like, &q, e);
    if (r == 0)
        r = query_explain(c->store, q, &(struct explain_ask){&like, c->spans}, &x, e);
    if (r < 0)
        return r;
    answer_put(c, out, &x);
    explain_done(&x);
    return 0;
}

/* --- trends --- */

static int take_trend(struct trends *t, uint32_t series, struct answer_trend *to)
{
    const struct trend *v = &t->v[series];

    *to = (struct answer_trend){.labels = t->points.labels[series],
                                .points = v->points,
                                .rate = v->rate,
                                .usual = v->usual,
                                .per_hour = v->per_hour,
                                .fit = v->fit,
                                .rates = arena_zalloc_array(&t->arena, t->points.n_points + 1u, sizeof *to->rates),
                                .n_rates = t->points.n_points,
                                .spikes = arena_zalloc_array(&t->arena, v->n_spikes + 1u, sizeof *to->spikes),
                                .n_spikes = v->n_spikes};
    if (!to->rates || !to->spikes)
        return -ENOMEM;
    for (uint32_t i = 0; i < to->n_rates; i++) {
        double rate = trends_rate(t, series, i);

        to->rates[i] = rate < 0 ? NAN : rate;
    }
    for (uint32_t i = 0; i < v->n_spikes; i++)
        to->spikes[i] = (struct answer_spike){t->points.from + v->spikes[i] * t->points.step,
                                              trends_rate(t, series, v->spikes[i]), v->usual};
    return 0;
}

static int put_trends(struct answer_request *c, struct buf *out, struct trends *t)
{
    struct answer_trends x = {.type = t->points.type.name,
                              .unit = t->points.type.unit,
                              .from = t->points.from,
                              .step = t->points.step,
                              .trends = arena_zalloc_array(&t->arena, t->points.n_series + 1u, sizeof *x.trends),
                              .n = t->points.n_series};
    int r = x.trends ? 0 : -ENOMEM;

    for (uint32_t i = 0; r == 0 && i < x.n; i++)
        r = take_trend(t, i, &x.trends[i]);
    if (r == 0)
        answer_put(c, out, &x);
    return r;
}

int answer_run_trends(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_series_params p = {.by = answer_param(c, "group_by"), .function = answer_param(c, "function")};
    struct trends t;
    int r = compile_range(c, &q, e);

    if (r == 0)
        r = answer_param_duration(c, "step", &p.step, e);
    if (r == 0)
        r = query_trends(c->store, q, &p, &t, e);
    if (r < 0)
        return r;
    r = put_trends(c, out, &t);
    trends_done(&t);
    return r;
}
