/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often query/drift_stats.h is right, on a simulated service (tests/unit/drift_model.h) of 5 instances of one busy
 * core, sampled at 19 Hz: which part of drifts of 2 points it finds after 10 minutes, and how many alerts it raises in a
 * week without any, at one evaluation a minute. bench_drift.sh prints the table of docs/drift.md.
 *
 *     drift_sim found TRIALS     drift_sim false WEEKS
 */
#include <stdio.h>

#include "drift_model.h"

enum { NOW = 10, WEEK = 7 * 24 * 60 };

struct noise {
    const char *name;
    struct drift_model model;
};

static const struct noise noises[] = {
    {"sampling only", {.rate = 19, .cores = 1}},
    {"quiet: 5 % noise per minute",
     {.rate = 19, .cores = 1, .common = 0.03, .own = 0.04, .between = 0.05, .load = 0.2}},
    {"noisy: 10 %, correlation 0.3",
     {.rate = 19, .cores = 1, .common = 0.06, .own = 0.08, .memory = 0.3, .between = 0.1, .load = 0.4}},
    {"slow: 10 %, correlation 0.8",
     {.rate = 19, .cores = 1, .common = 0.06, .own = 0.08, .memory = 0.8, .between = 0.1, .load = 0.4}},
};

static double (*history)[MODEL_INSTANCES][MODEL_FUNCTIONS];

static void run_found(const struct noise *noise, int trials, int base, bool other)
{
    int found = 0, wrong = 0;
    double detectable = 0;

    for (int k = 0; k < trials; k++) {
        struct drift_model m = noise->model;
        struct model_answer a;
        struct model_ask ask = {.minutes = history,
                                .from = {0, (uint32_t) base},
                                .to = {(uint32_t) base, (uint32_t) base + NOW},
                                .rate = m.rate,
                                .min_points = 2,
                                .other_instances = other};

        m.seed = (uint64_t) k * 7919 + 1;
        model_init(&m);
        for (int w = 0; w < base; w++)
            model_minute(&m, history[w]);
        if (other)
            for (int i = 0; i < MODEL_INSTANCES; i++)
                for (int f = 0; f < MODEL_FUNCTIONS; f++)
                    m.fixed[i][f] = model_normal(&m);
        model_regress(&m, 2);
        for (int w = base; w < base + NOW; w++)
            model_minute(&m, history[w]);
        if (model_test(&ask, &a) < 0)
            exit(1);
        found += a.tests[0].significant && a.tests[0].points > 0;
        for (int f = 1; f < MODEL_FUNCTIONS; f++)
            wrong += a.tests[f].significant;
        detectable += a.summary.minimum_detectable_points / trials;
    }
    printf("| %s | %d min%s | %.1f %% | %.2f | %.3f |\n", noise->name, base, other ? ", new instances" : "",
           100.0 * found / trials, detectable, (double) wrong / trials);
    fflush(stdout);
}

/* Alerts of one rule: a function must stay significant for `hold` evaluations. */
static void run_false(const struct noise *noise, int weeks, int base, int lag)
{
    int alerts[2] = {0}, evaluations = 0, significant = 0;
    static const int hold[2] = {1, 10};

    for (int k = 0; k < weeks; k++) {
        struct drift_model m = noise->model;
        int since[MODEL_FUNCTIONS] = {0};
        int first = lag + base;

        m.seed = (uint64_t) k * 104729 + 17;
        model_init(&m);
        for (int w = 0; w < first + WEEK; w++)
            model_minute(&m, history[w]);
        for (int now = first; now < first + WEEK; now++) {
            struct model_ask ask = {.minutes = history,
                                    .from = {(uint32_t) (now - lag - base), (uint32_t) (now - NOW)},
                                    .to = {(uint32_t) (now - lag), (uint32_t) now},
                                    .rate = m.rate,
                                    .min_points = 2};
            struct model_answer a;
            bool any = false;

            if (model_test(&ask, &a) < 0)
                exit(1);
            evaluations++;
            for (int f = 0; f < MODEL_FUNCTIONS; f++) {
                since[f] = a.tests[f].significant ? since[f] + 1 : 0;
                any |= a.tests[f].significant;
                for (int h = 0; h < 2; h++)
                    alerts[h] += since[f] == hold[h];
            }
            significant += any;
        }
    }
    printf("| %s | %d min, %s | %.2f | %.2f | %.5f |\n", noise->name, base, lag > NOW ? "a day before" : "just before",
           (double) alerts[0] / weeks, (double) alerts[1] / weeks, (double) significant / evaluations);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int n = argc > 2 ? atoi(argv[2]) : 1;

    history = calloc(WEEK + 3000, sizeof *history);
    if (!history || argc < 2)
        return 2;
    if (strcmp(argv[1], "found") == 0) {
        puts(
            "| noise | baseline | 2-point drifts found in 10 min | minimum detectable points | other functions reported |\n|---|---|---|---|---|");
        for (size_t i = 0; i < sizeof noises / sizeof noises[0]; i++) {
            run_found(&noises[i], n, 10, false);
            run_found(&noises[i], n, 60, false);
            run_found(&noises[i], n, 60, true);
        }
    } else {
        puts(
            "| noise | baseline | alerts per week, for: 0 | alerts per week, for: 10m | evaluations with a significant row |\n|---|---|---|---|---|");
        for (size_t i = 0; i < sizeof noises / sizeof noises[0]; i++) {
            run_false(&noises[i], n, 60, NOW);
            run_false(&noises[i], n, 60, 24 * 60);
        }
    }
    free(history);
    return 0;
}
