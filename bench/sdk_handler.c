/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one sample costs at 36 frames: libwick's handler on top of an empty one, beside libunwind doing the same walk.
 * Signals are sent by the thread to itself. A timer's signal is sent by the kernel's tick, not by a system call of the
 * thread's, so the cost of that call (the same one with signal 0, which sends nothing) is taken off; what is left is
 * delivery and return. Samples come in batches of 25, as many as a thread at 100 Hz has between two looks of the
 * background. Prints "signal_ns handler_ns unw_backtrace_ns unw_step_ns send_ns frames", all per sample.
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

enum { BATCH = 25, BATCHES = 400 };

static volatile unsigned long sink;
static int mode, frames, pid, tid;

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

/* The cost of one; signals look like those of libwick's timer, and the state of the first thread has number 0. */
static double cost(int signal, struct wick_provider *p)
{
    siginfo_t info = {.si_signo = signal, .si_code = SI_TIMER};
    double sum = 0, from;
    void *snapshot;
    size_t size;

    info.si_value.sival_ptr = (void *) (0x7769636bul << 32);
    for (int batch = 0; batch < BATCHES; batch++) {
        from = now();
        for (int i = 0; i < BATCH; i++)
            syscall(SYS_rt_tgsigqueueinfo, pid, tid, signal, &info);
        sum += now() - from;
        if (p && wick_snapshot(p, WICK_CPU, &snapshot, &size) == 0) /* drains the ring */
            wick_snapshot_free(snapshot, size);
    }
    return sum / (BATCH * BATCHES);
}

static double peer_cost(int m)
{
    mode = m;
    cost(SIGUSR1, NULL);
    return cost(SIGUSR1, NULL);
}

__attribute__((noinline)) static double measure(void)
{
    struct wick_options o = WICK_OPTIONS_INIT;
    struct wick_stats s = WICK_STATS_INIT;
    struct wick_provider *p;
    double send = cost(0, NULL), empty, cached, stepped, ours;

    empty = peer_cost(0);
    cached = peer_cost(1) - empty;
    stepped = peer_cost(2) - empty;
    o.endpoint = "none";
    o.rate = 1;
    o.signal = SIGUSR2;
    p = wick_provider_new(&o);
    if (!p)
        return fprintf(stderr, "%s\n", wick_last_error()), 1;
    mode = 0;
    empty = cost(SIGUSR1, p); /* with the same draining between */
    ours = cost(SIGUSR2, p);
    wick_get_stats(p, &s);
    if (s.samples[0] < BATCH * BATCHES || s.lost)
        return fprintf(stderr, "only %lu samples, %lu lost\n", (unsigned long) s.samples[0], (unsigned long) s.lost), 1;
    printf("%.0f %.0f %.0f %.0f %.0f %d\n", empty - send, ours - empty, cached, stepped, send, frames);
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

    pid = getpid();
    tid = gettid();
    sigaction(SIGUSR1, &sa, NULL);
    return (int) deep(28);
}
