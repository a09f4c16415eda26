/* SPDX-License-Identifier: Apache-2.0 */
/* waits N: N short sleeps in nap() below outer(); prints how long they were in all. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ALONE __attribute__((noinline, noclone))

ALONE void nap(long us)
{
    struct timespec t = {0, us * 1000};

    nanosleep(&t, NULL);
    __asm__ volatile("");
}

ALONE void outer(long us)
{
    nap(us);
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
    double sum = 0;

    for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 100); i++) {
        double begin = now();

        outer(2000 + i % 7 * 1000);
        sum += now() - begin;
    }
    printf("%f\n", sum);
    return 0;
}
