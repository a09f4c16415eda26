/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A made-up service whose truth is known, for tests and measurements of query/drift_stats.h: instances with functions
 * whose costs vary, sampled at a rate. Used by test_drift_stats.c and bench/drift_sim.c.
 *
 * Each minute of each instance: the cost of a function is its base cost times noise of three kinds: common to all
 * instances (the traffic), of the instance, both with serial correlation, and a constant difference of the instance. Its
 * load varies as well. The number of samples of each function is drawn from a Poisson distribution (normal for large
 * numbers).
 */
#ifndef TESTS_DRIFT_MODEL_H
#define TESTS_DRIFT_MODEL_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "query/drift_stats.h"

enum { MODEL_FUNCTIONS = 40, MODEL_INSTANCES = 5, MODEL_GROUPS = MODEL_FUNCTIONS / 8, MODEL_NUMBERS = 1024 };

struct drift_model {
    uint64_t seed;
    double rate;    /* samples per second and core */
    double cores;   /* mean of an instance */
    double common;  /* relative standard deviation of the noise common to all instances */
    double own;     /* of each instance */
    double memory;  /* serial correlation of both from minute to minute */
    double between; /* relative standard deviation of constant differences between instances */
    double load;    /* relative standard deviation of the load */
    /* kinds of noise that the limits of the test were not chosen with */
    double bursts;   /* mean number per hour of bursts that double some functions of an instance for minutes */
    double daily;    /* amplitude of a daily change of the costs, relative */
    double linked;   /* part of the noise that groups of eight functions have in common (a request does them all) */
    double odd;      /* relative difference of the last instance from the others */
    double replaced; /* mean number per hour of instances that are replaced by new ones */
    /* state */
    double cost[MODEL_FUNCTIONS];
    double shared[MODEL_FUNCTIONS], state[MODEL_INSTANCES][MODEL_FUNCTIONS], fixed[MODEL_INSTANCES][MODEL_FUNCTIONS];
    double loads[MODEL_INSTANCES];
    double groups[MODEL_INSTANCES + 1][MODEL_GROUPS]; /* the last: common to all instances */
    int burst_left[MODEL_INSTANCES], burst_group[MODEL_INSTANCES];
    uint32_t minute, born[MODEL_INSTANCES]; /* born: number of the instance, counted over replacements */
    uint32_t n_born;
};

