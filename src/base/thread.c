/* SPDX-License-Identifier: Apache-2.0 */
/* Starts threads (thread.h) with signals blocked. */
#include "base/thread.h"

#include <signal.h>
#include <stdio.h>

static int let_through; /* a signal that is not blocked; 0: none */

void thread_let_through(int sig)
{
    let_through = sig;
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
