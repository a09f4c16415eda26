/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The libwick.so implementation of start.h: hooks are put into the offset tables of the loaded objects, only for the
 * types that are on. The allocator is the process's own.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sdk/got.h"
#include "sdk/heap.h"
#include "sdk/lock.h"
#include "sdk/new_hooks.h"
#include "sdk/provider.h"
#include "sdk/start.h"
#include "sdk/sys.h"
#include "sdk/thread_hooks.h"

void start_child_file(struct wick_provider *p)
{
    p->s.file = NULL; /* it belongs to the parent */
}

int start_send_part(const char *type, const void *p, size_t n, struct err *e)
{
    return -ENOTCONN;
}

void start_tell(const char *words) /* not printed: the host calls wick_flush() or wick_get_stats() */
{
}

/* --- allocation --- */
static void *hook_malloc(size_t n)
{
    bool sample = heap_crosses(n);
    void *p = malloc(n);

    if (unlikely(sample))
        heap_record(p, n);
    return p;
}

static void hook_free(void *p)
{
    if (unlikely(heap_may_be_sampled(p)))
        heap_forget(p);
    free(p);
}

static void *hook_calloc(size_t n, size_t size)
{
    size_t total;
    bool sample = !__builtin_mul_overflow(n, size, &total) && heap_crosses(total);
    void *p = calloc(n, size);

    if (unlikely(sample))
        heap_record(p, total);
    return p;
}

static void *hook_realloc(void *old, size_t n)
{
    struct heap_live was = {0};
    bool sample;
    void *p;

    if (old && unlikely(heap_may_be_sampled(old)))
        heap_take(old, &was);
    sample = heap_crosses(n);
    p = realloc(old, n);
    if (unlikely(!p && n && was.p)) /* realloc failed: the block still exists */
        heap_put_back(&was);
    if (unlikely(sample))
        heap_record(p, n);
    return p;
}

static void *hook_memalign(size_t align, size_t n)
{
    bool sample = heap_crosses(n);
    void *p = memalign(align, n);

    if (unlikely(sample))
        heap_record(p, n);
    return p;
}

static int hook_posix_memalign(void **ret, size_t align, size_t n)
{
    bool sample = heap_crosses(n);
    int r = posix_memalign(ret, align, n);

    if (unlikely(sample) && r == 0)
        heap_record(*ret, n);
    return r;
}

static const struct got_hook heap_hooks[] = {
    {"malloc", hook_malloc},
    {"free", hook_free},
    {"calloc", hook_calloc},
    {"realloc", hook_realloc},
    {"memalign", hook_memalign},
    {"aligned_alloc", hook_memalign},
    {"posix_memalign", hook_posix_memalign},
};

/* --- threads --- */
static int hook_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    return thread_hooks_create(pthread_create, ret, attr, run, arg);
}

static const struct got_hook thread_hooks[] = {{"pthread_create", hook_pthread_create}};

/* --- locks --- */
#define LOCK_HOOK(name, try_name, type)                            \
    static int hook_##name(type *l)                                \
    {                                                              \
        int64_t from;                                              \
        int r;                                                     \
                                                                   \
        if (!atomic_load_explicit(&lock_on, memory_order_relaxed)) \
            return name(l);                                        \
        r = try_name(l);                                           \
        if (r != EBUSY)                                            \
            return r;                                              \
        from = sys_clock_ns(CLOCK_MONOTONIC);                      \
        r = name(l);                                               \
        lock_waited(sys_clock_ns(CLOCK_MONOTONIC) - from);         \
        return r;                                                  \
    }

LOCK_HOOK(pthread_mutex_lock, pthread_mutex_trylock, pthread_mutex_t)
LOCK_HOOK(pthread_rwlock_rdlock, pthread_rwlock_tryrdlock, pthread_rwlock_t)
LOCK_HOOK(pthread_rwlock_wrlock, pthread_rwlock_trywrlock, pthread_rwlock_t)

static const struct got_hook lock_hooks[] = {
    {"pthread_mutex_lock", hook_pthread_mutex_lock},
    {"pthread_rwlock_rdlock", hook_pthread_rwlock_rdlock},
    {"pthread_rwlock_wrlock", hook_pthread_rwlock_wrlock},
};

void start_hooks(void)
{
    got_install(thread_hooks, ARRAY_SIZE(thread_hooks), NULL);
    if (core.types & (WICK_ALLOC | WICK_HEAP)) {
        got_install(heap_hooks, ARRAY_SIZE(heap_hooks), NULL);
        new_hooks_install(dlsym(RTLD_DEFAULT, "malloc"));
    }
    if (core.types & WICK_LOCK)
        got_install(lock_hooks, ARRAY_SIZE(lock_hooks), NULL);
}