/* splitmix64 */
static uint64_t model_random(struct drift_model *m)
{
    uint64_t z = (m->seed += 0x9e3779b97f4a7c15ull);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static double model_uniform(struct drift_model *m)
{
    return ((double) (model_random(m) >> 11) + 0.5) / 9007199254740992.0;
}

static double model_normal(struct drift_model *m)
{
    return sqrt(-2 * log(model_uniform(m))) * cos(6.283185307179586 * model_uniform(m));
}

static double model_poisson(struct drift_model *m, double mean)
{
    double limit = exp(-mean), p = 1;
    int k = 0;

    if (mean > 50)
        return fmax(0, floor(mean + sqrt(mean) * model_normal(m) + 0.5));
    for (p = model_uniform(m); p > limit; k++)
        p *= model_uniform(m);
    return k;
}

static void model_step(struct drift_model *m, double *state)
{
    *state = m->memory * *state + sqrt(1 - m->memory * m->memory) * model_normal(m);
}

/* Sets the costs: function 0 has a share of 10 %, the others fall off from 12 %; and lets the noise settle. */
static void model_init(struct drift_model *m)
{
    double sum = 0;

    for (int f = 1; f < MODEL_FUNCTIONS; f++)
        sum += m->cost[f] = 1.0 / (f + 2);
    for (int f = 1; f < MODEL_FUNCTIONS; f++)
        m->cost[f] *= 0.9 / sum;
    m->cost[0] = 0.1;
    for (int f = 0; f < MODEL_FUNCTIONS; f++) {
        m->shared[f] = model_normal(m);
        for (int i = 0; i < MODEL_INSTANCES; i++) {
            m->state[i][f] = model_normal(m);
            m->fixed[i][f] = model_normal(m);
        }
    }
    for (int i = 0; i < MODEL_INSTANCES; i++) {
        m->loads[i] = model_normal(m);
        m->born[i] = (uint32_t) i;
    }
}

/* Function 0 costs more from now on, so that its share grows from s to s + points / 100. */
static void model_regress(struct drift_model *m, double points)
{
    double sum = 0, to;

    for (int f = 0; f < MODEL_FUNCTIONS; f++)
        sum += m->cost[f];
    to = m->cost[0] / sum + points / 100;
    m->cost[0] = to / (1 - to) * (sum - m->cost[0]);
}

/* A function's noise: its own, and that of its group. */
static double model_noise(const struct drift_model *m, int instance, int f)
{
    double part = m->linked, alone = sqrt(1 - part * part);
    double common = alone * m->shared[f] + part * m->groups[MODEL_INSTANCES][f / 8];
    double own = (instance < 0 ? 0 : alone * m->state[instance][f] + part * m->groups[instance][f / 8]);

    return m->common * common + m->own * own;
}

/* Bursts, the time of day, the odd instance: a factor of the cost. */
static double model_extra(const struct drift_model *m, int i, int f)
{
    double x = 1;

    if (m->burst_left[i] && f / 8 == m->burst_group[i])
        x *= 2;
    if (m->odd > 0 && i == MODEL_INSTANCES - 1)
        x *= f % 2 ? 1 + m->odd : 1 / (1 + m->odd);
    return x * (1 + m->daily * sin(6.283185307179586 * m->minute / 1440.0 + f));
}

/* What happens between two minutes. */
static void model_events(struct drift_model *m)
{
    m->minute++;
    for (int g = 0; g < MODEL_GROUPS && m->linked > 0; g++)
        for (int i = 0; i <= MODEL_INSTANCES; i++)
            model_step(m, &m->groups[i][g]);
    for (int i = 0; i < MODEL_INSTANCES && (m->bursts > 0 || m->replaced > 0); i++) {
        m->burst_left[i] -= m->burst_left[i] > 0;
        if (m->bursts > 0 && model_uniform(m) < m->bursts / 60) {
            m->burst_left[i] = 1 + (int) (3 * model_uniform(m));
            m->burst_group[i] = (int) (MODEL_GROUPS * model_uniform(m));
        }
        if (m->replaced > 0 && model_uniform(m) < m->replaced / 60 / MODEL_INSTANCES) {
            m->born[i] = MODEL_INSTANCES + m->n_born++;
            for (int f = 0; f < MODEL_FUNCTIONS; f++)
                m->fixed[i][f] = model_normal(m);
        }
    }
}

/* The samples of one minute: ret[instance][function], in nanoseconds of CPU time. */
static void model_minute(struct drift_model *m, double (*ret)[MODEL_FUNCTIONS])
{
    model_events(m);
    for (int f = 0; f < MODEL_FUNCTIONS; f++)
        model_step(m, &m->shared[f]);
    for (int i = 0; i < MODEL_INSTANCES; i++) {
        double expected[MODEL_FUNCTIONS], sum = 0, cores;

        model_step(m, &m->loads[i]);
        cores = m->cores * exp(m->load * m->loads[i] - m->load * m->load / 2);
        for (int f = 0; f < MODEL_FUNCTIONS; f++) {
            model_step(m, &m->state[i][f]);
            expected[f] = m->cost[f] * exp(model_noise(m, i, f) + m->between * m->fixed[i][f]) * model_extra(m, i, f);
            sum += expected[f];
        }
        for (int f = 0; f < MODEL_FUNCTIONS; f++)
            ret[i][f] = model_poisson(m, expected[f] / sum * cores * m->rate * 60) * (1e9 / m->rate);
    }
}

/* --- asking --- */

/* A history of minutes, and the two ranges of it that are compared. */
struct model_ask {
    const double (*minutes)[MODEL_INSTANCES][MODEL_FUNCTIONS];
    uint32_t from[2], to[2]; /* of the baseline and now */
    double rate;
    double min_points;
    bool other_instances;                       /* the instances of the two sides are different ones */
    const uint32_t (*numbers)[MODEL_INSTANCES]; /* of the instances of each minute, < MODEL_NUMBERS; NULL: they stay */
};

struct model_answer {
    struct drift_test tests[MODEL_FUNCTIONS];
    struct drift_summary summary;
};

static int model_test(const struct model_ask *a, struct model_answer *ret)
{
    uint32_t n = 0, max = (a->to[0] - a->from[0] + a->to[1] - a->from[1]) * MODEL_INSTANCES;
    struct drift_cell *cells = calloc(max + 1, sizeof *cells);
    double *values = calloc((size_t) MODEL_FUNCTIONS * (max + 1), sizeof *values);
    const double *rows[MODEL_FUNCTIONS];
    struct drift_data d = {.cells = cells,
                           .n_instances = a->numbers           ? MODEL_NUMBERS
                                          : a->other_instances ? 2 * MODEL_INSTANCES
                                                               : MODEL_INSTANCES,
                           .width = {60, 60},
                           .sample = 1e9 / a->rate,
                           .min_points = a->min_points,
                           .alpha = DRIFT_ALPHA};
    int r;

    for (uint32_t s = 0; s < 2; s++)
        for (uint32_t w = a->from[s]; w < a->to[s]; w++)
            for (uint32_t i = 0; i < MODEL_INSTANCES; i++) {
                cells[n] =
                    (struct drift_cell){s, w - a->from[s], i + (s && a->other_instances ? MODEL_INSTANCES : 0), 0};
                if (a->numbers)
                    cells[n].instance = a->numbers[w][i] % MODEL_NUMBERS;
                for (int f = 0; f < MODEL_FUNCTIONS; f++) {
                    values[(size_t) f * max + n] = a->minutes[w][i][f];
                    cells[n].whole += a->minutes[w][i][f];
                }
                n += cells[n].whole > 0;
            }
    d.n_cells = n;
    for (int f = 0; f < MODEL_FUNCTIONS; f++)
        rows[f] = values + (size_t) f * max;
    r = drift_run(&d, rows, MODEL_FUNCTIONS, ret->tests, &ret->summary);
    free(cells);
    free(values);
    return r;
}

#endif
