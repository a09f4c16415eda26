/* SPDX-License-Identifier: Apache-2.0 */
/* Catches SIGBUS while a mapped file is read, with sigsetjmp() and a handler that jumps back. */
#include "agent/object_guard.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

static __thread sigjmp_buf *way_out;

static void on_bus(int sig)
{
    if (way_out)
        siglongjmp(*way_out, 1);
    signal(sig, SIG_DFL); /* not caused by the guarded code: the instruction is executed again and the signal ends the
                           * process */
}

static void install(void)
{
    struct sigaction on = {.sa_handler = on_bus, .sa_flags = SA_NODEFER};

    sigaction(SIGBUS, &on, NULL);
}

int object_guard(int (*f)(void *arg), void *arg)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    sigjmp_buf here;
    int r;

    pthread_once(&once, install);
    if (sigsetjmp(here, 1)) {
        way_out = NULL;
        return -EIO;
    }
    way_out = &here;
    r = f(arg);
    way_out = NULL;
    return r;
}
