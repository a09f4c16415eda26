/* SPDX-License-Identifier: Apache-2.0 */
/* A process and its child that wake each other over a socket, and sleep in between, until the first has used the CPU time
 * argv[1]; argv[2]: how many microseconds to sleep; -1: not to ping at all, but to compute. Prints the CPU time of both,
 * and stays until its input ends. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static double used(pid_t pid)
{
    struct timespec t = {0};
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) == 0)
        clock_gettime(clock, &t);
    return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    double seconds = argc > 2 ? atof(argv[1]) : 1;
    int pause = argc > 2 ? atoi(argv[2]) : 0, ends[2];
    volatile unsigned long sum = 0;
    char b[64] = {0};
    pid_t child;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
        return 1;
    prctl(PR_SET_TIMERSLACK, 1);
    child = fork();
    if (child == 0) {
        close(ends[0]);
        while (read(ends[1], b, sizeof b) > 0 && write(ends[1], b, sizeof b) > 0)
            ;
        pause = (int) read(0, b, 1);
        _exit(0);
    }
    close(ends[1]);
    while (used(0) < seconds)
        if (pause < 0) {
            for (int i = 0; i < 1000000; i++)
                sum += (unsigned long) i;
        } else {
            if (write(ends[0], b, sizeof b) < 0 || read(ends[0], b, sizeof b) < 0)
                return 1;
            if (pause > 0)
                usleep((useconds_t) pause);
        }
    printf("%f %f\n", used(0), used(child));
    fflush(stdout);
    return read(0, b, 1) < 0;
}
