/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/mem.h for libwick: memory from mmap alone, never from the host's malloc, which may hold its lock, be hooked, or
 * be what is profiled. Small blocks come from size classes (powers of two and the sizes half-way between them) carved
 * out of 128 KiB chunks and return to their free list; large ones are mappings of their own. All of them count against
 * one budget.
 *
 * Every block has a header of 16 bytes. One lock guards the lists; signal handlers never take it. It is held across
 * fork(), so that it is free in the child.
 */
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "sdk/mem_sdk.h"
#include "sdk/sys.h"

enum { CHUNK = 128 << 10, CLASSES = 28, SMALL_MAX = 32 << 10, PAGE = 4096 };

struct header {
    size_t size; /* usable bytes */
    uint32_t class;
    uint32_t magic;
};

struct piece {
    struct piece *next;
};

static struct piece *free_lists[CLASSES];
static char *chunk_pos, *chunk_end;
static _Atomic size_t held, budget;
static atomic_flag lock = ATOMIC_FLAG_INIT;
static _Atomic unsigned long n_allocs;

/* Sleeps instead of yielding: a thread of higher priority (SCHED_FIFO) would never let the holder run. */
static void acquire(void)
{
    struct timespec nap = {0, 20000};

    for (int i = 0; atomic_flag_test_and_set_explicit(&lock, memory_order_acquire); i++)
        if (i > 200)
            sys_call(SYS_nanosleep, (long) &nap, 0, 0, 0);
}

static void release(void)
{
    atomic_flag_clear_explicit(&lock, memory_order_release);
}

void mem_sdk_fork_prepare(void)
{
    acquire();
}

void mem_sdk_fork_done(void)
{
    release();
}

void mem_sdk_set_budget(size_t bytes)
{
    atomic_store(&budget, bytes);
}

size_t mem_sdk_held(void)
{
    return atomic_load(&held);
}

/* Size classes: 32, 48, 64, 96, 128, 192 ... */
static uint32_t class_of(size_t size, size_t *ret_size)
{
    size_t s = 32;

    for (uint32_t c = 0;; c += 2, s *= 2) {
        if (size <= s) {
            *ret_size = s;
            return c;
        }
        if (size <= s + s / 2) {
            *ret_size = s + s / 2;
            return c + 1;
        }
    }
}

static void *map_pages(size_t n)
{
    size_t limit = atomic_load(&budget);
    void *p;

    if (limit && atomic_load(&held) + n > limit)
        return NULL;
    p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    atomic_fetch_add(&held, n);
    return p;
}

static struct header *alloc_small(size_t total)
{
    size_t size;
    uint32_t c = class_of(total, &size);
    struct header *h = NULL;

    acquire();
    if (free_lists[c]) {
        h = (struct header *) free_lists[c];
        free_lists[c] = free_lists[c]->next;
    } else {
        if (!chunk_pos || (size_t) (chunk_end - chunk_pos) < size) { /* the rest of the old chunk is lost */
            chunk_pos = map_pages(CHUNK);
            chunk_end = chunk_pos ? chunk_pos + CHUNK : NULL;
        }
        if (chunk_pos) {
            h = (struct header *) chunk_pos;
            chunk_pos += size;
        }
    }
    release();
    if (h)
        *h = (struct header){size - sizeof *h, c, 0};
    return h;
}

static struct header *alloc_large(size_t total)
{
    size_t n = ALIGN_UP(total, (size_t) PAGE);
    struct header *h = n < total ? NULL : map_pages(n);

    if (h)
        *h = (struct header){n - sizeof *h, CLASSES, 0};
    return h;
}

void *mem_alloc(size_t size)
{
    struct header *h;

    atomic_fetch_add_explicit(&n_allocs, 1, memory_order_relaxed);
    if (size > SIZE_MAX / 2)
        return NULL;
    size += sizeof *h;
    h = size <= SMALL_MAX ? alloc_small(size) : alloc_large(size);
    return h ? h + 1 : NULL;
}

void *mem_zalloc(size_t size)
{
    void *p = mem_alloc(size);

    if (p && ((struct header *) p)[-1].class != CLASSES) /* new mappings are zero */
        memset(p, 0, size);
    return p;
}

static void *remap(struct header *h, size_t size)
{
    size_t was = h->size + sizeof *h, now = ALIGN_UP(size + sizeof *h, (size_t) PAGE), limit = atomic_load(&budget);
    struct header *n;

    if (limit && now > was && atomic_load(&held) + now - was > limit)
        return NULL;
    n = mremap(h, was, now, MREMAP_MAYMOVE);
    if (n == MAP_FAILED)
        return NULL;
    atomic_fetch_add(&held, now - was);
    n->size = now - sizeof *n;
    return n + 1;
}

void *mem_realloc(void *p, size_t size)
{
    struct header *h = p ? (struct header *) p - 1 : NULL;
    void *q;

    if (!p)
        return mem_alloc(size);
    if (size > SIZE_MAX / 2)
        return NULL;
    if (h->class == CLASSES && size > SMALL_MAX)
        return remap(h, size);
    if (size <= h->size && size > h->size / 4)
        return p;
    q = mem_alloc(size);
    if (!q)
        return size <= h->size ? p : NULL;
    memcpy(q, p, MIN(size, h->size));
    mem_free(p);
    return q;
}

void mem_free(void *p)
{
    struct header *h = p ? (struct header *) p - 1 : NULL;
    uint32_t c;

    if (!p)
        return;
    if (h->class == CLASSES) {
        size_t n = h->size + sizeof *h;

        munmap(h, n);
        atomic_fetch_sub(&held, n);
        return;
    }
    c = h->class;
    acquire();
    ((struct piece *) h)->next = free_lists[c];
    free_lists[c] = (struct piece *) h;
    release();
}

/* Test hooks of mem.h: no failures can be injected here. */
void mem_fail_at(unsigned long n, bool sticky)
{
}

unsigned long mem_count(void)
{
    return atomic_load(&n_allocs);
}
