/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often query/drift_stats.h is right, on a simulated service (tests/unit/drift_model.h) of 5 instances of one busy
 * core, sampled at 19 Hz: which part of drifts of 2 points it finds after 10 minutes, and how many alerts it raises in a
 * week without any, at one evaluation a minute. bench_drift.sh prints the table of docs/drift.md.
 *
 *     drift_sim found|false N [SEED]       N trials, N weeks; the kinds of noise that the limits were chosen with
 *     drift_sim found-new|false-new N [SEED]   kinds of noise that were simulated only after the limits were fixed
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

/* Hold-out: nothing was changed to make these better. */
static const struct noise new_noises[] = {
    {"bursts: an instance doubles 8 functions for 1 to 4 minutes, twice an hour",
     {.rate = 19, .cores = 1, .common = 0.03, .own = 0.04, .between = 0.05, .load = 0.2, .bursts = 2}},
    {"daily: costs move by 10 % over the day",
     {.rate = 19, .cores = 1, .common = 0.03, .own = 0.04, .between = 0.05, .load = 0.2, .daily = 0.1}},
    {"linked: groups of functions move together, 5 %",
     {.rate = 19, .cores = 1, .common = 0.03, .own = 0.04, .memory = 0.3, .between = 0.05, .load = 0.3, .linked = 0.8}},
    {"one odd instance: its functions differ by 30 %",
     {.rate = 19, .cores = 1, .common = 0.03, .own = 0.04, .between = 0.05, .load = 0.4, .odd = 0.3}},
    {"replaced: a new instance every half hour, instances differ by 5 %",
     {.rate = 19, .cores = 1, .common = 0.03, .own = 0.04, .between = 0.05, .load = 0.2, .replaced = 2}},
};

static double (*history)[MODEL_INSTANCES][MODEL_FUNCTIONS];
static uint32_t (*numbers)[MODEL_INSTANCES];
static uint64_t first_seed = 1;

static void record_minute(struct drift_model *m, int w)
{
    model_minute(m, history[w]);
    memcpy(numbers[w], m->born, sizeof numbers[w]);
}

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
                                .numbers = m.replaced > 0 ? numbers : NULL,
                                .other_instances = other};

        m.seed = (uint64_t) k * 7919 + first_seed;
        model_init(&m);
        if (m.daily > 0)
            m.minute = (uint32_t) (model_random(&m) % 1440);
        for (int w = 0; w < base; w++)
            record_minute(&m, w);
        if (other)
            for (int i = 0; i < MODEL_INSTANCES; i++)
                for (int f = 0; f < MODEL_FUNCTIONS; f++)
                    m.fixed[i][f] = model_normal(&m);
        model_regress(&m, 2);
        for (int w = base; w < base + NOW; w++)
            record_minute(&m, w);
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

        m.seed = (uint64_t) k * 104729 + 16 + first_seed;
        model_init(&m);
        for (int w = 0; w < first + WEEK; w++)
            record_minute(&m, w);
        for (int now = first; now < first + WEEK; now++) {
            struct model_ask ask = {.minutes = history,
                                    .from = {(uint32_t) (now - lag - base), (uint32_t) (now - NOW)},
                                    .to = {(uint32_t) (now - lag), (uint32_t) now},
                                    .rate = m.rate,
                                    .numbers = m.replaced > 0 ? numbers : NULL,
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

static void print_found(const struct noise *v, size_t n, int trials)
{
    puts(
        "| noise | baseline | 2-point drifts found in 10 min | minimum detectable points | other functions reported |\n|---|---|---|---|---|");
    for (size_t i = 0; i < n; i++) {
        run_found(&v[i], trials, 10, false);
        run_found(&v[i], trials, 60, false);
        if (v[i].model.replaced == 0)
            run_found(&v[i], trials, 60, true);
    }
}

static void print_false(const struct noise *v, size_t n, int weeks)
{
    puts(
        "| noise | baseline | alerts per week, for: 0 | alerts per week, for: 10m | evaluations with a significant row |\n|---|---|---|---|---|");
    for (size_t i = 0; i < n; i++) {
        run_false(&v[i], weeks, 60, NOW);
        run_false(&v[i], weeks, 60, 24 * 60);
    }
}

int main(int argc, char **argv)
{
    bool is_new = argc > 1 && strstr(argv[1], "-new");
    const struct noise *v = is_new ? new_noises : noises;
    size_t n_noises = is_new ? sizeof new_noises / sizeof new_noises[0] : sizeof noises / sizeof noises[0];
    int n = argc > 2 ? atoi(argv[2]) : 1;

    history = calloc(WEEK + 3000, sizeof *history);
    numbers = calloc(WEEK + 3000, sizeof *numbers);
    if (!history || !numbers || argc < 2)
        return 2;
    if (argc > 3)
        first_seed = (uint64_t) atoll(argv[3]);
    if (strncmp(argv[1], "found", 5) == 0)
        print_found(v, n_noises, n);
    else
        print_false(v, n_noises, n);
    free(history);
    free(numbers);
    return 0;
}
