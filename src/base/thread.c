/* SPDX-License-Identifier: Apache-2.0 */
/* Starts threads (thread.h) with signals blocked. */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"

static int let_through; /* a signal that is not blocked; 0: none */

void thread_let_through(int sig)
{
    let_through = sig;
}

int thread_wait(pthread_cond_t *c, pthread_mutex_t *lock, int64_t until)
{
    struct timespec t = {.tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S};

    if (until == INT64_MAX)
        return pthread_cond_wait(c, lock), 0;
    return pthread_cond_clockwait(c, lock, CLOCK_MONOTONIC, &t) == ETIMEDOUT ? -ETIMEDOUT : 0;
}

int thread_lock(pthread_mutex_t *lock, int64_t until)
{
    struct timespec t = {.tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S};

    if (until == INT64_MAX)
        return -pthread_mutex_lock(lock);
    return -pthread_mutex_clocklock(lock, CLOCK_MONOTONIC, &t);
}

int thread_start(pthread_t *ret, const char *name, void *(*run)(void *), void *arg, struct err *e)
{
    sigset_t all, old;
    char short_name[16];
    int r;

    sigfillset(&all);
    if (let_through)
        sigdelset(&all, let_through);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    r = pthread_create(ret, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r)
        return err_set(e, -r, "cannot start thread '%s': %m", name);
    snprintf(short_name, sizeof short_name, "%s", name);
    pthread_setname_np(*ret, short_name);
    return 0;
}
