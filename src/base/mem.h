/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All heap allocation of wick goes through here, so that a test can make the n-th one fail (mem_fail_at) and count
 * what is live. The SDK links mem_sdk.c instead, which never calls malloc.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdbool.h>

#include "base/macros.h"

/* NULL if there is no memory (or a test injects a failure); size 0 returns a unique pointer. */
void *mem_alloc(size_t size);
void *mem_zalloc(size_t size);
/* n * size with overflow checked. */
void *mem_zalloc_array(size_t n, size_t size);
/* As realloc; on failure the old block stays. */
void *mem_realloc(void *p, size_t size);
void *mem_realloc_array(void *p, size_t n, size_t size);
char *mem_strdup(const char *s);
void *mem_dup(const void *p, size_t size);
void mem_free(void *p);

/* A block that will be filled from end to end: if it is large enough, it is backed by huge pages, which avoids most of
 * the page faults of its first use. */
void *mem_alloc_block(size_t size);

/* Makes room for `need` elements of `elem` bytes in a growing array: p is the address of the pointer to it, *cap its
 * capacity. Returns 0, -ENOMEM, or -E2BIG over the limit. Callers that know the type use the two macros below. */
int mem_grow(void *p, size_t *cap, size_t need, size_t elem, size_t limit);

/* Makes room for `need` elements in the array v with room for `cap`, which may be a variable of any unsigned type: the
 * limit is never more than it can hold. Returns what mem_grow() does. */
#define array_reserve(v, cap, need, limit)                                                  \
    ({                                                                                      \
        size_t array_need_ = (need), array_cap_ = (cap), array_limit_ = (limit);            \
        int array_r_ = 0;                                                                   \
        if (unlikely(array_need_ > array_cap_)) {                                           \
            if (array_limit_ > (__typeof__(cap)) -1)                                        \
                array_limit_ = (__typeof__(cap)) -1;                                        \
            array_r_ = mem_grow(&(v), &array_cap_, array_need_, sizeof *(v), array_limit_); \
            (cap) = (__typeof__(cap)) array_cap_;                                           \
        }                                                                                   \
        array_r_;                                                                           \
    })

/* Appends a value (the last argument, of the type of the elements) to the array v of n elements. On failure nothing
 * changes, and the result is that of mem_grow(). */
#define array_push(v, n, cap, limit, ...)                                   \
    ({                                                                      \
        __typeof__(*(v)) array_value_ = __VA_ARGS__;                        \
        int array_pushed_ = array_reserve(v, cap, (size_t) (n) + 1, limit); \
        if (likely(array_pushed_ >= 0))                                     \
            (v)[(n)++] = array_value_;                                      \
        array_pushed_;                                                      \
    })

/* How many allocations of the calling thread have failed so far. For operations that print many short texts into buffers:
 * rather than looking at each buffer, they compare the number before and after, and fail as a whole. */
unsigned long mem_failures(void);

/* Test hooks: the n-th allocation from now (1 = next) fails, and all after it if sticky. 0 turns it off. */
void mem_fail_at(unsigned long n, bool sticky);
unsigned long mem_count(void); /* allocations made since the start of this process */

static inline void mem_freep(void *p)
{
    mem_free(*(void **) p);
}

#endif
