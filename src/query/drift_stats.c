/* SPDX-License-Identifier: Apache-2.0 */
/* The tests of drift_stats.h. Pure arithmetic: no store, no clock, no random numbers. */
#include "query/drift_stats.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/mem.h"

/* Serial correlation is estimated from few windows: a larger one cannot be distinguished from a trend. */
#define RHO_MAX 0.95
/* Block means count if their variance is this many times what the windows predict, and there are this many blocks. */
#define BLOCKS_RATIO 2.5
/* A side keeps its own variance if that is this many times the pooled one. */
#define OWN_RATIO 1.75
/* The variance between a few instances is hardly known: that of all functions, in proportion to their shares, counts as
 * this many degrees of freedom. */
#define PRIOR_FREEDOM 6
/* A quantile of t that is larger is not looked for. */
#define QUANTILE_MAX 1048576.0
enum { BLOCKS_MIN = 5, WINDOWS_MIN = 2, FREEDOM_MIN = 4 };

/* --- Student's t --- */

/* Lentz's continued fraction for the incomplete beta function (Abramowitz and Stegun 26.5.8). */
static double beta_fraction(double a, double b, double x)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1), h;

    d = 1 / (fabs(d) < tiny ? tiny : d);
    h = d;
    for (int m = 1; m < 500; m++) {
        double num = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)), step;

        d = 1 + num * d;
        c = 1 + num / c;
        d = 1 / (fabs(d) < tiny ? tiny : d);
        c = fabs(c) < tiny ? tiny : c;
        h *= d * c;
        num = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 + num * d;
        c = 1 + num / c;
        d = 1 / (fabs(d) < tiny ? tiny : d);
        c = fabs(c) < tiny ? tiny : c;
        step = d * c;
        h *= step;
        if (fabs(step - 1) < 1e-14)
            break;
    }
    return h;
}

/* The regularized incomplete beta function. */
static double beta_inc(double a, double b, double x)
{
    double front;

    if (x <= 0 || x >= 1)
        return x >= 1;
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2))
        return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double drift_t_p(double t, double freedom)
{
    if (isinf(t))
        return 0;
    return beta_inc(freedom / 2, 0.5, freedom / (freedom + t * t));
}

