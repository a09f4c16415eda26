/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_split SECONDS THREADS: each thread burns that much CPU, 70/20/10 in three functions below 14 frames of recursion. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile uint64_t sink;

#define HOT(name)                                       \
    __attribute__((noinline)) uint64_t name(uint64_t n) \
    {                                                   \
        uint64_t x = n;                                 \
        for (uint64_t i = 0; i < n; i++)                \
            x = x * 6364136223846793005ull + i;         \
        sink = x;                                       \
        return x + 1;                                   \
    }
HOT(hot_a)
HOT(hot_b)
HOT(hot_c)

__attribute__((noinline)) uint64_t deep(int d, uint64_t n)
{
    uint64_t r = d ? deep(d - 1, n) : hot_a(7 * n) + hot_b(2 * n) + hot_c(n);

    sink += r;
    return r + d;
}

static double clock_of(clockid_t c)
{
    struct timespec t;

    clock_gettime(c, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void *work(void *arg)
{
    while (clock_of(CLOCK_THREAD_CPUTIME_ID) < *(double *) arg)
        deep(14, 20000);
    return NULL;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 1;
    int n = argc > 2 ? atoi(argv[2]) : 2;
    pthread_t t[64];

    for (int i = 0; i < n; i++)
        pthread_create(&t[i], NULL, work, &seconds);
    for (int i = 0; i < n; i++)
        pthread_join(t[i], NULL);
    printf("cpu %.3f\n", clock_of(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}
