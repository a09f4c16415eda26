/* SPDX-License-Identifier: Apache-2.0 */
/* children SECONDS: a process that does nothing. One child of it runs early() from the start, another one runs late()
 * after SECONDS. Prints a line when the first child runs. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static volatile unsigned long sum;

__attribute__((noinline)) void early(void)
{
    for (;;)
        sum += sum * 3 + 1;
}

__attribute__((noinline)) void late(void)
{
    for (;;)
        sum += sum * 5 + 1;
}

static void start(void (*work)(void))
{
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        work();
    }
}

int main(int argc, char **argv)
{
    start(early);
    puts("running");
    fflush(stdout);
    usleep((useconds_t) (argc > 1 ? atof(argv[1]) * 1e6 : 1e6));
    start(late);
    for (;;)
        pause();
}
