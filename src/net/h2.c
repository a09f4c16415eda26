/* SPDX-License-Identifier: Apache-2.0 */
/* See h2.h. */
#include "net/h2.h"

#include "base/mem.h"

static void *h2_malloc(size_t n, void *arg)
{
    return mem_alloc(n);
}

static void h2_free(void *p, void *arg)
{
    mem_free(p);
}

static void *h2_calloc(size_t n, size_t size, void *arg)
{
    return mem_zalloc_array(n, size);
}

static void *h2_realloc(void *p, size_t n, void *arg)
{
    return mem_realloc(p, n);
}

nghttp2_mem *h2_mem(void)
{
    static nghttp2_mem mem = {NULL, h2_malloc, h2_free, h2_calloc, h2_realloc};

    return &mem;
}
