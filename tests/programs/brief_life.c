/* SPDX-License-Identifier: Apache-2.0 */
/* brief_life [MS]: uses 25 or MS milliseconds of CPU time and ends. */
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
    double seconds = (argc > 1 ? atof(argv[1]) : 25) / 1000;
    struct timespec t;

    do
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    while (t.tv_sec + t.tv_nsec / 1e9 < seconds);
    return 0;
}
