/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fifo: a thread allocates, and one with real-time priority on the same processor interrupts it and allocates too. Prints
 * the longest that one malloc() and free() of the second took, in milliseconds, or "skip" without the right to do it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static _Atomic int stop;
static double worst;
static void *volatile kept;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void *urgent(void *arg)
{
    struct timespec nap = {0, 200000};

    while (!stop) {
        double from = now();

        for (int i = 0; i < 20; i++)
            free(kept = malloc(64));
        worst = now() - from > worst ? now() - from : worst;
        nanosleep(&nap, NULL);
    }
    return NULL;
}

int main(void)
{
    struct sched_param priority = {.sched_priority = 50};
    enum { BLOCKS = 1 << 17 };
    static void *blocks[BLOCKS];
    cpu_set_t one;
    pthread_t t;
    double end;

    CPU_ZERO(&one);
    CPU_SET(0, &one);
    sched_setaffinity(0, sizeof one, &one);
    pthread_create(&t, NULL, urgent, NULL);
    if (pthread_setschedparam(t, SCHED_FIFO, &priority)) {
        puts("skip");
        return 0;
    }
    end = now() + 1500;
    for (unsigned i = 0; now() < end; i++) {
        free(blocks[i % BLOCKS]);
        blocks[i % BLOCKS] = malloc(32 + i % 64);
    }
    stop = 1;
    pthread_join(t, NULL);
    printf("%.1f\n", worst);
    return 0;
}
