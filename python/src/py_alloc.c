/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks of the interpreter's allocators (py_alloc.h). */
#include "py_alloc.h"

#include "cpython_layout.h"
#include "sdk/heap.h"

#define QUIET ((int64_t) 1 << 60) /* a countdown that no allocation reaches */

struct domain {
    PyMemAllocatorDomain id;
    PyMemAllocatorEx next;
    int installed;
};

static struct domain domains[] = {{.id = PYMEM_DOMAIN_MEM}, {.id = PYMEM_DOMAIN_OBJ}};

/* Blocks up to this size come from the interpreter's own pools and are counted here. For larger ones the interpreter calls
 * malloc(), whose hook counts them: 0 where it does so for all blocks (PYTHONMALLOC), SIZE_MAX where that hook does not
 * see its calls. */
static size_t pooled = 512;

/* Bytes until the next sample, of all threads: the interpreter allocates with the GIL held, and an exponentially
 * distributed distance has no memory of whose bytes they were. With a GIL per interpreter, a lost update only moves a sample. */
static int64_t left;

static __attribute__((noinline)) bool decide(size_t n)
{
    int64_t own = heap_countdown;
    bool sample;

    heap_countdown = left;
    sample = heap_decide(n);
    left = heap_countdown == INT64_MAX ? 0 : heap_countdown; /* a thread that is left out does not decide for others */
    heap_countdown = own;
    return sample;
}

/* While the interpreter's allocator may call malloc(), that takes no sample: it would be of the same bytes. */
static __attribute__((noinline)) void *sampled_malloc(const struct domain *d, size_t n)
{
    int64_t own = heap_countdown;
    bool sample = decide(n);
    void *p;

    heap_countdown = QUIET;
    p = d->next.malloc(d->next.ctx, n);
    heap_countdown = own;
    if (sample)
        heap_record(p, n);
    return p;
}

static inline bool crosses(size_t n)
{
    int64_t now = __atomic_load_n(&left, __ATOMIC_RELAXED) - (int64_t) n;

    __atomic_store_n(&left, now, __ATOMIC_RELAXED);
    return unlikely(now < 0);
}

static void *hook_malloc(void *ctx, size_t n)
{
    const struct domain *d = ctx;

    if (n <= pooled && crosses(n))
        return sampled_malloc(d, n);
    return d->next.malloc(d->next.ctx, n);
}

static void *hook_calloc(void *ctx, size_t n, size_t size)
{
    const struct domain *d = ctx;
    size_t total = SIZE_MAX;
    bool sample = !__builtin_mul_overflow(n, size, &total) && total <= pooled && crosses(total) && decide(total);
    void *p = d->next.calloc(d->next.ctx, n, size);

    if (unlikely(sample))
        heap_record(p, total);
    return p;
}

static __attribute__((noinline)) void *sampled_realloc(const struct domain *d, void *old, size_t n, bool sample)
{
    struct heap_live was = {0};
    void *p;

    if (old && heap_may_be_sampled(old))
        heap_take(old, &was);
    p = d->next.realloc(d->next.ctx, old, n);
    if (!p && was.p) /* it failed: the block still exists */
        heap_put_back(&was);
    if (sample)
        heap_record(p, n);
    return p;
}

static void *hook_realloc(void *ctx, void *old, size_t n)
{
    const struct domain *d = ctx;
    bool sample = n <= pooled && crosses(n) && decide(n);

    if (unlikely(sample) || (old && unlikely(heap_may_be_sampled(old))))
        return sampled_realloc(d, old, n, sample);
    return d->next.realloc(d->next.ctx, old, n);
}

static __attribute__((noinline)) void sampled_free(const struct domain *d, void *p)
{
    heap_forget(p);
    d->next.free(d->next.ctx, p);
}

static void hook_free(void *ctx, void *p)
{
    const struct domain *d = ctx;

    if (unlikely(heap_may_be_sampled(p)) && p)
        sampled_free(d, p);
    else
        d->next.free(d->next.ctx, p);
}

/* Whether the hook of malloc() counts a block of n bytes. */
static bool is_counted(const struct domain *d, size_t n)
{
    int64_t own = heap_countdown;
    bool counted;
    void *p;

    heap_countdown = QUIET;
    p = d->next.malloc(d->next.ctx, n);
    counted = heap_countdown != QUIET;
    heap_countdown = own;
    if (p)
        d->next.free(d->next.ctx, p);
    return counted;
}

void py_alloc_start(void)
{
    left = 0;
    for (size_t i = 0; i < sizeof domains / sizeof domains[0]; i++) {
        struct domain *d = &domains[i];
        PyMemAllocatorEx mine = {d, hook_malloc, hook_calloc, hook_realloc, hook_free};

        if (d->installed)
            continue;
        PyMem_GetAllocator(d->id, &d->next);
        pooled = is_counted(d, 64) ? 0 : is_counted(d, 4096) ? pooled : SIZE_MAX;
        PyMem_SetAllocator(d->id, &mine);
        d->installed = 1;
    }
}

/* Hooks that others put around ours since then keep calling ours, which then only pass on. */
void py_alloc_stop(void)
{
    for (size_t i = 0; i < sizeof domains / sizeof domains[0]; i++) {
        struct domain *d = &domains[i];
        PyMemAllocatorEx now;

        PyMem_GetAllocator(d->id, &now);
        if (!d->installed || now.malloc != hook_malloc)
            continue;
        PyMem_SetAllocator(d->id, &d->next);
        d->installed = 0;
    }
}
