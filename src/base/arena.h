/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bump allocator: many small allocations, freed in one go. One per request, batch or query. Not thread-safe; the
 * owner of an arena also owns everything in it.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdbool.h>

#include "base/macros.h"
#include "base/str.h"

struct arena_chunk {
    struct arena_chunk *next;
    size_t size; /* of data */
    bool out;    /* for the owner of the arena */
    char data[] __attribute__((aligned(16)));
};

/* Where chunks come from, in place of mem_alloc() and mem_free(): put() gets the size that get() got. */
struct arena_source {
    void *(*get)(size_t size);
    void (*put)(void *p, size_t size);
};

struct arena {
    const struct arena_source *source; /* NULL, or set after arena_init() */
    struct arena_chunk *chunk;         /* newest first */
    char *pos, *end;                   /* free part of the newest chunk */
    size_t used;                       /* bytes of all chunks */
    size_t limit;                      /* maximum of used; 0 = no limit */
    bool failed;                       /* an allocation failed since arena_init() or arena_done() */
};

/* limit in bytes over all chunks, 0 for none. Allocates nothing. */
void arena_init(struct arena *a, size_t limit);
/* Frees everything; the arena may be used again. */
void arena_done(struct arena *a);
/* NULL when out of memory or over the limit. align is a power of two. The memory is not cleared. */
void *arena_alloc_aligned(struct arena *a, size_t size, size_t align);
void *arena_zalloc(struct arena *a, size_t size);
/* n * size, overflow checked, cleared. */
void *arena_zalloc_array(struct arena *a, size_t n, size_t size);
/* A copy of n bytes, aligned for any type; NULL when memory runs out. */
void *arena_dup(struct arena *a, const void *p, size_t n);
/* Copies s and appends a NUL, which is not counted in n. {NULL,0} if a non-empty string cannot be copied. */
struct str arena_str(struct arena *a, struct str s);
char *arena_cstr(struct arena *a, struct str s);
char *arena_printf(struct arena *a, const char *fmt, ...) _printf_(2, 3);
/* Gives back the tail of the newest allocation (p, old) so that it has size bytes; a no-op if it is not the newest. */
void arena_trim(struct arena *a, void *p, size_t old, size_t size);

static inline void *arena_alloc(struct arena *a, size_t size)
{
    return arena_alloc_aligned(a, size, 8);
}

#endif
