/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sdk_malloc tight|mixed|live N: nanoseconds of CPU per malloc/free pair.
 *   tight   malloc(64) and free at once
 *   mixed   8 B to 4 KiB, 8192 kept, two threads
 *   live    mixed, over a heap that holds 20,000 samples of 512 KiB (10 GiB of addresses, not touched)
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long pairs;

static double cpu(clockid_t c)
{
    struct timespec t;

    clock_gettime(c, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void *mixed(void *arg)
{
    uint64_t x = 88172645463325252ull + (uintptr_t) arg;
    void **ring = calloc(8192, sizeof *ring);

    for (long i = 0; i < pairs; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        free(ring[x & 8191]);
        ring[x & 8191] = malloc(8 + (x >> 20) % 4088);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    double from;
    pthread_t t[2];

    pairs = atol(argv[2]);
    if (strcmp(argv[1], "live") == 0)
        for (int i = 0; i < 20000; i++)
            if (!malloc(4 << 20)) /* each is sampled almost surely; mapped, never touched */
                return 1;
    from = cpu(CLOCK_PROCESS_CPUTIME_ID);
    if (strcmp(argv[1], "tight") == 0) {
        for (long i = 0; i < pairs; i++) {
            void *volatile p = malloc(64);

            free(p);
        }
        printf("%.2f\n", (cpu(CLOCK_PROCESS_CPUTIME_ID) - from) / (double) pairs);
        return 0;
    }
    for (uintptr_t i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, mixed, (void *) i);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    printf("%.2f\n", (cpu(CLOCK_PROCESS_CPUTIME_ID) - from) / (double) pairs / 2);
    return 0;
}
