/* SPDX-License-Identifier: Apache-2.0 */
/* The growable byte buffer of buf.h, with its limit and its sticky error. */
#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"

void buf_init(struct buf *b, size_t limit)
{
    *b = (struct buf){.limit = limit};
}

void buf_done(struct buf *b)
{
    mem_free(b->p);
    buf_init(b, b->limit);
}

void buf_reset(struct buf *b)
{
    b->n = 0;
    b->err = 0;
}

char *buf_reserve(struct buf *b, size_t n)
{
    size_t limit = b->limit ? b->limit : SIZE_MAX / 2, need;
    int r;

    if (b->err)
        return NULL;
    if (__builtin_add_overflow(b->n, n, &need)) {
        b->err = -E2BIG;
        return NULL;
    }
    r = array_reserve(b->p, b->cap, need ? need : 1, limit); // never NULL: that means failure
    if (r < 0) {
        b->err = r;
        return NULL;
    }
    return b->p + b->n;
}

void buf_put_slow(struct buf *b, const void *p, size_t n)
{
    char *q = buf_reserve(b, n);

    if (!q)
        return;
    memcpy(q, p, n);
    b->n += n;
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    size_t room = b->cap - b->n;
    int n;

    if (b->err)
        return;
    va_start(ap, fmt);
    n = vsnprintf(b->p ? b->p + b->n : NULL, room, fmt, ap);
    va_end(ap);
    if (n < 0) {
        b->err = -EINVAL;
        return;
    }
    if ((size_t) n >= room) {
        if (!buf_reserve(b, (size_t) n + 1))
            return;
        va_start(ap, fmt);
        vsnprintf(b->p + b->n, (size_t) n + 1, fmt, ap);
        va_end(ap);
    }
    b->n += (size_t) n;
}

void buf_pad(struct buf *b, char c, size_t n)
{
    char *q = buf_reserve(b, n);

    if (!q)
        return;
    memset(q, c, n);
    b->n += n;
}

char *buf_cstr(struct buf *b)
{
    char *q = buf_reserve(b, 1);

    if (!q)
        return NULL;
    *q = 0;
    return b->p;
}

char *buf_take(struct buf *b, size_t *ret_n)
{
    char *p = b->p;

    if (ret_n)
        *ret_n = b->n;
    b->p = NULL;
    b->n = b->cap = 0;
    return p;
}
