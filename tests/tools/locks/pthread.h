/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <pthread.h> with the attributes of clang's thread-safety analysis, for tests/locks.py alone: glibc's has none. The locks are
 * structs of their own here, so nothing that is compiled with it can be linked.
 */
#ifndef TESTS_LOCKS_PTHREAD_H
#define TESTS_LOCKS_PTHREAD_H

#define pthread_mutex_lock plain_mutex_lock
#define pthread_mutex_trylock plain_mutex_trylock
#define pthread_mutex_unlock plain_mutex_unlock
#define pthread_mutex_init plain_mutex_init
#define pthread_mutex_destroy plain_mutex_destroy
#define pthread_rwlock_rdlock plain_rwlock_rdlock
#define pthread_rwlock_wrlock plain_rwlock_wrlock
#define pthread_rwlock_tryrdlock plain_rwlock_tryrdlock
#define pthread_rwlock_trywrlock plain_rwlock_trywrlock
#define pthread_rwlock_unlock plain_rwlock_unlock
#define pthread_rwlock_init plain_rwlock_init
#define pthread_rwlock_destroy plain_rwlock_destroy
#define pthread_cond_wait plain_cond_wait
#include_next <pthread.h>
#undef pthread_mutex_lock
#undef pthread_mutex_trylock
#undef pthread_mutex_unlock
#undef pthread_mutex_init
#undef pthread_mutex_destroy
#undef pthread_rwlock_rdlock
#undef pthread_rwlock_wrlock
#undef pthread_rwlock_tryrdlock
#undef pthread_rwlock_trywrlock
#undef pthread_rwlock_unlock
#undef pthread_rwlock_init
#undef pthread_rwlock_destroy
#undef pthread_cond_wait

#define LOCKS(...) __attribute__((__VA_ARGS__))
typedef struct LOCKS(capability("mutex")) {
    pthread_mutex_t plain;
} annotated_mutex_t;
typedef struct LOCKS(capability("rwlock")) {
    pthread_rwlock_t plain;
} annotated_rwlock_t;
#define pthread_mutex_t annotated_mutex_t
#define pthread_rwlock_t annotated_rwlock_t

#undef PTHREAD_MUTEX_INITIALIZER
#define PTHREAD_MUTEX_INITIALIZER {{{0}}}
#undef PTHREAD_RWLOCK_INITIALIZER
#define PTHREAD_RWLOCK_INITIALIZER {{{0}}}

int pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr);
int pthread_mutex_destroy(pthread_mutex_t *m);
int pthread_mutex_lock(pthread_mutex_t *m) LOCKS(acquire_capability(*m));
int pthread_mutex_trylock(pthread_mutex_t *m) LOCKS(try_acquire_capability(0, *m));
int pthread_mutex_unlock(pthread_mutex_t *m) LOCKS(release_capability(*m));
int pthread_rwlock_init(pthread_rwlock_t *l, const pthread_rwlockattr_t *attr);
int pthread_rwlock_destroy(pthread_rwlock_t *l);
int pthread_rwlock_rdlock(pthread_rwlock_t *l) LOCKS(acquire_shared_capability(*l));
int pthread_rwlock_wrlock(pthread_rwlock_t *l) LOCKS(acquire_capability(*l));
int pthread_rwlock_tryrdlock(pthread_rwlock_t *l) LOCKS(try_acquire_shared_capability(0, *l));
int pthread_rwlock_trywrlock(pthread_rwlock_t *l) LOCKS(try_acquire_capability(0, *l));
int pthread_rwlock_unlock(pthread_rwlock_t *l) LOCKS(release_generic_capability(*l));
int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m) LOCKS(requires_capability(*m));

#endif
