/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that run with all signals blocked and have a name that ps shows. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

#include "base/err.h"

/* Only the first 15 bytes of name are shown. The thread is joinable. */
int thread_start(pthread_t *ret, const char *name, void *(*run)(void *), void *arg, struct err *e);

/* A signal that threads started from now on do not block: SIGPROF, where a profiler may be loaded. To be called before
 * threads start. */
void thread_let_through(int sig);

#endif
