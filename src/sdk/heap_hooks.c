/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The malloc family of the preload library. Fast paths are a subtraction or a byte load and a jump to the allocator.
 *
 * The allocator is glibc's, called by its internal names, unless the program brings its own (jemalloc, tcmalloc): then
 * that one, found with dlsym() (tcmalloc defines the internal names as well, and is called by them). Allocations made
 * by dlsym() itself come from a small static arena; nothing in it is ever freed.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "sdk/heap.h"

#define EXPORT __attribute__((visibility("default")))

extern void *__libc_malloc(size_t);
extern void __libc_free(void *);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void *__libc_valloc(size_t);
extern void *__libc_pvalloc(size_t);

EXPORT void *malloc(size_t n);
EXPORT void free(void *p);
EXPORT void *calloc(size_t n, size_t size);
EXPORT void *realloc(void *p, size_t n);
EXPORT void *reallocarray(void *p, size_t n, size_t size);
EXPORT void *memalign(size_t align, size_t n);
EXPORT void *aligned_alloc(size_t align, size_t n);
EXPORT int posix_memalign(void **ret, size_t align, size_t n);
EXPORT void *valloc(size_t n);
EXPORT void *pvalloc(size_t n);
EXPORT void cfree(void *p);

/* --- allocators other than glibc's --- */
static struct {
    void *(*malloc)(size_t);
    void (*free)(void *);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*memalign)(size_t, size_t);
} other;

enum { UNKNOWN, LOOKING, GLIBC, OTHER };
static _Atomic int allocator; /* which one */

static char boot[16384] __attribute__((aligned(16)));
static _Atomic size_t boot_used;

static bool is_boot(const void *p)
{
    return (const char *) p >= boot && (const char *) p < boot + sizeof boot;
}

static void *boot_alloc(size_t n)
{
    size_t at = atomic_fetch_add(&boot_used, ALIGN_UP(n + 16, 16ul));

    return at + n + 16 <= sizeof boot ? boot + at + 16 : NULL;
}

/* Called by the first allocation of the process, before it has other threads. */
static void look(void)
{
    void *next;

    atomic_store(&allocator, LOOKING);
    next = dlsym(RTLD_NEXT, "malloc");
    if (!next || next == (void *) __libc_malloc) {
        atomic_store(&allocator, GLIBC);
        return;
    }
    other.malloc = next;
    other.free = dlsym(RTLD_NEXT, "free");
    other.calloc = dlsym(RTLD_NEXT, "calloc");
    other.realloc = dlsym(RTLD_NEXT, "realloc");
    other.memalign = dlsym(RTLD_NEXT, "memalign");
    if (!other.memalign)
        other.memalign = dlsym(RTLD_NEXT, "aligned_alloc");
    atomic_store(&allocator, other.free && other.calloc && other.realloc && other.memalign ? OTHER : GLIBC);
}

void *heap_allocator(void)
{
    return atomic_load(&allocator) == OTHER ? (void *) other.malloc : (void *) __libc_malloc;
}

static int which(void)
{
    int a = atomic_load_explicit(&allocator, memory_order_relaxed);

    if (unlikely(a == UNKNOWN)) {
        look();
        a = atomic_load(&allocator);
    }
    return a;
}

static void *slow_malloc(size_t n)
{
    switch (which()) {
    case OTHER:
        return other.malloc(n);
    case LOOKING:
        return boot_alloc(n);
    default:
        return __libc_malloc(n);
    }
}

static inline void *real_malloc(size_t n)
{
    if (likely(atomic_load_explicit(&allocator, memory_order_relaxed) == GLIBC))
        return __libc_malloc(n);
    return slow_malloc(n);
}

static void *real_calloc(size_t n, size_t size)
{
    switch (which()) {
    case OTHER:
        return other.calloc(n, size);
    case LOOKING:
        return boot_alloc(n * size); /* static memory is already zero */
    default:
        return __libc_calloc(n, size);
    }
}

static void *real_memalign(size_t align, size_t n)
{
    return which() == OTHER ? other.memalign(align, n) : __libc_memalign(align, n);
}

static void slow_free(void *p)
{
    if (is_boot(p))
        return;
    if (which() == OTHER)
        other.free(p);
    else
        __libc_free(p);
}

/* --- the family --- */
static inline bool crosses(size_t n)
{
    return unlikely((heap_countdown -= (int64_t) n) < 0);
}

static __attribute__((noinline)) void *sampled_malloc(size_t n)
{
    bool sample = heap_decide(n);
    void *p = slow_malloc(n);

    if (sample)
        heap_record(p, n);
    return p;
}

void *malloc(size_t n)
{
    if (crosses(n))
        return sampled_malloc(n);
    return real_malloc(n);
}

static __attribute__((noinline)) void sampled_free(void *p)
{
    heap_forget(p);
    slow_free(p);
}

void free(void *p)
{
    if (unlikely(heap_may_be_sampled(p)) || unlikely(atomic_load_explicit(&allocator, memory_order_relaxed) != GLIBC) ||
        unlikely(is_boot(p))) {
        sampled_free(p);
        return;
    }
    __libc_free(p);
}

void cfree(void *p)
{
    free(p);
}

void *calloc(size_t n, size_t size)
{
    size_t total;
    bool sample;
    void *p;

    if (__builtin_mul_overflow(n, size, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    sample = heap_crosses(total);
    p = real_calloc(n, size);
    if (unlikely(sample))
        heap_record(p, total);
    return p;
}

static void *boot_realloc(void *p, size_t n)
{
    void *q = malloc(n);

    if (q)
        memcpy(q, p, MIN(n, (size_t) (boot + sizeof boot - (char *) p)));
    return q;
}

/* Counts as a free and a new allocation. The sample is forgotten first: once the allocator has the block, another
 * thread may get its address. If the allocator refuses, the block still exists and its sample is restored. */
void *realloc(void *old, size_t n)
{
    struct heap_live was = {0};
    bool sample;
    void *p;

    if (!old)
        return malloc(n);
    if (unlikely(is_boot(old)))
        return boot_realloc(old, n);
    if (unlikely(heap_may_be_sampled(old)))
        heap_take(old, &was);
    sample = heap_crosses(n);
    p = which() == OTHER ? other.realloc(old, n) : __libc_realloc(old, n);
    if (unlikely(!p && n && was.p))
        heap_put_back(&was);
    if (unlikely(sample))
        heap_record(p, n);
    return p;
}

void *reallocarray(void *p, size_t n, size_t size)
{
    size_t total;

    if (__builtin_mul_overflow(n, size, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(p, total);
}

void *memalign(size_t align, size_t n)
{
    bool sample = heap_crosses(n);
    void *p = real_memalign(align, n);

    if (unlikely(sample))
        heap_record(p, n);
    return p;
}

void *aligned_alloc(size_t align, size_t n)
{
    return memalign(align, n);
}

int posix_memalign(void **ret, size_t align, size_t n)
{
    void *p;

    if (align % sizeof(void *) || align == 0 || align & (align - 1))
        return EINVAL;
    p = memalign(align, n);
    if (!p)
        return ENOMEM;
    *ret = p;
    return 0;
}

void *valloc(size_t n)
{
    return memalign((size_t) sysconf(_SC_PAGESIZE), n);
}

void *pvalloc(size_t n)
{
    size_t page = (size_t) sysconf(_SC_PAGESIZE);

    return memalign(page, ALIGN_UP(n, page));
}
