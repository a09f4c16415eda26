/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that run with every signal blocked and a name that ps shows. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

#include "base/err.h"

/* name: at most 15 bytes are shown. The thread is joinable. */
int thread_start(pthread_t *ret, const char *name, void *(*run)(void *), void *arg, struct err *e);

/* A signal that threads started from now on do not block: SIGPROF, where a profiler may be loaded. Before threads start. */
void thread_let_through(int sig);

#endif
