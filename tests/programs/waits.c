/* SPDX-License-Identifier: Apache-2.0 */
/* waits N [US [DEPTH]]: N sleeps (of US microseconds, else short ones) in nap() below outer() below DEPTH down(); prints how long
 * they were in all. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ALONE __attribute__((noinline, noclone))

ALONE void nap(long us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};

    nanosleep(&t, NULL);
    __asm__ volatile("");
}

ALONE void outer(long us)
{
    nap(us);
    __asm__ volatile("");
}

ALONE void down(long us, int depth)
{
    if (depth)
        down(us, depth - 1);
    else
        outer(us);
    __asm__ volatile("");
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    long us = argc > 2 ? atol(argv[2]) : 0;
    int depth = argc > 3 ? atoi(argv[3]) : 0;
    double sum = 0;

    for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 100); i++) {
        double begin = now();

        down(us ? us : 2000 + i % 7 * 1000, depth);
        sum += now() - begin;
    }
    printf("%f\n", sum);
    return 0;
}
