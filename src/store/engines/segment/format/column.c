/* SPDX-License-Identifier: Apache-2.0 */
/* Compresses and decompresses single columns of a chunk; see column.h. */
#include "store/engines/segment/format/column.h"

#include <errno.h>
#include <pthread.h>

enum { AS_IS, ZSTD, REPEATED, TRY_ZSTD_FROM = 24 };

static _Thread_local ZSTD_DCtx *own_zstd;
static pthread_key_t zstd_key;
static pthread_once_t zstd_once = PTHREAD_ONCE_INIT;

static void zstd_free(void *p)
{
    ZSTD_freeDCtx(p);
}

static void zstd_init(void)
{
    pthread_key_create(&zstd_key, zstd_free);
}

ZSTD_DCtx *column_zstd(void)
{
    if (!own_zstd) {
        pthread_once(&zstd_once, zstd_init);
        own_zstd = ZSTD_createDCtx();
        pthread_setspecific(zstd_key, own_zstd);
    }
    return own_zstd;
}

static bool is_repeated(const char *p, size_t n)
{
    return n && memcmp(p, p + 1, n - 1) == 0;
}

void column_put(ZSTD_CCtx *z, struct buf *out, const struct buf *column, int level)
{
    const char *p = column->p ? column->p : "";
    size_t n = column->n, bound = ZSTD_compressBound(n), packed = 0;
    char *room;

    if (buf_error(column) < 0) {
        buf_fail(out, buf_error(column));
        return;
    }
    if (is_repeated(p, n)) {
        put_varint(out, (uint64_t) n << 2 | REPEATED);
        buf_put(out, p, 1);
        return;
    }
    room = n >= TRY_ZSTD_FROM ? buf_reserve(out, bound + 20) : NULL;
    if (room) {
        packed = ZSTD_compressCCtx(z, room + 20, bound, p, n, level);
        if (ZSTD_isError(packed))
            packed = 0;
    }
    if (packed && packed + 2 < n) {
        put_varint(out, (uint64_t) n << 2 | ZSTD);
        put_varint(out, packed);
        memmove(out->p + out->n, room + 20, packed); /* space was reserved above */
        out->n += packed;
        return;
    }
    put_varint(out, (uint64_t) n << 2 | AS_IS);
    buf_put(out, p, n);
}

static struct cursor fail(struct cursor *r)
{
    r->bad = true;
    r->p = r->end;
    return (struct cursor){r->end, r->end, true};
}

struct cursor column_get(struct cursor *r, struct arena *a)
{
    uint64_t head = get_varint(r), n = head >> 2, packed;
    const unsigned char *from;
    unsigned char *to;

    if (r->bad || n > COLUMN_MAX)
        return fail(r);
    switch (head & 3) {
    case AS_IS:
        from = get_raw(r, n);
        return from ? (struct cursor){from, from + n, false} : fail(r);
    case REPEATED:
        from = get_raw(r, 1);
        to = from ? arena_alloc(a, n + 1) : NULL;
        if (!to)
            return fail(r);
        memset(to, *from, n);
        return (struct cursor){to, to + n, false};
    case ZSTD:
        packed = get_varint(r);
        from = packed <= COLUMN_MAX ? get_raw(r, packed) : NULL;
        to = from ? arena_alloc(a, n + 1) : NULL;
        a->failed |= !column_zstd();
        if (!to || !column_zstd() || ZSTD_decompressDCtx(column_zstd(), to, n, from, packed) != n)
            return fail(r);
        return (struct cursor){to, to + n, false};
    default:
        return fail(r);
    }
}

void column_skip(struct cursor *r)
{
    uint64_t head = get_varint(r), n = head >> 2;

    if ((head & 3) == ZSTD)
        n = get_varint(r);
    else if ((head & 3) == REPEATED)
        n = 1;
    if (n > COLUMN_MAX)
        r->bad = true;
    else
        get_raw(r, n);
}
