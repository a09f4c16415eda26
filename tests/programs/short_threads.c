/* SPDX-License-Identifier: Apache-2.0 */
/*
 * short_threads N MS: N threads of MS milliseconds of CPU each, ten at a time. Prints the process's CPU time. Compiled with
 * WITH_API it profiles itself by libwick and writes cpu.pb.gz.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#ifdef WITH_API
#include <wick.h>
#endif

static volatile uint64_t sink;

static double clock_of(clockid_t c)
{
    struct timespec t;

    clock_gettime(c, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

__attribute__((noinline)) static void burn(double s)
{
    double from = clock_of(CLOCK_THREAD_CPUTIME_ID);

    do
        for (int i = 0; i < 2000; i++)
            sink = sink * 6364136223846793005ull + i;
    while (clock_of(CLOCK_THREAD_CPUTIME_ID) - from < s);
}

static void *short_thread(void *arg)
{
    burn(*(double *) arg);
    return NULL;
}

int main(int argc, char **argv)
{
    int n = atoi(argv[1]);
    double s = atof(argv[2]) / 1000;
#ifdef WITH_API
    struct wick_options o = WICK_OPTIONS_INIT;
    struct wick_provider *p;

    o.endpoint = "none";
    o.file = "cpu.pb.gz";
    p = wick_provider_new(&o);
#endif

    for (int i = 0; i < n; i += 10) {
        pthread_t t[10];

        for (int k = 0; k < 10; k++)
            pthread_create(&t[k], NULL, short_thread, &s);
        for (int k = 0; k < 10; k++)
            pthread_join(t[k], NULL);
    }
#ifdef WITH_API
    wick_provider_free(p);
#endif
    printf("cpu %.3f\n", clock_of(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}
