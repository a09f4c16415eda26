/* SPDX-License-Identifier: Apache-2.0 */
/* sdk_fixed N: a fixed amount of work on two threads, below 16 frames; its time is what is compared. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

static volatile uint64_t sink;
static long rounds;

__attribute__((noinline)) static uint64_t deep(int d)
{
    uint64_t x = (uint64_t) d;

    if (d)
        x += deep(d - 1);
    else
        for (int i = 0; i < 5000000; i++)
            x = x * 6364136223846793005ull + (uint64_t) i;
    sink = x;
    return x + 1;
}

static void *work(void *arg)
{
    for (long i = 0; i < rounds; i++)
        deep(15);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t t[2];

    rounds = atol(argv[1]);
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, work, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    return 0;
}
