/* SPDX-License-Identifier: Apache-2.0 */
/* The bump allocator of arena.h. Chunks double from 4 KiB to 1 MiB; a larger allocation gets a chunk of its own. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

enum { CHUNK_FIRST = 4096, CHUNK_MAX = 1 << 20 };

void arena_init(struct arena *a, size_t limit)
{
    *a = (struct arena){.limit = limit};
}

void arena_done(struct arena *a)
{
    struct arena_chunk *c = a->chunk, *next;

    for (; c; c = next) {
        next = c->next;
        if (a->source)
            a->source->put(c, sizeof *c + c->size);
        else
            mem_free(c);
    }
    *a = (struct arena){.source = a->source, .limit = a->limit};
}

static struct arena_chunk *chunk_new(struct arena *a, size_t size)
{
    struct arena_chunk *c = NULL;
    size_t total;

    if (!__builtin_add_overflow(size, sizeof *c, &total) &&
        (!a->limit || (total <= a->limit && a->used <= a->limit - total)))
        c = a->source ? a->source->get(total) : mem_alloc(total);
    if (!c) {
        a->failed = true;
        return NULL;
    }
    c->size = size;
    c->out = false;
    a->used += total;
    return c;
}

static void *alloc_slow(struct arena *a, size_t size, size_t align)
{
    size_t want = a->chunk ? MIN(a->chunk->size * 2, (size_t) CHUNK_MAX) : CHUNK_FIRST;
    struct arena_chunk *c;

    if (size >= want / 2 && a->chunk) { /* its own chunk, placed after the newest, whose free part stays in use */
        c = chunk_new(a, size + align);
        if (!c)
            return NULL;
        c->next = a->chunk->next;
        a->chunk->next = c;
        return (void *) ALIGN_UP((uintptr_t) c->data, align);
    }
    c = chunk_new(a, MAX(want, size + align));
    if (!c)
        return NULL;
    c->next = a->chunk;
    a->chunk = c;
    a->pos = c->data;
    a->end = c->data + c->size;
    return arena_alloc_aligned(a, size, align);
}

void *arena_alloc_aligned(struct arena *a, size_t size, size_t align)
{
    uintptr_t p = ALIGN_UP((uintptr_t) a->pos, align);

    if (unlikely(!a->chunk || p > (uintptr_t) a->end || size > (uintptr_t) a->end - p)) {
        if (size <= SIZE_MAX / 2)
            return alloc_slow(a, size, align);
        a->failed = true;
        return NULL;
    }
    a->pos = (char *) p + size;
    return (void *) p;
}

void *arena_zalloc(struct arena *a, size_t size)
{
    void *p = arena_alloc(a, size);

    if (p)
        memset(p, 0, size);
    return p;
}

void *arena_zalloc_array(struct arena *a, size_t n, size_t size)
{
    size_t total;

    if (__builtin_mul_overflow(n, size, &total))
        total = SIZE_MAX;
    return arena_zalloc(a, total);
}

char *arena_cstr(struct arena *a, struct str s)
{
    char *p = arena_alloc_aligned(a, (size_t) s.n + 1, 1);

    if (!p)
        return NULL;
    if (s.n)
        memcpy(p, s.p, s.n);
    p[s.n] = 0;
    return p;
}

void *arena_dup(struct arena *a, const void *p, size_t n)
{
    void *copy = arena_alloc(a, n);

    if (copy && n)
        memcpy(copy, p, n);
    return copy;
}

struct str arena_str(struct arena *a, struct str s)
{
    char *p = arena_cstr(a, s);

    return p ? (struct str){p, s.n} : (struct str){0};
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap;
    char *p;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        return NULL;
    p = arena_alloc_aligned(a, (size_t) n + 1, 1);
    if (!p)
        return NULL;
    va_start(ap, fmt);
    vsnprintf(p, (size_t) n + 1, fmt, ap);
    va_end(ap);
    return p;
}

void arena_trim(struct arena *a, void *p, size_t old, size_t size)
{
    if ((char *) p + old == a->pos && size <= old)
        a->pos = (char *) p + size;
}
