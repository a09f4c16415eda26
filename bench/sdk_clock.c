/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which clock should sample a thread? An empty handler on a thread that burns a fixed amount of work, woken by
 *   timer   timer_create() on the thread's CPU clock, each signal worth 1 + si_overrun periods
 *   perf    perf_event_open(PERF_COUNT_SW_CPU_CLOCK) with a signal at each overflow (one file descriptor a thread)
 * sdk_clock none|timer|perf HZ prints "CPU-seconds signals periods"; periods / HZ should be the CPU-seconds.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t sink;
static volatile unsigned long signals, periods;
static int is_perf;

static void on_signal(int sig, siginfo_t *si, void *uc)
{
    signals++;
    periods += is_perf ? 1 : 1 + (unsigned) si->si_overrun;
}

static double cpu(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static int start_timer(long ns)
{
    struct sigevent ev = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    struct itimerspec it = {{0, ns}, {0, ns}};
    timer_t timer;

    ev._sigev_un._tid = gettid();
    return timer_create(CLOCK_THREAD_CPUTIME_ID, &ev, &timer) || timer_settime(timer, 0, &it, NULL);
}

static int start_perf(long ns)
{
    struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE,
                                .size = sizeof a,
                                .config = PERF_COUNT_SW_CPU_CLOCK,
                                .sample_period = (uint64_t) ns,
                                .wakeup_events = 1,
                                .exclude_kernel = 1};
    struct f_owner_ex owner = {F_OWNER_TID, gettid()};
    int fd = (int) syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

    return fd < 0 || fcntl(fd, F_SETFL, O_ASYNC) || fcntl(fd, F_SETSIG, SIGUSR1) || fcntl(fd, F_SETOWN_EX, &owner);
}

int main(int argc, char **argv)
{
    struct sigaction sa = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    long ns = 1000000000 / atol(argv[2]);
    int r = 0;
    double from;

    sigaction(SIGUSR1, &sa, NULL);
    is_perf = !strcmp(argv[1], "perf");
    if (strcmp(argv[1], "none"))
        r = is_perf ? start_perf(ns) : start_timer(ns);
    if (r)
        return perror(argv[1]), 1;
    from = cpu();
    for (long i = 0; i < 700000000; i++)
        sink = sink * 6364136223846793005ull + 1;
    printf("%.6f %lu %lu\n", cpu() - from, signals, periods);
    return 0;
}
