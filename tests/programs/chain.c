/* SPDX-License-Identifier: Apache-2.0 */
/* A known chain of calls: main, worker, rec DEPTH + 1 times, leaf. chain DEPTH SECONDS: prints the CPU time it took.
 * With -DFRAME=N, each rec has N bytes of the stack. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

volatile uint64_t sink;

#define ALONE __attribute__((noinline, noclone))

ALONE uint64_t leaf(uint64_t n)
{
    uint64_t x = n;

    for (uint64_t i = 0; i < n; i++)
        x = x * 6364136223846793005ull + i;
    sink = x;
    return x;
}

ALONE uint64_t rec(int depth)
{
#ifdef FRAME
    volatile char room[FRAME];

    room[depth] = 1;
#endif
    uint64_t r = depth ? rec(depth - 1) : leaf(200000);

    sink += r; /* no tail call */
    return r + 1;
}

ALONE uint64_t worker(int depth)
{
    uint64_t r = rec(depth);

    sink ^= r;
    return r;
}

static double now(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    int depth = argc > 1 ? atoi(argv[1]) : 30;
    double seconds = argc > 2 ? atof(argv[2]) : 1, end = now(CLOCK_PROCESS_CPUTIME_ID) + seconds;

    while (now(CLOCK_PROCESS_CPUTIME_ID) < end)
        sink += worker(depth);
    printf("%f\n", now(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}
