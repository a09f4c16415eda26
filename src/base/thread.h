/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that run with all signals blocked and have a name that ps shows. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

#include "base/err.h"

/* Only the first 15 bytes of name are shown. The thread is joinable. */
int thread_start(pthread_t *ret, const char *name, void *(*run)(void *), void *arg, struct err *e);

/* Waits for a condition, at most until this time of clock_mono() (INT64_MAX: for ever): the wall clock may be set meanwhile.
 * 0, also when it wakes up for no reason, or -ETIMEDOUT. */
int thread_wait(pthread_cond_t *c, pthread_mutex_t *lock, int64_t until);

/* Locks, waiting at most until this time of clock_mono() (INT64_MAX: for ever). 0 or -ETIMEDOUT. */
int thread_lock(pthread_mutex_t *lock, int64_t until) _tries_lock_(*lock);

/* A signal that threads started from now on do not block: SIGPROF, where a profiler may be loaded. To be called before
 * threads start. */
void thread_let_through(int sig);

#endif
