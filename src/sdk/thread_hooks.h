/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pthread_create() as the host calls it: each thread gets its state before its first instruction and gives it back after
 * its last, so that short ones count. By name in the preload library, by the offset tables in libwick.so.
 */
#ifndef SDK_THREAD_HOOKS_H
#define SDK_THREAD_HOOKS_H

#include <pthread.h>

struct thr;

typedef int pthread_create_fn(pthread_t *, const pthread_attr_t *, void *(*) (void *), void *);

/* What pthread_create() does, by way of real. */
int thread_hooks_create(pthread_create_fn *real, pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *),
                        void *arg);
/* The calling thread, whose state is t, was not created by the above: its end by pthread_exit() is noticed from now on. */
void thread_hooks_watch_end(struct thr *t);

#endif
