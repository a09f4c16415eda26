/* SPDX-License-Identifier: Apache-2.0 */
/* two_phases: early() until there is a file "asked" in the current directory; then late(), which makes the file "late" after a
 * tenth of a second of CPU time, and ends 2.2 seconds later. */
#include <fcntl.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t sink;

static double now(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

__attribute__((noinline)) static void early(void)
{
    while (access("asked", F_OK))
        for (int i = 0; i < 100000; i++)
            sink = sink * 6364136223846793005ull + 1;
}

__attribute__((noinline)) static void late(clockid_t clock, double seconds)
{
    for (double end = now(clock) + seconds; now(clock) < end;)
        for (int i = 0; i < 100000; i++)
            sink = sink * 6364136223846793005ull + 3;
}

int main(void)
{
    early();
    late(CLOCK_PROCESS_CPUTIME_ID, 0.1);
    close(open("late", O_WRONLY | O_CREAT, 0644));
    late(CLOCK_MONOTONIC, 2.2);
    return 0;
}
