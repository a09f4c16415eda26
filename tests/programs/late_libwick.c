/* SPDX-License-Identifier: Apache-2.0 */
/*
 * late_libwick ENDPOINT BEFORE DURING AFTER: burns so many seconds of CPU without libwick, with libwick exporting, and after
 * it has stopped. Prints user+sys of the process at its end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <wick.h>

static volatile unsigned long sink;

static double cpu(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

__attribute__((noinline)) static void burn(double s)
{
    double end = cpu() + s;

    while (cpu() < end)
        for (int i = 0; i < 20000; i++)
            sink = sink * 6364136223846793005ull + (unsigned long) i;
}

int main(int argc, char **argv)
{
    struct wick_options o = WICK_OPTIONS_INIT;
    struct wick_provider *p;
    struct rusage u;

    if (argc < 5)
        return 2;
    burn(atof(argv[2]));
    o.endpoint = argv[1];
    o.insecure = 1;
    p = wick_provider_new(&o);
    if (!p)
        return 1;
    burn(atof(argv[3]));
    wick_provider_free(p);
    burn(atof(argv[4]));
    getrusage(RUSAGE_SELF, &u);
    printf("%f\n", (double) (u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                       (double) (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6);
    return 0;
}
