/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libwick itself uses at 100 Hz: handlers and background thread by their own clocks, and the signals by the cost of an
 * empty one measured here. Prints the share of the process's CPU time.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <wick.h>

static volatile unsigned long sink;

static double now(clockid_t c)
{
    struct timespec t;

    clock_gettime(c, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void on_signal(int sig, siginfo_t *si, void *uc)
{
}

static double empty_signal(void)
{
    struct sigaction sa = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    double from;

    sigaction(SIGUSR1, &sa, NULL);
    from = now(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < 20000; i++)
        syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1);
    return (now(CLOCK_THREAD_CPUTIME_ID) - from) / 20000;
}

__attribute__((noinline)) static void *deep(void *depth)
{
    long d = (long) depth;

    if (d) {
        deep((void *) (d - 1));
        sink++;
        return NULL;
    }
    for (double end = now(CLOCK_THREAD_CPUTIME_ID) + 5e9; now(CLOCK_THREAD_CPUTIME_ID) < end;)
        for (int i = 0; i < 100000; i++)
            sink = sink * 6364136223846793005ul + i;
    return NULL;
}

int main(void)
{
    struct wick_options o = WICK_OPTIONS_INIT;
    struct wick_stats s = WICK_STATS_INIT;
    double signal_ns = empty_signal(), from = now(CLOCK_PROCESS_CPUTIME_ID), used;
    struct wick_provider *p;
    pthread_t t;

    o.endpoint = "none";
    p = wick_provider_new(&o);
    if (!p)
        return fprintf(stderr, "%s\n", wick_last_error()), 1;
    pthread_create(&t, NULL, deep, (void *) 30);
    deep((void *) 30);
    pthread_join(t, NULL);
    used = now(CLOCK_PROCESS_CPUTIME_ID) - from;
    wick_get_stats(p, &s);
    printf("%.6f handlers %.0f ns background %.0f ns signals %lu x %.0f ns of %.0f ns\n",
           (s.handler_ns + s.background_ns + s.samples[0] * signal_ns) / used, (double) s.handler_ns, (double) s.background_ns,
           (unsigned long) s.samples[0], signal_ns, used);
    wick_provider_free(p);
    return 0;
}
