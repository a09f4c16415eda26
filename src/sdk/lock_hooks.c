/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutexes and rwlocks of the preload library: a hook tries the lock first and measures time only when it is taken. With
 * lock profiling off each hook costs a load and a jump. A contended lock is tried once more than without us: that is
 * the change of behaviour that wick.h mentions.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include "base/macros.h"
#include "sdk/lock.h"
#include "sdk/sys.h"

#define EXPORT __attribute__((visibility("default")))

/* Defines the hook name(lock), which first tries try_name(lock). */
#define LOCK_HOOK(name, try_name, type)                                            \
    static int (*real_##name)(type *);                                             \
    static int (*real_##try_name##_for_##name)(type *);                            \
    __attribute__((constructor(101))) static void look_##name(void)                \
    {                                                                              \
        real_##try_name##_for_##name = dlsym(RTLD_NEXT, #try_name);                \
        __atomic_store_n(&real_##name, dlsym(RTLD_NEXT, #name), __ATOMIC_RELEASE); \
    }                                                                              \
    static __attribute__((noinline)) int wait_##name(type *l)                      \
    {                                                                              \
        int64_t from = sys_clock_ns(CLOCK_MONOTONIC);                              \
        int r = real_##name(l);                                                    \
                                                                                   \
        lock_waited(sys_clock_ns(CLOCK_MONOTONIC) - from);                         \
        return r;                                                                  \
    }                                                                              \
    EXPORT int name(type *l)                                                       \
    {                                                                              \
        int r;                                                                     \
                                                                                   \
        if (unlikely(!__atomic_load_n(&real_##name, __ATOMIC_ACQUIRE)))            \
            look_##name();                                                         \
        if (likely(!atomic_load_explicit(&lock_on, memory_order_relaxed)))         \
            return real_##name(l);                                                 \
        r = real_##try_name##_for_##name(l);                                       \
        return likely(r != EBUSY) ? r : wait_##name(l);                            \
    }

LOCK_HOOK(pthread_mutex_lock, pthread_mutex_trylock, pthread_mutex_t)
LOCK_HOOK(pthread_rwlock_rdlock, pthread_rwlock_tryrdlock, pthread_rwlock_t)
LOCK_HOOK(pthread_rwlock_wrlock, pthread_rwlock_trywrlock, pthread_rwlock_t)
