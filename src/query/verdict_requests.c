/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the cost of a request (verdict_requests.h). Windows have the same length on both sides; one without CPU time or
 * without requests is left out. Welch's test over the costs of the windows says whether the difference is more than
 * noise.
 */
#include "query/verdict_requests.h"

#include <errno.h>
#include <math.h>

#include "base/clock.h"
#include "span/span_index.h"

enum { COSTS_MAX = 256 };
#define COST_MOST 1000.0 /* the largest factor of an interval */

struct request_side {
    int64_t from, to, step;
    struct str version;
    double costs[COSTS_MAX]; /* CPU time per request, one per window */
    uint32_t n;
    double value;
    uint64_t requests;
};

/* CPU time per window. */
static int read_values(struct store *s, const struct verdict_ask *ask, struct arena *a, const struct request_side *side,
                       struct store_points *ret, struct err *e)
{
    struct query_params p = {
        .tenant = ask->tenant, .now = ask->now, .memory_limit = ask->memory_limit, .cancel = ask->cancel};
    char *selector = verdict_selector(a, ask->type, ask->service, side->version);
    _cleanup_(query_freep) struct query *q = NULL;
    int r;

    if (!selector)
        return -ENOMEM;
    p.query = str_from(selector);
    p.from = query_at(side->from);
    p.to = query_at(side->to);
    r = query_compile(&p, &q, e);
    return r < 0 ? r : query_series(s, q, &(struct query_series_params){.step = side->step}, ret, e);
}

/* Requests of the window, of the version; spans without a version count if the versions did not run side by side. */
static uint64_t count(const struct span_requests *r, struct str version, bool overlap, uint32_t window)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < r->n; i++)
        if (str_eq(r->v[i].version, version) || (!overlap && !r->v[i].version.n))
            n += r->v[i].count[window];
    return n;
}

static void add_windows(struct request_side *side, const struct store_points *p, const struct span_requests *r,
                        bool overlap)
{
    for (uint32_t w = 0; w < p->n_points && w < r->n_windows; w++) {
        uint64_t n = count(r, side->version, overlap, w);
        double v = 0;

        for (uint32_t k = 0; k < p->n_series; k++)
            v += p->values[(size_t) k * p->n_points + w];
        if (!n || !(v > 0) || side->n == COSTS_MAX)
            continue;
        side->costs[side->n++] = v / (double) n;
        side->value += v;
        side->requests += n;
    }
}

static int read_side(struct store *s, const struct verdict_ask *ask, struct verdict_answer *v,
                     struct request_side *side, struct err *e)
{
    struct span_requests_query rq = {.tenant = ask->tenant,
                                     .service = ask->service,
                                     .from = side->from,
                                     .to = side->to,
                                     .step = side->step,
                                     .cancel = ask->cancel};
    struct span_requests requests;
    struct store_points points;
    int r = span_index_requests(ask->spans, &rq, &requests, e);

    if (r < 0)
        return r;
    r = requests.n ? read_values(s, ask, &v->arena, side, &points, e) : 0;
    if (r == 0 && requests.n) {
        add_windows(side, &points, &requests, v->overlap);
        store_points_done(&points);
    }
    span_requests_done(&requests);
    return r;
}

/* The squared standard error of the mean cost, relative to the mean. */
static double relative_error2(const struct request_side *side)
{
    double mean = 0, sum = 0;

    for (uint32_t i = 0; i < side->n; i++)
        mean += side->costs[i] / side->n;
    for (uint32_t i = 0; i < side->n; i++)
        sum += (side->costs[i] / mean - 1) * (side->costs[i] / mean - 1);
    return sum / (side->n - 1) / side->n;
}

/* Welch's test of the logarithms of both costs: p and interval are of one t, so that they agree. */
static void compare_costs(struct verdict_answer *v, const struct request_side *sides, const double cost[2])
{
    double a = relative_error2(&sides[0]), b = relative_error2(&sides[1]), change = log(cost[1] / cost[0]);
    double freedom = a + b > 0 ? (a + b) * (a + b) / (a * a / (sides[0].n - 1) + b * b / (sides[1].n - 1)) : 1;
    double error = sqrt(a + b), far = error > 0 ? drift_t_quantile(DRIFT_ALPHA, freedom) * error : 0;

    v->cost_change = cost[1] / cost[0] - 1;
    v->cost_p = error > 0 ? drift_t_p(fabs(change) / error, freedom) : change != 0 ? 0 : 1;
    v->cost_low = exp(change - far) - 1;
    v->cost_high = exp(fmin(change + far, log(COST_MOST))) - 1;
    v->cost_known = true;
}

int verdict_requests(struct store *s, const struct verdict_ask *ask, struct verdict_answer *v, struct err *e)
{
    struct request_side sides[2] = {{.from = v->base_from, .to = v->base_to, .version = v->previous},
                                    {.from = v->from, .to = v->to, .version = v->version}};
    int64_t shorter = MIN(v->base_to - v->base_from, v->to - v->from);
    int64_t step = shorter >= 300 * NS_PER_S ? 60 * NS_PER_S : 15 * NS_PER_S;
    double cost[2];
    int r = 0;

    if (!ask->spans)
        return 0;
    while (MAX(v->base_to - v->base_from, v->to - v->from) / step >= COSTS_MAX)
        step *= 2;
    for (int i = 0; r == 0 && i < 2; i++) {
        sides[i].step = step;
        r = read_side(s, ask, v, &sides[i], e);
    }
    if (r < 0 || sides[0].n < 3 || sides[1].n < 3)
        return r;
    for (int i = 0; i < 2; i++) {
        cost[i] = sides[i].value / (double) sides[i].requests;
        v->requests[i] = sides[i].requests;
    }
    v->per_request = true;
    compare_costs(v, sides, cost);
    return 0;
}
