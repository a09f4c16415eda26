/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The libwick.so implementation of start.h: hooks are put into the offset tables of the loaded objects, only for the
 * types that are on. The allocator is the process's own.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sdk/futex_locks.h"
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

void start_report(const char *message) /* not printed: the host calls wick_flush() or wick_get_stats() */
{
}

void start_chose(const char *text) /* not printed either */
{
}

void start_unseen(int64_t bytes) /* nor this: it is in the profile */
{
}

/* --- the functions that the hooks call --- */
/*
 * An executable that is not position independent and takes the address of a function defines that address for the whole
 * process: it is a stub of its own, which calls through its offset table. Called by that address, a hook would call
 * itself. Then the function is looked up in the libraries, in their order.
 */
static struct {
    bool found;
    void *(*malloc)(size_t);
    void (*free)(void *);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*memalign)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    pthread_create_fn *pthread_create;
} real;

static void *in_libraries(const char *name)
{
    struct link_map *m = dlopen(NULL, RTLD_LAZY);
    Dl_info info;

    for (m = m ? m->l_next : NULL; m; m = m->l_next) {
        void *h = m->l_name[0] ? dlopen(m->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL, *p = h ? dlsym(h, name) : NULL;

        if (h)
            dlclose(h);
        if (p && dladdr(p, &info) && (uintptr_t) info.dli_fbase == m->l_addr)
            return p;
    }
    return NULL;
}

static void *find_real(const char *name, void *otherwise)
{
    void *p = dlsym(RTLD_DEFAULT, name), *library;
    const ElfW(Sym) *symbol = NULL;
    Dl_info info;

    if (!p || !dladdr1(p, &info, (void **) &symbol, RTLD_DL_SYMENT) || !symbol || symbol->st_shndx != SHN_UNDEF)
        return p ? p : otherwise;
    library = in_libraries(name);
    return library ? library : otherwise;
}

static void find_reals(void)
{
    if (real.found)
        return;
    real.malloc = find_real("malloc", malloc);
    real.free = find_real("free", free);
    real.calloc = find_real("calloc", calloc);
    real.realloc = find_real("realloc", realloc);
    real.memalign = find_real("memalign", memalign);
    real.posix_memalign = find_real("posix_memalign", posix_memalign);
    real.pthread_create = find_real("pthread_create", pthread_create);
    real.found = true;
}

/* --- allocation --- */
static void *hook_malloc(size_t n)
{
    bool sample = heap_crosses(n);
    void *p = real.malloc(n);

    if (unlikely(sample))
        heap_record(p, n);
    return p;
}

static void hook_free(void *p)
{
    if (unlikely(heap_may_be_sampled(p)))
        heap_forget(p);
    real.free(p);
}

static void *hook_calloc(size_t n, size_t size)
{
    size_t total;
    bool sample = !__builtin_mul_overflow(n, size, &total) && heap_crosses(total);
    void *p = real.calloc(n, size);

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
    p = real.realloc(old, n);
    if (unlikely(!p && n && was.p)) /* realloc failed: the block still exists */
        heap_put_back(&was);
    if (unlikely(sample))
        heap_record(p, n);
    return p;
}

static void *hook_memalign(size_t align, size_t n)
{
    bool sample = heap_crosses(n);
    void *p = real.memalign(align, n);

    if (unlikely(sample))
        heap_record(p, n);
    return p;
}

static int hook_posix_memalign(void **ret, size_t align, size_t n)
{
    bool sample = heap_crosses(n);
    int r = real.posix_memalign(ret, align, n);

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
    return thread_hooks_create(real.pthread_create, ret, attr, run, arg);
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
    find_reals();
    got_install(thread_hooks, ARRAY_SIZE(thread_hooks), NULL);
    if (core.types & (WICK_ALLOC | WICK_HEAP)) {
        got_install(heap_hooks, ARRAY_SIZE(heap_hooks), NULL);
        new_hooks_install((void *) real.malloc);
    }
    if (core.types & WICK_LOCK) {
        got_install(lock_hooks, ARRAY_SIZE(lock_hooks), NULL);
        futex_locks_install();
    }
    got_install_kept();
}
