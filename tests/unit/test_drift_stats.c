/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The statistics of drift (query/drift_stats.h): Student's t against tables, the tests against values computed by hand,
 * and a short form of bench/drift_sim.c with fixed seeds: drifts of two points are found, and nothing is found where
 * nothing changed.
 */
#include "drift_model.h"
#include "tap.h"

#define near(got, want, by)                                        \
    do {                                                           \
        double got_ = (got), want_ = (want);                       \
        if (!(fabs(got_ - want_) <= (by)))                         \
            tap_fail("%s is %.10g, not %.10g", #got, got_, want_); \
    } while (0)

/* From the tables of Abramowitz and Stegun (26.10); the last ones by numerical integration of the density. */
static void test_student(void)
{
    near(drift_t_p(12.7062, 1), 0.05, 1e-6);
    near(drift_t_p(2.228139, 10), 0.05, 1e-7);
    near(drift_t_p(4.586894, 10), 0.001, 1e-8);
    near(drift_t_p(1.959964, 1e9), 0.05, 1e-6);
    near(drift_t_p(0, 5), 1, 1e-12);
    near(drift_t_p(3.5, 2.5), 0.0523455, 1e-6);
    near(drift_t_p(30, 40) / 4.8509e-29, 1, 1e-4);
    near(drift_t_quantile(0.05, 10), 2.228139, 1e-5);
    near(drift_t_quantile(0.01, 4), 4.604095, 1e-5);
    near(drift_t_quantile(0.001, 120), 3.373454, 1e-5);
    near(drift_t_quantile(0.5, 1), 1, 1e-9);
    near(drift_t_quantile(1, 5), 0, 0);
    for (double freedom = 1; freedom < 3000; freedom *= 1.7)
        for (double p = 0.99; p > 1e-6; p *= 0.37)
            near(drift_t_p(drift_t_quantile(p, freedom), freedom) / p, 1, 1e-9);
    eq_int(drift_t_p(INFINITY, 3) == 0, 1);
}

/* Two sides of one instance with equal windows: shares and Student's t with pooled variance, computed by hand. */
static void test_by_hand(void)
{
    static const double before[] = {10, 12, 8, 11, 9, 10}, now[] = {14, 16, 15, 13, 17, 15};
    struct drift_cell cells[12];
    double values[12], same[12];
    const double *rows[2] = {values, same};
    struct drift_data d = {
        .cells = cells, .n_cells = 12, .n_instances = 1, .width = {60, 60}, .min_points = 2, .alpha = 0.01};
    struct drift_test t[2];
    struct drift_summary s;

    for (uint32_t i = 0; i < 12; i++) {
        /* gaps between the windows, so that there is no serial correlation to estimate */
        cells[i] = (struct drift_cell){.side = i / 6, .window = 3 * (i % 6), .whole = 100};
        values[i] = i < 6 ? before[i] : now[i - 6];
        same[i] = 50;
    }
    eq_int(drift_run(&d, rows, 2, t, &s), 0);
    near(t[0].before, 0.10, 1e-12);
    near(t[0].now, 0.15, 1e-12);
    near(t[0].points, 5, 1e-9);
    /* variances 2 and 2 (n - 1 = 5): error = sqrt(2 / 6 + 2 / 6) = 0.8165, t = 6.1237, 10 degrees of freedom */
    near(t[0].error, 0.81649658, 1e-6);
    near(t[0].freedom, 10, 1e-9);
    near(t[0].p, 2 * drift_t_p(6.123724, 10), 1e-9); /* Holm: the smaller of two */
    ok(t[0].significant);
    near(t[0].low, 5 - 3.169273 * 0.81649658, 1e-4);
    ok(t[1].points == 0 && t[1].p == 1 && !t[1].significant);
    eq_int(s.windows[0], 6);
    eq_int(s.instances[1], 1);
    eq_int(s.tested, 2);
    ok(s.paired);
}

/* A drift whose variance is zero; one below the limit; too few windows. */
static void test_edges(void)
{
    struct drift_cell cells[20];
    double a[20], b[20];
    const double *rows[2] = {a, b};
    struct drift_data d = {
        .cells = cells, .n_cells = 20, .n_instances = 2, .width = {60, 60}, .min_points = 2, .alpha = 0.01};
    struct drift_test t[2];
    struct drift_summary s;

    for (uint32_t i = 0; i < 20; i++) {
        cells[i] = (struct drift_cell){.side = i / 10, .window = i % 10 / 2, .instance = i % 2, .whole = 1000};
        a[i] = i < 10 ? 100 : 130;
        b[i] = i < 10 ? 100 : 105;
    }
    eq_int(drift_run(&d, rows, 2, t, &s), 0);
    ok(t[0].significant && t[0].p < 1e-6); /* 0, or what fused multiply-adds leave of it */
    ok(!t[1].significant); /* half a point */
    near(s.minimum_detectable_points, 0, 1e-9);
    d.n_cells = 11; /* one window now */
    eq_int(drift_run(&d, rows, 2, t, &s), 0);
    ok(!t[0].significant && t[0].p == 1);
    near(s.minimum_detectable_points, 100, 1e-9);
    d.n_cells = 0;
    eq_int(drift_run(&d, rows, 2, t, &s), 0);
    ok(!t[0].significant);
}

enum { HISTORY = 400, TRIALS = 60 };
static double history[HISTORY][MODEL_INSTANCES][MODEL_FUNCTIONS];

static const struct drift_model quiet = {
    .rate = 19, .cores = 1, .common = 0.03, .own = 0.04, .between = 0.05, .load = 0.2};

static void test_found(void)
{
    int found = 0, wrong = 0;

    for (uint64_t k = 0; k < TRIALS; k++) {
        struct drift_model m = quiet;
        struct model_answer a;
        struct model_ask ask = {.minutes = history, .from = {0, 60}, .to = {60, 70}, .rate = 19, .min_points = 2};

        m.seed = k + 1;
        model_init(&m);
        for (int w = 0; w < 70; w++) {
            if (w == 60)
                model_regress(&m, 2);
            model_minute(&m, history[w]);
        }
        eq_int(model_test(&ask, &a), 0);
        found += a.tests[0].significant && a.tests[0].points > 0;
        for (int f = 1; f < MODEL_FUNCTIONS; f++)
            wrong += a.tests[f].significant;
    }
    ok(found >= TRIALS * 95 / 100);
    ok(wrong == 0);
}

static void test_nothing_found(void)
{
    struct drift_model m = quiet;
    int significant = 0;

    m.seed = 5;
    model_init(&m);
    for (int w = 0; w < HISTORY; w++)
        model_minute(&m, history[w]);
    for (uint32_t now = 70; now <= HISTORY; now++) {
        struct model_ask ask = {
            .minutes = history, .from = {now - 70, now - 10}, .to = {now - 10, now}, .rate = 19, .min_points = 2};
        struct model_answer a;

        eq_int(model_test(&ask, &a), 0);
        for (int f = 0; f < MODEL_FUNCTIONS; f++)
            significant += a.tests[f].significant;
    }
    eq_int(significant, 0);
}

static int torture(void)
{
    struct model_ask ask = {.minutes = history, .from = {0, 60}, .to = {60, 70}, .rate = 19, .min_points = 2};
    struct model_answer a;

    return model_test(&ask, &a);
}

int main(void)
{
    tap_run(test_student);
    tap_run(test_by_hand);
    tap_run(test_edges);
    tap_run(test_found);
    tap_run(test_nothing_found);
    tap_torture(torture);
    return tap_done();
}
