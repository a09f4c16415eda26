/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The statistics of query/drift.h, without a store: whether the share of a function differs between a baseline and now.
 * bench/drift_sim.c measures how often it is right.
 *
 * The data are cells: one window of time of one instance, with the value of the whole cell and of each function. Samples
 * are never pooled: samples of one window and one instance resemble each other, and a test that counts each of them as
 * independent finds drift everywhere.
 *
 * Per function and side
 *   The share R is sum(function) / sum(whole). Windows are the units: z = (function - R * whole) / mean(whole) is what a
 *   window adds to the error of R. The variance of z, times (1 + rho) / (1 - rho) for its serial correlation, is the
 *   long-run variance; both sides are pooled, and a side whose own variance is larger keeps its own. If the baseline is
 *   several times as long as the other side, the variance of its block means is used where that is much larger: slow
 *   changes. The variance is never less than that of drawing the samples.
 *   If the instances of the two sides are mostly different ones, the variance between instances counts as well: the
 *   larger of the two errors is used, with its degrees of freedom.
 *
 * The result
 *   Student's t with these degrees of freedom, two-sided; Holm's correction over the functions whose share can reach the
 *   smallest drift asked for (functions with equal values in every cell count once). A drift is significant if the
 *   corrected p is below alpha, the drift is at least half of min_points, and a drift of min_points lies within its 99 %
 *   interval or below: so a true drift of exactly min_points is found, which a limit on the estimate itself would miss
 *   half of the time.
 */
#ifndef QUERY_DRIFT_STATS_H
#define QUERY_DRIFT_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DRIFT_MIN_POINTS 2.0
#define DRIFT_ALPHA 0.01

enum drift_side { DRIFT_BEFORE, DRIFT_NOW };

struct drift_cell {
    uint32_t side, window, instance; /* instances have the same number on both sides */
    double whole;                    /* value of everything in the cell; > 0 */
};

struct drift_data {
    const struct drift_cell *cells; /* by side, then window, then instance */
    uint32_t n_cells, n_instances;
    double width[2]; /* of a window, in seconds */
    double sample;   /* value that one sample stands for; 0: not known */
    double min_points, alpha;
};

struct drift_test {
    double before, now; /* shares, 0 to 1 */
    double points;      /* 100 * (now - before) */
    double error;       /* standard error of points */
    double freedom;     /* degrees of freedom; 0: not tested */
    double p;           /* corrected for the number of functions; 1: not tested */
    double low, high;   /* 99 % interval of points */
    bool significant;
};

struct drift_summary {
    uint32_t windows[2];              /* with data */
    uint32_t instances[2];            /* with data */
    uint32_t tested;                  /* functions, equal ones once */
    bool paired;                      /* the instances are mostly the same on both sides */
    double minimum_detectable_points; /* found in 95 of 100 cases, for all but the noisiest functions */
};

/* Tests n functions. values[f]: one value per cell. Returns 0 or -ENOMEM. */
int drift_run(const struct drift_data *d, const double *const *values, uint32_t n, struct drift_test *ret,
              struct drift_summary *ret_summary);

/* Welch's test of two lists of independent numbers: the two-sided p; NAN if one of them has fewer than two. */
double drift_welch(const double *a, uint32_t n, const double *b, uint32_t m);
/* How far the difference of their means may be from the truth, at this two-sided p; NAN where drift_welch() is. */
double drift_welch_reach(const double *a, uint32_t n, const double *b, uint32_t m, double p);

/* Student's t: the two-sided p of |t|, and the t whose two-sided p is this one. freedom > 0. */
double drift_t_p(double t, double freedom);
double drift_t_quantile(double p, double freedom);

#endif
