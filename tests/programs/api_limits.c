/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api_limits samples|depth|budget|room: the limits of libwick's options. Burns CPU below many stacks or deep ones and
 * writes cpu.pb.gz; prints "CPU-seconds truncated overflow rate governor". "room": until the rate was lowered, and then,
 * without the work that cost too much, until it is what it was.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wick.h>

static volatile uint64_t sink;
static double burn_for = 0.5;

static double cpu(clockid_t c)
{
    struct timespec t;

    clock_gettime(c, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

__attribute__((noinline)) static void burn(double s)
{
    for (double end = cpu(CLOCK_THREAD_CPUTIME_ID) + s; cpu(CLOCK_THREAD_CPUTIME_ID) < end;)
        for (int i = 0; i < 2000; i++)
            sink = sink * 6364136223846793005ull + 1;
}

/* 2^bits different stacks: the path goes through left() and right() by the bits of n. */
static void path(unsigned n, int bits);

__attribute__((noinline)) static void left(unsigned n, int bits)
{
    path(n >> 1, bits - 1);
    sink++;
}

__attribute__((noinline)) static void right(unsigned n, int bits)
{
    path(n >> 1, bits - 1);
    sink++;
}

__attribute__((noinline)) static void path(unsigned n, int bits)
{
    if (bits == 0)
        burn(0.002);
    else if (n & 1)
        left(n, bits);
    else
        right(n, bits);
    sink++;
}

__attribute__((noinline)) static void deep(int n)
{
    if (n)
        deep(n - 1);
    else
        burn(burn_for);
    sink++;
}

static void use_too_much(struct wick_provider *p, struct wick_stats *s)
{
    void *snapshot;
    size_t n;

    for (int i = 0; i < 300 && !s->governor; i++) {
        deep(20);
        for (int k = 0; k < 10; k++)
            if (wick_snapshot(p, WICK_CPU, &snapshot, &n) == 0) /* costs the background's CPU */
                wick_snapshot_free(snapshot, n);
        wick_get_stats(p, s);
    }
}

int main(int argc, char **argv)
{
    struct wick_options o = WICK_OPTIONS_INIT;
    struct wick_stats s = WICK_STATS_INIT;
    struct wick_provider *p;
    void *snapshot;
    size_t n;
    FILE *f;
    double from;

    o.endpoint = "none";
    o.rate = 1000;
    o.max_samples = strcmp(argv[1], "samples") ? 0 : 10;
    o.max_depth = strcmp(argv[1], "depth") ? 0 : 50;
    if (!strcmp(argv[1], "budget") || !strcmp(argv[1], "room")) {
        o.rate = strcmp(argv[1], "room") ? 10000 : 200;
        burn_for = 0.01;
        o.cpu_budget = strcmp(argv[1], "room") ? 0.001 : 0.01;
    }
    p = wick_provider_new(&o);
    if (!p)
        return puts(wick_last_error()), 1;
    from = cpu(CLOCK_PROCESS_CPUTIME_ID);
    if (!strcmp(argv[1], "samples"))
        for (unsigned i = 0; i < 512; i++)
            path(i, 9);
    else if (burn_for == 0.01)
        use_too_much(p, &s);
    else
        deep(200);
    if (!strcmp(argv[1], "room"))
        for (int i = 0; i < 2000 && s.rate < o.rate; i++) {
            deep(20);
            wick_get_stats(p, &s);
        }
    from = cpu(CLOCK_PROCESS_CPUTIME_ID) - from;
    if (wick_snapshot(p, WICK_CPU, &snapshot, &n) < 0)
        return puts(wick_last_error()), 1;
    f = fopen("cpu.pb.gz", "w");
    fwrite(snapshot, 1, n, f);
    fclose(f);
    wick_get_stats(p, &s);
    printf("%.3f %lu %lu %u %u\n", from, (unsigned long) s.truncated, (unsigned long) s.overflow, s.rate, s.governor);
    wick_provider_free(p);
    return 0;
}