/* The quantile of the normal distribution: two-sided, and good to three digits (Abramowitz and Stegun 26.2.23). */
static double normal_quantile(double p)
{
    double t = sqrt(-2 * log(p / 2));

    return t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

/* Newton's method on the logarithm of p, which is nearly a parabola; a step that leaves the known bounds is replaced by
 * half of them. */
double drift_t_quantile(double p, double freedom)
{
    double scale = exp(lgamma((freedom + 1) / 2) - lgamma(freedom / 2)) / sqrt(freedom * M_PI);
    double low = 0, high = QUANTILE_MAX, t, z;

    if (p >= 1 || drift_t_p(high, freedom) > p)
        return p >= 1 ? 0 : high;
    z = normal_quantile(p);
    t = fmin(z + (z * z * z + z) / (4 * freedom), high / 2);
    for (int i = 0; i < 100; i++) {
        double at = drift_t_p(t, freedom), density = scale * pow(1 + t * t / freedom, -(freedom + 1) / 2), next;

        if (at > p)
            low = t;
        else
            high = t;
        next = t + log(at / p) * at / (2 * density);
        if (!(next > low && next < high))
            next = (low + high) / 2;
        if (fabs(next - t) <= 1e-12 * t)
            return next;
        t = next;
    }
    return t;
}

/* The mean of n numbers, and the variance of that mean. */
static double mean_of(const double *v, uint32_t n, double *ret_variance)
{
    double mean = 0, sum = 0;

    for (uint32_t i = 0; i < n; i++)
        mean += v[i] / n;
    for (uint32_t i = 0; i < n; i++)
        sum += (v[i] - mean) * (v[i] - mean);
    *ret_variance = sum / (n - 1) / n;
    return mean;
}

double drift_welch(const double *a, uint32_t n, const double *b, uint32_t m)
{
    double x, y, d;

    if (n < 2 || m < 2)
        return NAN;
    d = fabs(mean_of(a, n, &x) - mean_of(b, m, &y));
    if (x + y <= 0)
        return d > 0 ? 0 : 1;
    return drift_t_p(d / sqrt(x + y), (x + y) * (x + y) / (x * x / (n - 1) + y * y / (m - 1)));
}

double drift_welch_reach(const double *a, uint32_t n, const double *b, uint32_t m, double p)
{
    double x, y;

    if (n < 2 || m < 2)
        return NAN;
    mean_of(a, n, &x);
    mean_of(b, m, &y);
    if (x + y <= 0)
        return 0;
    return drift_t_quantile(p, (x + y) * (x + y) / (x * x / (n - 1) + y * y / (m - 1))) * sqrt(x + y);
}

/* --- the design: what is the same for every function --- */

struct drift_window {
    uint32_t first, n; /* cells */
    uint32_t number;
    double whole;
};

/* Serial correlation of both sides at a lag of one and of two windows. */
struct drift_memory {
    double rho1, rho2;
};

struct drift_design {
    const struct drift_data *d;
    struct drift_window *windows[2];
    uint32_t n_windows[2];
    double whole[2];        /* sums */
    double *by_instance[2]; /* sums per instance */
    uint32_t n_instances[2];
    double seconds[2]; /* of the windows with data */
    bool paired;
    struct drift_memory memory; /* medians over functions */
    double between;             /* median over functions: variance between instances, relative to spread() */
    /* scratch for one function */
    double *z[2], *instance_values;
    struct arena arena;
};

static int design_init(struct drift_design *x, const struct drift_data *d)
{
    double both = 0;

    *x = (struct drift_design){.d = d};
    arena_init(&x->arena, 0);
    for (int s = 0; s < 2; s++) {
        x->windows[s] = arena_zalloc_array(&x->arena, d->n_cells + 1, sizeof *x->windows[s]);
        x->by_instance[s] = arena_zalloc_array(&x->arena, d->n_instances + 1, sizeof(double));
        x->z[s] = arena_zalloc_array(&x->arena, d->n_cells + 1, sizeof(double));
    }
    x->instance_values = arena_zalloc_array(&x->arena, d->n_instances + 1, sizeof(double));
    if (x->arena.failed)
        return -ENOMEM;
    for (uint32_t i = 0; i < d->n_cells; i++) {
        const struct drift_cell *c = &d->cells[i];
        struct drift_window *w = x->n_windows[c->side] ? &x->windows[c->side][x->n_windows[c->side] - 1] : NULL;

        if (!w || w->number != c->window) {
            w = &x->windows[c->side][x->n_windows[c->side]++];
            *w = (struct drift_window){.first = i, .number = c->window};
        }
        w->n++;
        w->whole += c->whole;
        x->whole[c->side] += c->whole;
        x->by_instance[c->side][c->instance] += c->whole;
    }
    for (int s = 0; s < 2; s++)
        x->seconds[s] = x->n_windows[s] * d->width[s];
    for (uint32_t i = 0; i < d->n_instances; i++) {
        x->n_instances[0] += x->by_instance[0][i] > 0;
        x->n_instances[1] += x->by_instance[1][i] > 0;
        if (x->by_instance[0][i] > 0)
            both += x->by_instance[1][i];
    }
    x->paired = x->whole[1] > 0 && both >= 0.5 * x->whole[1];
    return 0;
}

/* --- one function --- */

struct drift_moments {
    double share;
    double c0, c1, c2; /* sums of z times z, the next z and the one after that */
    uint32_t n, pairs, pairs2;
};

static struct drift_moments moments(struct drift_design *x, const double *values, int side)
{
    const struct drift_window *w = x->windows[side];
    struct drift_moments m = {.n = x->n_windows[side]};
    double sum = 0, mean = m.n ? x->whole[side] / m.n : 0, *z = x->z[side];

    for (uint32_t i = 0; i < m.n; i++) {
        z[i] = 0;
        for (uint32_t k = 0; k < w[i].n; k++)
            z[i] += values[w[i].first + k];
        sum += z[i];
    }
    m.share = x->whole[side] > 0 ? sum / x->whole[side] : 0;
    for (uint32_t i = 0; i < m.n; i++) {
        z[i] = (z[i] - m.share * w[i].whole) / mean;
        m.c0 += z[i] * z[i];
        if (i && w[i].number == w[i - 1].number + 1) {
            m.c1 += z[i] * z[i - 1];
            m.pairs++;
        }
        if (i > 1 && w[i].number == w[i - 2].number + 2) {
            m.c2 += z[i] * z[i - 2];
            m.pairs2++;
        }
    }
    return m;
}

/* A correlation of n windows about their own mean is biased towards -1 / n. */
static double unbiased(double rho, double n)
{
    rho += (1 + 3 * rho) / (n / 2);
    return rho < 0 ? 0 : rho > RHO_MAX ? RHO_MAX : rho;
}

static struct drift_memory serial_correlation(const struct drift_moments m[2])
{
    double c0 = m[0].c0 + m[1].c0, n = m[0].n + m[1].n, pairs = m[0].pairs + m[1].pairs,
           pairs2 = m[0].pairs2 + m[1].pairs2;
    struct drift_memory r = {0};

    if (c0 <= 0 || pairs < 4 || pairs2 < 4)
        return r;
    r.rho1 = unbiased((m[0].c1 + m[1].c1) / pairs / (c0 / n), n);
    r.rho2 = unbiased((m[0].c2 + m[1].c2) / pairs2 / (c0 / n), n);
    return r;
}

/* The factor by which serial correlation increases the variance of a mean, as the rho of (1 + rho) / (1 - rho). Noise
 * with memory plus that of sampling, which has none: rho1 is the memory times the part of the variance that has it, and
 * rho2 / rho1 is the memory. A function whose own rho1 is larger than that of all functions counts with it, less its
 * error. */
static double equivalent_rho(const struct drift_moments m[2], const struct drift_memory *all)
{
    double pairs = m[0].pairs + m[1].pairs, own = serial_correlation(m).rho1, rho = all->rho1, memory, f;

    if (pairs <= 0)
        return 0;
    rho = fmax(rho, own - 1 / sqrt(pairs));
    memory = all->rho1 > 2 / sqrt(pairs) ? fmin(all->rho2 / all->rho1, RHO_MAX) : 0; /* else it is hardly known */
    f = 1 + 2 * rho / (1 - fmax(memory, rho));
    return (f - 1) / (f + 1);
}

/* The long-run variance by the means of blocks as long as the other side; 0 if there are too few blocks. */
static double block_variance(const struct drift_design *x, int side, uint32_t *ret_blocks)
{
    uint32_t n = x->n_windows[side], per, blocks;
    double width = x->d->width[side], sum = 0, sum2 = 0, *z = x->z[side];

    per = (uint32_t) (x->seconds[!side] / width + 0.5);
    per = per ? per : 1;
    blocks = n / per;
    *ret_blocks = blocks;
    if (per < 2 || blocks < BLOCKS_MIN)
        return 0;
    for (uint32_t b = 0; b < blocks; b++) {
        double mean = 0;

        for (uint32_t i = 0; i < per; i++)
            mean += z[b * per + i] / per;
        sum += mean;
        sum2 += mean * mean;
    }
    return (sum2 - sum * sum / blocks) / (blocks - 1) * per * width;
}

struct drift_error {
    double variance, freedom;
};

/* The variance of the difference of the shares, from windows. */
static struct drift_error window_error(const struct drift_design *x, const struct drift_moments m[2], double rho)
{
    double f = (1 + rho) / (1 - rho), lrv[2], freedom[2], pooled, v = 0, df;

    for (int s = 0; s < 2; s++) {
        freedom[s] = fmax(m[s].n * (1 - rho * rho) / (1 + rho * rho) - 1, 0.25);
        lrv[s] = m[s].n > 1 ? m[s].c0 / (m[s].n - 1) * x->d->width[s] * f : 0;
    }
    df = freedom[0] + freedom[1];
    pooled = (freedom[0] * lrv[0] + freedom[1] * lrv[1]) / df;
    for (int s = 0; s < 2; s++) {
        uint32_t blocks;
        double slow = block_variance(x, s, &blocks);

        if (slow > BLOCKS_RATIO * pooled) {
            pooled = slow;
            df = fmin(df, 2.0 * (blocks - 1));
        }
    }
    for (int s = 0; s < 2; s++)
        v += (lrv[s] > OWN_RATIO * pooled ? lrv[s] : pooled) / x->seconds[s];
    return (struct drift_error){v, df};
}

/* The same, from the differences between instances of each side. A side with one instance is taken to vary as the other
 * does. */
static struct drift_error instance_error(struct drift_design *x, const double *values, const struct drift_moments m[2])
{
    double v[2] = {0}, per[2] = {0}, df = 0;

    for (int s = 0; s < 2; s++) {
        uint32_t n = x->n_instances[s], from = x->windows[s][0].first;
        uint32_t to = x->windows[s][x->n_windows[s] - 1].first + x->windows[s][x->n_windows[s] - 1].n;
        double sum = 0;

        memset(x->instance_values, 0, x->d->n_instances * sizeof(double));
        for (uint32_t i = from; i < to; i++)
            x->instance_values[x->d->cells[i].instance] += values[i];
        for (uint32_t i = 0; i < x->d->n_instances; i++) {
            double e = x->instance_values[i] - m[s].share * x->by_instance[s][i];

            sum += e * e;
        }
        if (n < 2)
            continue;
        v[s] = sum / (x->whole[s] * x->whole[s]) * n / (n - 1.0);
        per[s] = v[s] * n;
        df += n - 1;
    }
    if (df <= 0)
        return (struct drift_error){0, 1};
    for (int s = 0; s < 2; s++)
        if (x->n_instances[s] < 2)
            v[s] = per[!s];
    return (struct drift_error){v[0] + v[1], df};
}

/* What the variance of a share is proportional to. */
static double spread(const struct drift_moments m[2])
{
    double share = (m[0].share + m[1].share) / 2;

    return share * (1 - share);
}

static void test_one(struct drift_design *x, const double *values, struct drift_test *t)
{
    const struct drift_data *d = x->d;
    struct drift_moments m[2] = {moments(x, values, 0), moments(x, values, 1)};
    struct drift_error e = window_error(x, m, equivalent_rho(m, &x->memory)), by;
    double drawn = 0, diff = m[1].share - m[0].share, far;

    if (!x->paired) {
        by = instance_error(x, values, m);
        by.variance =
            (by.freedom * by.variance + PRIOR_FREEDOM * x->between * spread(m)) / (by.freedom + PRIOR_FREEDOM);
        by.freedom += PRIOR_FREEDOM;
        if (by.variance > e.variance)
            e = by;
    }
    for (int s = 0; s < 2; s++)
        if (d->sample > 0)
            drawn += m[s].share * (1 - m[s].share) * d->sample / x->whole[s];
    e.variance = fmax(e.variance, drawn);
    t->error = 100 * sqrt(e.variance);
    t->freedom = e.freedom;
    t->p = diff == 0 ? 1 : e.variance > 0 ? drift_t_p(fabs(diff) / sqrt(e.variance), e.freedom) : 0;
    far = drift_t_quantile(0.01, e.freedom) * t->error;
    t->low = t->points - far;
    t->high = t->points + far;
}

/* --- all functions --- */

struct drift_rank {
    uint64_t hash; /* of the values */
    double p;
    uint32_t f;
};

static int by_p(const void *a, const void *b)
{
    const struct drift_rank *x = a, *y = b;

    if (x->p != y->p)
        return x->p < y->p ? -1 : 1;
    return x->hash != y->hash ? (x->hash < y->hash ? -1 : 1) : (x->f > y->f) - (x->f < y->f);
}

static bool is_tested(const struct drift_test *t)
{
    return t->freedom > 0;
}

/* Holm: the k-th smallest p is multiplied by the number of hypotheses that are not smaller. */
static uint32_t correct(const struct drift_data *d, const double *const *values, struct drift_rank *ranks, uint32_t n,
                        struct drift_test *t)
{
    uint32_t distinct = 0, left;
    double last = 0;

    for (uint32_t i = 0; i < n; i++)
        ranks[i].hash = hash64(values[ranks[i].f], d->n_cells * sizeof(double));
    if (n)
        qsort(ranks, n, sizeof *ranks, by_p);
    for (uint32_t i = 0; i < n; i++)
        distinct += !i || ranks[i].hash != ranks[i - 1].hash;
    left = distinct + 1;
    for (uint32_t i = 0; i < n; i++) {
        left -= !i || ranks[i].hash != ranks[i - 1].hash;
        last = fmax(last, fmin(ranks[i].p * left, 1));
        t[ranks[i].f].p = last;
    }
    return distinct;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

static double nth(double *v, uint32_t n, double q)
{
    if (!n)
        return 0;
    qsort(v, n, sizeof *v, compare_doubles);
    return v[(uint32_t) (q * (n - 1) + 0.5)];
}

/* What is found in 95 of 100 cases: the limit of the corrected test and a one-sided 5 % beyond it. */
static double detectable(const struct drift_data *d, const struct drift_test *t, uint32_t n, uint32_t tested,
                         double *scratch)
{
    double error, freedom;
    uint32_t k = 0;

    for (uint32_t f = 0; f < n; f++)
        if (is_tested(&t[f]))
            scratch[k++] = t[f].error;
    error = nth(scratch, k, 0.95);
    k = 0;
    for (uint32_t f = 0; f < n; f++)
        if (is_tested(&t[f]))
            scratch[k++] = t[f].freedom;
    freedom = nth(scratch, k, 0.5);
    if (!k)
        return 100;
    return fmin(100, error * (drift_t_quantile(d->alpha / tested, freedom) + drift_t_quantile(0.1, freedom)));
}

/* Shares of every function, which of them are tested, and what these have in common. */
static void first_pass(struct drift_design *x, const double *const *values, uint32_t n, struct drift_test *ret,
                       double *scratch, double *scratch2)
{
    bool enough = x->n_windows[0] >= WINDOWS_MIN && x->n_windows[1] >= WINDOWS_MIN &&
                  x->n_windows[0] + x->n_windows[1] >= FREEDOM_MIN + 2;
    uint32_t k = 0;

    for (uint32_t f = 0; f < n; f++) {
        struct drift_moments m[2] = {moments(x, values[f], 0), moments(x, values[f], 1)};

        ret[f] = (struct drift_test){.before = m[0].share,
                                     .now = m[1].share,
                                     .points = 100 * (m[1].share - m[0].share),
                                     .p = 1,
                                     .low = -100,
                                     .high = 100};
        if (!enough || 100 * fmax(m[0].share, m[1].share) < 0.75 * x->d->min_points)
            continue;
        ret[f].freedom = 1; /* marks it */
        scratch[k] = serial_correlation(m).rho1;
        scratch2[k++] = serial_correlation(m).rho2;
    }
    x->memory.rho1 = nth(scratch, k, 0.5);
    x->memory.rho2 = nth(scratch2, k, 0.5);
    k = 0;
    for (uint32_t f = 0; f < n && !x->paired; f++)
        if (is_tested(&ret[f])) {
            struct drift_moments m[2] = {{.share = ret[f].before}, {.share = ret[f].now}};

            scratch[k++] = instance_error(x, values[f], m).variance / fmax(spread(m), 1e-9);
        }
    x->between = nth(scratch, k, 0.5);
}

int drift_run(const struct drift_data *d, const double *const *values, uint32_t n, struct drift_test *ret,
              struct drift_summary *ret_summary)
{
    struct drift_design x;
    struct drift_rank *ranks;
    double *scratch;
    uint32_t k = 0;
    int r = design_init(&x, d);

    ranks = arena_zalloc_array(&x.arena, n + 1u, sizeof *ranks);
    scratch = arena_zalloc_array(&x.arena, 2 * (n + 1u), sizeof *scratch);
    if (r < 0 || !ranks || !scratch) {
        arena_done(&x.arena);
        return -ENOMEM;
    }
    first_pass(&x, values, n, ret, scratch, scratch + n + 1);
    for (uint32_t f = 0; f < n; f++)
        if (is_tested(&ret[f])) {
            test_one(&x, values[f], &ret[f]);
            ranks[k++] = (struct drift_rank){.p = ret[f].p, .f = f};
        }
    *ret_summary = (struct drift_summary){.paired = x.paired};
    memcpy(ret_summary->windows, x.n_windows, sizeof x.n_windows);
    memcpy(ret_summary->instances, x.n_instances, sizeof x.n_instances);
    ret_summary->tested = correct(d, values, ranks, k, ret);
    for (uint32_t f = 0; f < n; f++) {
        double size = fabs(ret[f].points), reach = (ret[f].high - ret[f].low) / 2;

        ret[f].significant =
            is_tested(&ret[f]) && ret[f].p < d->alpha && size >= d->min_points / 2 && size + reach >= d->min_points;
    }
    ret_summary->minimum_detectable_points = detectable(d, ret, n, MAX(ret_summary->tested, 1), scratch);
    arena_done(&x.arena);
    return 0;
}
