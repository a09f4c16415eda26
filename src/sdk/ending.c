/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last flush of a process that is about to end, and the test for its last thread (ending.h).
 *
 * A request for the last flush is two counters: `asked` is raised by the thread that ends, `answered` by the background
 * thread. Both are futexes, so a signal handler may wait on them, even one that interrupted a thread inside wick's API.
 */
#include "sdk/ending.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "sdk/core.h"
#include "sdk/sys.h"

static _Atomic uint32_t asked, answered;
static _Atomic int64_t hurry; /* deadline of exports; 0: none */
static uint32_t being_answered;

bool ending_flush(unsigned ms)
{
    uint32_t mine = atomic_fetch_add(&asked, 1) + 1, seen;
    int64_t until = sys_clock_ns(CLOCK_MONOTONIC) + (int64_t) ms * NS_PER_MS;

    ending_hurry(ENDING_EXPORT_MS);
    handler_wake();
    while ((int32_t) ((seen = atomic_load(&answered)) - mine) < 0) {
        int64_t left = until - sys_clock_ns(CLOCK_MONOTONIC);
        struct timespec t = {left / NS_PER_S, left % NS_PER_S};

        if (left <= 0)
            return false;
        sys_call(SYS_futex, (long) &answered, FUTEX_WAIT_PRIVATE, seen, (long) &t);
    }
    return true;
}

bool ending_flush_wanted(void)
{
    being_answered = atomic_load(&asked);
    return being_answered != atomic_load(&answered);
}

void ending_flushed(void)
{
    atomic_store(&answered, being_answered);
    sys_call(SYS_futex, (long) &answered, FUTEX_WAKE_PRIVATE, INT32_MAX, 0);
}

void ending_hurry(unsigned ms)
{
    int64_t at = sys_clock_ns(CLOCK_MONOTONIC) + (int64_t) ms * NS_PER_MS, was = atomic_load(&hurry);

    while ((!was || was > at) && !atomic_compare_exchange_weak(&hurry, &was, at))
        ;
}

int64_t ending_deadline(int64_t deadline)
{
    int64_t at = atomic_load(&hurry);

    return at ? MIN(at, deadline) : deadline;
}

void ending_reset(void)
{
    atomic_store(&answered, atomic_load(&asked));
    atomic_store(&hurry, 0);
}

/* --- the last thread --- */
/* The file holds "TID (NAME) STATE ...", and NAME may contain any character. A thread that has ended is in state Z (the
 * first one of a process) or X. */
static bool runs(int directory, int tid)
{
    char path[32], stat[512], *end;
    int fd;
    long n;

    snprintf(path, sizeof path, "%d/stat", tid);
    fd = (int) sys_call(SYS_openat, directory, (long) path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) /* it has ended in the meantime */
        return false;
    n = sys_call(SYS_read, fd, (long) stat, sizeof stat - 1, 0);
    sys_call(SYS_close, fd, 0, 0, 0);
    stat[n > 0 ? n : 0] = 0;
    end = strrchr(stat, ')');
    return end && end[1] == ' ' && end[2] != 'Z' && end[2] != 'X';
}

struct looking {
    int self;
    bool found_self, others;
};

static bool look(int directory, int tid, void *arg)
{
    struct looking *l = arg;

    if (tid == l->self)
        l->found_self = true;
    else if (!thr_is_helper(tid))
        l->others = runs(directory, tid);
    return !l->others;
}

bool ending_alone(void)
{
    struct looking l = {.self = sys_gettid()};

    return thr_each_task(look, &l) == 0 && l.found_self && !l.others;
}
