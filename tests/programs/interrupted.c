/* SPDX-License-Identifier: Apache-2.0 */
/* interrupted SECONDS: main, outer, caller, leafy; a signal interrupts leafy, and its handler burns CPU: handler, burn. */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#define ALONE __attribute__((noinline, noclone))

static volatile uint64_t sink;
enum { LEAST = 20 }; /* signals, however slow the machine is */
static volatile int over;
static int calls;
static double seconds;

ALONE void burn(uint64_t n)
{
    uint64_t x = n;

    for (uint64_t i = 0; i < n; i++)
        x = x * 6364136223846793005ull + i;
    sink += x;
}

ALONE void handler(int sig)
{
    burn(3000000);
    over = ++calls >= LEAST && (double) clock() / CLOCKS_PER_SEC > seconds;
}

ALONE int leafy(int n)
{
    while (!over)
        n = n * 31 + 7;
    return n;
}

ALONE int caller(int n)
{
    return leafy(n) + 1;
}

ALONE int outer(int n)
{
    return caller(n) + 1;
}

int main(int argc, char **argv)
{
    struct itimerval every = {{0, 20000}, {0, 20000}};

    seconds = argc > 1 ? atof(argv[1]) : 1;
    signal(SIGALRM, handler);
    setitimer(ITIMER_REAL, &every, NULL);
    return outer(argc) == 0;
}
