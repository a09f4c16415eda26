/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pthread_create() that the host calls: each thread gets its state before its first instruction and releases it
 * after its last, so that short threads are counted. Hooked by name in the preload library, in the offset tables in
 * libwick.so.
 */
#ifndef SDK_THREAD_HOOKS_H
#define SDK_THREAD_HOOKS_H

#include <pthread.h>

struct thr;

typedef int pthread_create_fn(pthread_t *, const pthread_attr_t *, void *(*) (void *), void *);

/* Does what pthread_create() does, by calling real. */
int thread_hooks_create(pthread_create_fn *real, pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *),
                        void *arg);
/* The calling thread, whose state is t, was not created by the function above: from now on its end by pthread_exit() is
 * noticed. */
void thread_hooks_watch_end(struct thr *t);

#endif
