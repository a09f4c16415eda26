/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growable byte buffer with a limit. Writers do not check each call: the first failure (out of memory, over the
 * limit) is kept in `err`, later writes do nothing, and the owner checks once at the end with buf_error().
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <string.h>

#include "base/macros.h"
#include "base/str.h"

struct buf {
    char *p;
    size_t n, cap;
    size_t limit; /* 0 = no limit */
    int err;      /* sticky negative errno */
};

#define BUF_INIT ((struct buf){0})

void buf_init(struct buf *b, size_t limit);
void buf_done(struct buf *b);  /* frees; also the cleanup: _cleanup_(buf_done) struct buf b = BUF_INIT; */
void buf_reset(struct buf *b); /* empties it, keeps the memory, clears the error */
/* Reserves n more bytes without counting them: write them, then add to b->n. NULL after a failure. */
char *buf_reserve(struct buf *b, size_t n);
void buf_put_slow(struct buf *b, const void *p, size_t n);
void buf_printf(struct buf *b, const char *fmt, ...) _printf_(2, 3);
void buf_pad(struct buf *b, char c, size_t n);

static inline int buf_error(const struct buf *b)
{
    return b->err;
}

/* Sets the error, unless there is one already. */
static inline void buf_fail(struct buf *b, int r)
{
    if (!b->err)
        b->err = r;
}

static inline void buf_put(struct buf *b, const void *p, size_t n)
{
    if (likely(n <= b->cap - b->n && b->cap >= b->n && n && !b->err)) {
        memcpy(b->p + b->n, p, n);
        b->n += n;
    } else if (n) {
        buf_put_slow(b, p, n);
    }
}

/* Appends the content of another; its error becomes this one's. */
static inline void buf_put_buf(struct buf *b, const struct buf *from)
{
    if (unlikely(from->err))
        buf_fail(b, from->err);
    buf_put(b, from->p, from->n);
}

static inline void buf_putc(struct buf *b, char c)
{
    if (likely(b->n < b->cap && !b->err))
        b->p[b->n++] = c;
    else
        buf_put_slow(b, &c, 1);
}

static inline void buf_puts(struct buf *b, const char *s)
{
    buf_put(b, s, strlen(s));
}

static inline void buf_put_str(struct buf *b, struct str s)
{
    buf_put(b, s.p, s.n);
}

static inline struct str buf_str(const struct buf *b)
{
    return (struct str){b->p, (uint32_t) b->n};
}

/* The bytes followed by a NUL (not counted), or NULL after a failure. Valid until the next write. */
char *buf_cstr(struct buf *b);
/* Hands the memory over (to be freed with mem_free) and leaves the buffer empty. */
char *buf_take(struct buf *b, size_t *ret_n);

#endif
