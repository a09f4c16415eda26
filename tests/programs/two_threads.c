/* SPDX-License-Identifier: Apache-2.0 */
/* Two threads that burn the same CPU at the same time, left() and right(). Prints what each used, in seconds. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

static volatile uint64_t sink[2];
static double used[2];

static double cpu(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

#define SIDE(name, k)                                             \
    __attribute__((noinline)) void *name(void *arg)               \
    {                                                             \
        for (double end = cpu() + 1.5; cpu() < end;)              \
            for (int i = 0; i < 20000; i++)                       \
                sink[k] = sink[k] * 6364136223846793005ull + 1;   \
        used[k] = cpu();                                          \
        return arg;                                               \
    }
SIDE(left, 0)
SIDE(right, 1)

int main(void)
{
    pthread_t t[2];

    pthread_create(&t[0], NULL, left, NULL);
    pthread_create(&t[1], NULL, right, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    printf("%.3f %.3f\n", used[0], used[1]);
    return 0;
}
