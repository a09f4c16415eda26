/* SPDX-License-Identifier: Apache-2.0 */
/* two_phases EARLY LATE: so many seconds in early(), then in late(). */
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static volatile uint64_t sink;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

#define PHASE(name, step)                                    \
    __attribute__((noinline)) static void name(double end)   \
    {                                                        \
        while (now() < end)                                  \
            for (int i = 0; i < 100000; i++)                 \
                sink = sink * 6364136223846793005ull + step; \
    }
PHASE(early, 1)
PHASE(late, 3)

int main(int argc, char **argv)
{
    double start = now(), change = start + atof(argv[1]);

    early(change);
    late(change + atof(argv[2]));
    return argc == 0;
}
