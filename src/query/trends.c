/* SPDX-License-Identifier: Apache-2.0 */
/* query_trends() of trends.h: rates from values and coverage, a straight line through them, and their spikes. */
#include "query/trends.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "model/types.h"

#define SPIKE_RATIO 1.5
#define SPIKE_DISTANCES 8
enum { SPIKE_POINTS_MIN = 8 };

double trends_rate(const struct trends *t, uint32_t series, uint32_t point)
{
    size_t at = (size_t) series * t->points.n_points + point;
    double v = t->points.values[at];

    if (t->points.type.rule == TYPE_GAUGE)
        return v > 0 ? v : -1;
    if (t->each[at] <= 0)
        return -1;
    return v / (double) t->each[at] * (str_is(t->points.type.unit, "nanoseconds") ? 1 : 1e9);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

static double median(double *v, uint32_t n)
{
    if (!n)
        return 0;
    qsort(v, n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* A straight line through the points with data, by least squares. */
static void fit_line(const struct trends *t, uint32_t series, struct trend *r)
{
    double n = 0, mx = 0, my = 0, sxy = 0, sxx = 0, syy = 0, hours = (double) t->points.step / (3600.0 * NS_PER_S);

    for (uint32_t i = 0; i < t->points.n_points; i++) {
        double v = trends_rate(t, series, i);

        if (v < 0)
            continue;
        n++;
        mx += i;
        my += v;
    }
    r->points = (uint32_t) n;
    if (n < 1)
        return;
    mx /= n;
    my /= n;
    for (uint32_t i = 0; i < t->points.n_points; i++) {
        double v = trends_rate(t, series, i);

        if (v < 0)
            continue;
        sxy += (i - mx) * (v - my);
        sxx += (i - mx) * (i - mx);
        syy += (v - my) * (v - my);
    }
    r->rate = my;
    if (sxx > 0 && my > 0)
        r->per_hour = sxy / sxx / hours / my;
    r->fit = sxx > 0 && syy > 0 ? sxy * sxy / (sxx * syy) : 0;
}

static int find_spikes(struct trends *t, uint32_t series, struct trend *r, double *scratch)
{
    uint32_t n = 0;
    double limit;

    for (uint32_t i = 0; i < t->points.n_points; i++)
        if (trends_rate(t, series, i) >= 0)
            scratch[n++] = trends_rate(t, series, i);
    r->usual = median(scratch, n);
    for (uint32_t i = 0; i < n; i++)
        scratch[i] = fabs(scratch[i] - r->usual);
    limit = fmax(SPIKE_RATIO * r->usual, r->usual + SPIKE_DISTANCES * median(scratch, n));
    r->spikes = arena_zalloc_array(&t->arena, t->points.n_points + 1, sizeof *r->spikes);
    if (!r->spikes)
        return -ENOMEM;
    for (uint32_t i = 0; n >= SPIKE_POINTS_MIN && i < t->points.n_points; i++)
        if (trends_rate(t, series, i) > limit)
            r->spikes[r->n_spikes++] = i;
    return 0;
}

static int look(struct trends *t)
{
    double *scratch = arena_zalloc_array(&t->arena, t->points.n_points + 1, sizeof *scratch);
    int r = scratch ? 0 : -ENOMEM;

    t->v = arena_zalloc_array(&t->arena, t->points.n_series + 1, sizeof *t->v);
    if (!t->v)
        return -ENOMEM;
    for (uint32_t i = 0; r == 0 && i < t->points.n_series; i++) {
        fit_line(t, i, &t->v[i]);
        r = find_spikes(t, i, &t->v[i], scratch);
    }
    return r;
}

int query_trends(struct store *s, struct query *q, const struct query_series_params *p, struct trends *ret,
                 struct err *e)
{
    size_t cells;
    int r;

    *ret = (struct trends){0};
    arena_init(&ret->arena, 0);
    r = query_series(s, q, p, &ret->points, e);
    if (r < 0)
        return r;
    cells = (size_t) ret->points.n_series * ret->points.n_points;
    ret->covered = arena_zalloc_array(&ret->arena, ret->points.n_points + 1u, sizeof *ret->covered);
    ret->each = arena_zalloc_array(&ret->arena, cells + 1, sizeof *ret->each);
    r = ret->covered && ret->each ? query_step_coverage(s, q, &ret->points, ret->covered, ret->each, e) : -ENOMEM;
    if (r == 0)
        r = look(ret);
    if (r < 0)
        trends_done(ret);
    return r;
}

void trends_done(struct trends *t)
{
    store_points_done(&t->points);
    arena_done(&t->arena);
    *t = (struct trends){0};
}
