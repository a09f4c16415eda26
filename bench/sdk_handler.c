/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one sample costs at 36 frames: libwick's handler on top of an empty one, in batches with warm caches; beside it
 * libunwind doing the same walk. Prints "empty_ns handler_ns unw_backtrace_ns unw_step_ns frames", all per sample.
 */
#define _GNU_SOURCE
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <wick.h>

enum { ROUNDS = 50000 };

static volatile unsigned long sink;
static int mode, frames;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void on_signal(int sig, siginfo_t *si, void *uc)
{
    void *pcs[256];
    unw_cursor_t c;

    if (mode == 1) {
        frames = unw_backtrace(pcs, 256);
    } else if (mode == 2) {
        frames = 1;
        unw_init_local2(&c, uc, UNW_INIT_SIGNAL_FRAME);
        while (unw_step(&c) > 0)
            frames++;
    }
}

static double signal_cost(int m)
{
    double from;

    mode = m;
    for (int i = 0; i < 200; i++)
        syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1);
    from = now();
    for (int i = 0; i < ROUNDS; i++)
        syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1);
    return (now() - from) / ROUNDS;
}

/* libwick's own handler, driven by signals that look like its timer's: the state of the first thread has number 0. */
static double wick_cost(struct wick_provider *p, int signal)
{
    siginfo_t info = {.si_signo = signal, .si_code = SI_TIMER};
    double sum = 0, from;
    void *snapshot;
    size_t size;

    info.si_value.sival_ptr = (void *) (0x7769636bul << 32);
    for (int batch = 0; batch < 200; batch++) {
        from = now();
        for (int i = 0; i < 20; i++) /* what fits into half of a ring */
            syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), signal, &info);
        sum += now() - from;
        if (wick_snapshot(p, WICK_CPU, &snapshot, &size) == 0) /* drains the ring */
            wick_snapshot_free(snapshot, size);
    }
    return sum / 4000;
}

__attribute__((noinline)) static double measure(void)
{
    struct wick_options o = WICK_OPTIONS_INIT;
    struct wick_stats s = WICK_STATS_INIT;
    struct wick_provider *p;
    double empty, cached, stepped, ours;

    empty = signal_cost(0);
    cached = signal_cost(1) - empty;
    stepped = signal_cost(2) - empty;
    o.endpoint = "none";
    o.rate = 1;
    o.signal = SIGUSR2;
    p = wick_provider_new(&o);
    if (!p)
        return fprintf(stderr, "%s\n", wick_last_error()), 1;
    ours = wick_cost(p, SIGUSR2);
    wick_get_stats(p, &s);
    if (s.samples[0] < 4000 || s.lost)
        return fprintf(stderr, "only %lu samples, %lu lost\n", (unsigned long) s.samples[0], (unsigned long) s.lost), 1;
    printf("%.0f %.0f %.0f %.0f %d\n", empty, ours - empty, cached, stepped, frames);
    wick_provider_free(p);
    return 0;
}

__attribute__((noinline)) static double deep(int d)
{
    double r = d ? deep(d - 1) : measure();

    sink++;
    return r;
}

int main(void)
{
    struct sigaction sa = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};

    sigaction(SIGUSR1, &sa, NULL);
    return (int) deep(30);
}
