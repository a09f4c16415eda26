/* SPDX-License-Identifier: Apache-2.0 */
/*
 * short_spans SECONDS MS: six loops of requests that sleep MS milliseconds, for so many seconds in a thread for each request
 * (short_lived), then in the loop's own (long_lived). Prints how long they slept, in seconds. Compiled with WITH_API it
 * profiles itself by libwick with a span for each request, and writes wall.pb.gz.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef WITH_API
#include <wick.h>
#endif

static double seconds;
static long sleep_ns;
static _Atomic int64_t slept[2];

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void request(int kind)
{
    struct timespec t = {0, sleep_ns};
    double from;
#ifdef WITH_API
    static _Atomic uint64_t number = 1;
    uint64_t id = number++, trace[2] = {id, id};

    wick_span_enter((uint8_t *) trace, (uint8_t *) &id);
#endif
    from = now();
    nanosleep(&t, NULL);
    slept[kind] += (int64_t) ((now() - from) * 1e9);
#ifdef WITH_API
    wick_span_leave();
#endif
}

__attribute__((noinline)) void *short_lived(void *arg)
{
    request(0);
    __asm__ volatile("" ::: "memory");
    return arg;
}

__attribute__((noinline)) void long_lived(void)
{
    request(1);
    __asm__ volatile("" ::: "memory");
}

static void *each_in_a_thread(void *arg)
{
    for (double until = now() + seconds; now() < until;) {
        pthread_t t;

        pthread_create(&t, NULL, short_lived, NULL);
        pthread_join(t, NULL);
    }
    return arg;
}

static void *all_in_one(void *arg)
{
    for (double until = now() + seconds; now() < until;)
        long_lived();
    return arg;
}

int main(int argc, char **argv)
{
    void *(*loops[])(void *) = {each_in_a_thread, all_in_one};
#ifdef WITH_API
    struct wick_options o = WICK_OPTIONS_INIT;
    struct wick_provider *p;

    o.endpoint = "none";
    o.types = WICK_WALL;
    o.cpu_budget = 1;
    o.file = "wall.pb.gz";
    p = wick_provider_new(&o);
    if (!p)
        return printf("%s\n", wick_last_error()), 1;
#endif
    seconds = atof(argv[1]);
    sleep_ns = (long) (atof(argv[2]) * 1e6);
    for (int k = 0; k < 2; k++) {
        pthread_t t[6];

        for (int i = 0; i < 6; i++)
            pthread_create(&t[i], NULL, loops[k], NULL);
        for (int i = 0; i < 6; i++)
            pthread_join(t[i], NULL);
    }
#ifdef WITH_API
    wick_provider_free(p);
#endif
    printf("%.3f %.3f\n", slept[0] / 1e9, slept[1] / 1e9);
    return 0;
}
