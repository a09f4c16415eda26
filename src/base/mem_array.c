/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of mem.h that are built on mem_alloc() and mem_realloc(), shared by both allocators: base/mem.c and
 * libwick's sdk/mem_sdk.c. */
#include <errno.h>
#include <string.h>

#include "base/mem.h"

void *mem_zalloc_array(size_t n, size_t size)
{
    size_t total;

    if (__builtin_mul_overflow(n, size, &total))
        return NULL;
    return mem_zalloc(total);
}

void *mem_realloc_array(void *p, size_t n, size_t size)
{
    size_t total;

    if (__builtin_mul_overflow(n, size, &total))
        return NULL;
    return mem_realloc(p, total);
}

char *mem_strdup(const char *s)
{
    return mem_dup(s, strlen(s) + 1);
}

void *mem_dup(const void *p, size_t size)
{
    void *q = mem_alloc(size);

    if (q && size)
        memcpy(q, p, size);
    return q;
}

int mem_grow(void *p, size_t *cap, size_t need, size_t elem, size_t limit)
{
    size_t n = *cap ? *cap : 16;
    void *q;

    if (need <= *cap)
        return 0;
    if (need > limit)
        return -E2BIG;
    while (n < need)
        n += n / 2 + 16;
    if (n > limit)
        n = limit;
    memcpy(&q, p, sizeof q); /* the pointer has a type of its own: reading it as void * would break aliasing */
    q = mem_realloc_array(q, n, elem);
    if (!q)
        return -ENOMEM;
    memcpy(p, &q, sizeof q);
    *cap = n;
    return 0;
}
