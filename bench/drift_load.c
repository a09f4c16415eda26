/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose functions have known shares of its CPU time, for bench_drift_real.py: drift_load SEED.
 *
 * It serves made-up requests, each of which calls some of eight functions in random order, whose costs vary from call to
 * call (log-normal, 30 %) and from one second to the next (5 %, serial correlation 0.3). SIGUSR1: the share of f0 grows
 * from 10 to 12 percent, all else costs what it did; SIGUSR2: it is 10 percent again.
 */
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

enum { FUNCTIONS = 8 };
static const double shares[FUNCTIONS] = {0.10, 0.20, 0.15, 0.15, 0.12, 0.10, 0.10, 0.08};
static volatile sig_atomic_t worse;
static volatile uint64_t sink;
static uint64_t seed;
static double per_us; /* rounds of the loop in a microsecond */

static void on_signal(int number)
{
    worse = number == SIGUSR1;
}

static double uniform(void)
{
    uint64_t z = (seed += 0x9e3779b97f4a7c15ull);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return ((double) ((z ^ (z >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

/* Each is a function of its own in profiles. */
#define WORK(f)                                                        \
    __attribute__((noinline)) static void f(double us)                 \
    {                                                                  \
        uint64_t x = seed;                                             \
                                                                       \
        for (uint64_t i = 0, n = (uint64_t) (us * per_us); i < n; i++) \
            x = x * 6364136223846793005ull + 1442695040888963407ull;   \
        sink = x;                                                      \
    }
WORK(f0)
WORK(f1)
WORK(f2) WORK(f3) WORK(f4) WORK(f5) WORK(f6)
    WORK(f7) static void (*const work[FUNCTIONS])(double us) = {f0, f1, f2, f3, f4, f5, f6, f7};

static double cpu_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double) t.tv_sec * 1e6 + (double) t.tv_nsec / 1e3;
}

/* One of the functions, drawn by its cost. In random order, since a program that always begins a request with the same
 * function after it slept is sampled at the same place of the request again and again: timers of CPU time fire at ticks. */
static int draw(const double *costs)
{
    double sum = 0, x;

    for (int f = 0; f < FUNCTIONS; f++)
        sum += costs[f];
    x = uniform() * sum;
    for (int f = 0; f < FUNCTIONS - 1; f++) {
        if (x < costs[f])
            return f;
        x -= costs[f];
    }
    return FUNCTIONS - 1;
}

__attribute__((noinline)) static void serve(const double *slow)
{
    double costs[FUNCTIONS];

    for (int f = 0; f < FUNCTIONS; f++)
        costs[f] = shares[f] * exp(0.05 * slow[f]);
    if (worse)
        costs[0] *= 0.12 / 0.88 * 0.90 / 0.10;
    for (int i = 0, n = 5 + (int) (30 * uniform()); i < n; i++)
        work[draw(costs)](250 * exp(0.3 * normal() - 0.045));
}

int main(int argc, char **argv)
{
    double slow[FUNCTIONS] = {0}, before;
    time_t second = 0;

    seed = argc > 1 ? (uint64_t) atoll(argv[1]) : 1;
    signal(SIGUSR1, on_signal);
    signal(SIGUSR2, on_signal);
    per_us = 1;
    before = cpu_us();
    f1(2e6);
    per_us = 2e6 / (cpu_us() - before);
    for (;;) {
        if (time(NULL) != second) {
            second = time(NULL);
            for (int f = 0; f < FUNCTIONS; f++)
                slow[f] = 0.3 * slow[f] + 0.954 * normal();
        }
        serve(slow);
    }
}
