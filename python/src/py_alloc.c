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

/* Blocks up to this size come from the interpreter's own pools; 0 where it calls malloc() for them (PYTHONMALLOC). */
static size_t pooled = 512;

/* While the interpreter's allocator may call malloc(), that takes no sample: it would be of the same bytes. */
#define QUIETLY(n, call)                   \
    do {                                   \
        if (likely((n) <= pooled)) {       \
            call;                          \
        } else {                           \
            int64_t left = heap_countdown; \
                                           \
            heap_countdown = QUIET;        \
            call;                          \
            heap_countdown = left;         \
        }                                  \
    } while (0)

static void *hook_malloc(void *ctx, size_t n)
{
    const struct domain *d = ctx;
    bool sample = heap_crosses(n);
    void *p;

    QUIETLY(n, p = d->next.malloc(d->next.ctx, n));
    if (unlikely(sample))
        heap_record(p, n);
    return p;
}

static void *hook_calloc(void *ctx, size_t n, size_t size)
{
    const struct domain *d = ctx;
    size_t total = SIZE_MAX;
    bool sample = !__builtin_mul_overflow(n, size, &total) && heap_crosses(total);
    void *p;

    QUIETLY(total, p = d->next.calloc(d->next.ctx, n, size));
    if (unlikely(sample))
        heap_record(p, total);
    return p;
}

static void *hook_realloc(void *ctx, void *old, size_t n)
{
    const struct domain *d = ctx;
    struct heap_live was = {0};
    bool sample;
    void *p;

    if (old && unlikely(heap_may_be_sampled(old)))
        heap_take(old, &was);
    sample = heap_crosses(n);
    QUIETLY(n, p = d->next.realloc(d->next.ctx, old, n));
    if (unlikely(!p && was.p)) /* it failed: the block still exists */
        heap_put_back(&was);
    if (unlikely(sample))
        heap_record(p, n);
    return p;
}

static void hook_free(void *ctx, void *p)
{
    const struct domain *d = ctx;

    if (p && unlikely(heap_may_be_sampled(p)))
        heap_forget(p);
    d->next.free(d->next.ctx, p);
}

/* malloc() is hooked already: it counts down if the interpreter calls it for a small block. */
static void find_pooled(const struct domain *d)
{
    int64_t left = heap_countdown;
    void *p;

    heap_countdown = QUIET;
    p = d->next.malloc(d->next.ctx, 64);
    if (heap_countdown != QUIET)
        pooled = 0;
    heap_countdown = left;
    if (p)
        d->next.free(d->next.ctx, p);
}

void py_alloc_start(void)
{
    for (size_t i = 0; i < sizeof domains / sizeof domains[0]; i++) {
        struct domain *d = &domains[i];
        PyMemAllocatorEx mine = {d, hook_malloc, hook_calloc, hook_realloc, hook_free};

        if (d->installed)
            continue;
        PyMem_GetAllocator(d->id, &d->next);
        find_pooled(d);
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
