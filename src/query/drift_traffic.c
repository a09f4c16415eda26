/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the mix of requests (drift_traffic.h): the names of request spans are tested as functions are, over windows
 * of time, once by their number and once by their duration.
 */
#include "query/drift_traffic.h"

#include <errno.h>
#include <math.h>

#include "base/clock.h"
#include "base/mem.h"
#include "query/drift_stats.h"
#include "span/span_index.h"

enum { TRAFFIC_NAMES = 64, TRAFFIC_WINDOWS = 48 };
static const double TRAFFIC_POINTS = 2, TRAFFIC_ALPHA = 0.05;

struct traffic {
    struct str names[TRAFFIC_NAMES]; /* the last one stands for all others */
    uint32_t n_names;
    int64_t from, width;
    uint32_t side;
    double values[2][TRAFFIC_NAMES][2 * TRAFFIC_WINDOWS]; /* number, duration */
    struct arena arena;
};

static uint32_t find_name(struct traffic *t, struct str name)
{
    for (uint32_t i = 0; i < t->n_names; i++)
        if (str_eq(t->names[i], name))
            return i;
    if (t->n_names == TRAFFIC_NAMES)
        return TRAFFIC_NAMES - 1;
    t->names[t->n_names] = arena_str(&t->arena, name);
    return t->n_names++;
}

static int add_span(void *ctx, const struct span_row *s)
{
    struct traffic *t = ctx;
    uint32_t name = find_name(t, s->name);
    int64_t window = (s->start - t->from) / t->width;

    if (window < 0 || window >= TRAFFIC_WINDOWS)
        return 0;
    t->values[0][name][t->side * TRAFFIC_WINDOWS + window]++;
    t->values[1][name][t->side * TRAFFIC_WINDOWS + window] += (double) s->duration;
    return 0;
}

/* The service that a selector names exactly; empty if it does not. */
static struct str service_of(const struct selector *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->v[i].op == MATCH_EQ && label_name_eq(s->v[i].name, STR("service.name")))
            return s->v[i].value;
    return (struct str){0};
}

static int read_side(struct traffic *t, struct span_index *x, const struct query *q, uint32_t side, struct err *e)
{
    const struct store_column *c = &q->q.columns[side];
    struct span_filter f = {.tenant = q->q.tenant,
                            .from = c->from,
                            .to = c->to,
                            .service = service_of(c->selector),
                            .requests = true,
                            .cancel = q->q.cancel};

    if (!f.service.n)
        return 0;
    t->side = side;
    t->from = c->from;
    t->width = MAX((c->to - c->from) / TRAFFIC_WINDOWS + 1, 10 * NS_PER_S);
    return span_index_each(x, &f, add_span, t, e);
}

/* Half of the points by which the names moved: what some gained, others lost. */
static int moved(const struct traffic *t, const struct query *q, int by, double *ret)
{
    struct drift_cell cells[2 * TRAFFIC_WINDOWS];
    struct drift_test tests[TRAFFIC_NAMES];
    double packed[TRAFFIC_NAMES][2 * TRAFFIC_WINDOWS];
    const double *rows[TRAFFIC_NAMES];
    struct drift_data d = {.cells = cells, .n_instances = 1, .min_points = TRAFFIC_POINTS, .alpha = TRAFFIC_ALPHA};
    struct drift_summary sum;
    double points = 0;
    int r;

    for (uint32_t i = 0; i < 2 * TRAFFIC_WINDOWS; i++) {
        struct drift_cell c = {.side = i / TRAFFIC_WINDOWS, .window = i % TRAFFIC_WINDOWS};

        for (uint32_t k = 0; k < t->n_names; k++) {
            packed[k][d.n_cells] = t->values[by][k][i];
            c.whole += t->values[by][k][i];
        }
        if (c.whole > 0)
            cells[d.n_cells++] = c;
    }
    for (int s = 0; s < 2; s++)
        d.width[s] = (double) (q->q.columns[s].to - q->q.columns[s].from) / TRAFFIC_WINDOWS / NS_PER_S;
    for (uint32_t k = 0; k < t->n_names; k++)
        rows[k] = packed[k];
    r = drift_run(&d, rows, t->n_names, tests, &sum);
    for (uint32_t k = 0; r == 0 && k < t->n_names; k++)
        if (tests[k].significant)
            points += fabs(tests[k].points) / 2;
    *ret = points;
    return r;
}

int drift_traffic(struct span_index *x, const struct query *q, double *ret_points, struct err *e)
{
    _cleanup_(mem_freep) struct traffic *t = x ? mem_zalloc(sizeof *t) : NULL;
    double number = 0, duration = 0;
    int r = 0;

    *ret_points = 0;
    if (!x)
        return 0;
    if (!t)
        return -ENOMEM;
    arena_init(&t->arena, 1 << 20);
    for (uint32_t s = 0; r == 0 && s < 2; s++)
        r = read_side(t, x, q, s, e);
    if (r == 0 && t->n_names > 1)
        r = moved(t, q, 0, &number);
    if (r == 0 && t->n_names > 1)
        r = moved(t, q, 1, &duration);
    arena_done(&t->arena);
    *ret_points = fmax(number, duration);
    return r;
}
