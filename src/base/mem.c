/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator of mem.h over malloc(), with failure injection. The counters are atomics because tests inject failures
 * into threaded code too. */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

static atomic_ulong n_allocs;
static atomic_ulong fail_at;
static atomic_bool fail_sticky;

static _Thread_local unsigned long n_failed;

unsigned long mem_failures(void)
{
    return n_failed;
}

static void *counted(void *p)
{
    if (unlikely(!p))
        n_failed++;
    return p;
}

static bool must_fail(void)
{
    unsigned long n = atomic_fetch_add_explicit(&n_allocs, 1, memory_order_relaxed) + 1;
    unsigned long at = atomic_load_explicit(&fail_at, memory_order_relaxed);

    if (likely(!at))
        return false;
    return n == at || (n > at && atomic_load_explicit(&fail_sticky, memory_order_relaxed));
}

void mem_fail_at(unsigned long n, bool sticky)
{
    atomic_store(&fail_sticky, sticky);
    atomic_store(&fail_at, n ? atomic_load(&n_allocs) + n : 0);
}

unsigned long mem_count(void)
{
    return atomic_load(&n_allocs);
}

void *mem_alloc(size_t size)
{
    return counted(must_fail() ? NULL : malloc(size ? size : 1));
}

void *mem_alloc_block(size_t size)
{
    enum { PAGE = 2 << 20, WORTH = 4 * PAGE };
    char *p = mem_alloc(size), *from;

    if (!p || size < WORTH)
        return p;
    from = (char *) ALIGN_UP((uintptr_t) p, (uintptr_t) PAGE);
    madvise(from, (size_t) (p + size - from) / PAGE * PAGE, MADV_HUGEPAGE); /* only a hint */
    return p;
}

void *mem_zalloc(size_t size)
{
    return counted(must_fail() ? NULL : calloc(1, size ? size : 1));
}

void *mem_realloc(void *p, size_t size)
{
    return counted(must_fail() ? NULL : realloc(p, size ? size : 1));
}

void mem_free(void *p)
{
    free(p);
}
