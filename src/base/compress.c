/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compression and decompression over whole buffers (compress.h). libdeflate needs the whole output in one block: the
 * first guess is the size in gzip's trailer (bounded by deflate's best ratio, since it may be wrong), and each failure
 * for lack of room quadruples it up to the limit.
 */
#include "base/compress.h"

#include <errno.h>
#include <libdeflate.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/bytes.h"
#include "base/mem.h"

enum { RATIO_MAX = 1032, GUESS_RATIO = 4, GUESS_MIN = 4096, GZIP_MIN = 18, ZSTD_WINDOW_LOG_MIN = 23 };

static const struct {
    const char *name;
    enum compression c;
} names[] = {
    {"gzip", COMPRESS_GZIP}, {"x-gzip", COMPRESS_GZIP}, {"deflate", COMPRESS_ZLIB},  {"zlib", COMPRESS_ZLIB},
    {"zstd", COMPRESS_ZSTD}, {"", COMPRESS_NONE},       {"identity", COMPRESS_NONE}, {"none", COMPRESS_NONE},
};

int compress_by_name(struct str name, enum compression *ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (str_is(name, names[i].name)) {
            *ret = names[i].c;
            return 0;
        }
    return -EINVAL;
}

const char *compress_name(enum compression c)
{
    static const char *const of[] = {"identity", "gzip", "deflate", "deflate", "zstd"};

    return of[c];
}

enum compression compress_detect(const void *p, size_t n)
{
    const unsigned char *b = p;

    if (n >= 3 && b[0] == 0x1f && b[1] == 0x8b && b[2] == 8)
        return COMPRESS_GZIP;
    if (n >= 4 && b[0] == 0x28 && b[1] == 0xb5 && b[2] == 0x2f && b[3] == 0xfd)
        return COMPRESS_ZSTD;
    /* CMF: method 8, window <= 32 KiB; FLG: checksum, no preset dictionary; then a block type below 3. */
    if (n >= 8 && (b[0] & 0x0f) == 8 && b[0] >> 4 <= 7 && ((b[0] << 8) | b[1]) % 31 == 0 && !(b[1] & 0x20) &&
        (b[2] >> 1 & 3) != 3)
        return COMPRESS_ZLIB;
    return COMPRESS_NONE;
}

/* --- inflating --- */

static int too_large(size_t limit, struct err *e)
{
    return err_set(e, -EFBIG, "the data decompresses to more than the limit of %zu bytes", limit);
}

/* What is left of the compressed data. */
struct deflated {
    struct libdeflate_decompressor *d;
    enum compression c;
    const char *p;
    size_t n;
};

static enum libdeflate_result inflate_step(const struct deflated *in, void *out, size_t room, size_t *ret_in,
                                           size_t *ret_out)
{
    switch (in->c) {
    case COMPRESS_GZIP:
        return libdeflate_gzip_decompress_ex(in->d, in->p, in->n, out, room, ret_in, ret_out);
    case COMPRESS_ZLIB:
        return libdeflate_zlib_decompress_ex(in->d, in->p, in->n, out, room, ret_in, ret_out);
    default:
        return libdeflate_deflate_decompress_ex(in->d, in->p, in->n, out, room, ret_in, ret_out);
    }
}

static size_t guess_size(enum compression c, const unsigned char *p, size_t n)
{
    size_t guess = MAX((size_t) GUESS_MIN, n * GUESS_RATIO);

    if (c == COMPRESS_GZIP && n >= GZIP_MIN) {
        uint32_t said = load_u32(p + n - 4);

        guess = said <= n * RATIO_MAX ? MAX(said, (uint32_t) GUESS_MIN) : guess;
    }
    return guess;
}

/* Inflates one gzip member or zlib stream and moves `in` after it. */
static int inflate_member(struct deflated *in, size_t limit, struct buf *out, struct err *e)
{
    size_t room = MIN(guess_size(in->c, (const unsigned char *) in->p, in->n), limit), used, got;

    for (;; room = room > limit / 4 ? limit : room * 4) {
        char *at = buf_reserve(out, MAX(room, (size_t) 1));
        enum libdeflate_result r;

        if (!at)
            return err_set(e, buf_error(out), "out of memory while decompressing");
        r = inflate_step(in, at, room, &used, &got);
        if (r == LIBDEFLATE_SUCCESS) {
            out->n += got;
            in->p += used;
            in->n -= used;
            return 0;
        }
        if (r != LIBDEFLATE_INSUFFICIENT_SPACE)
            return err_set(e, -EINVAL, "the %s data is corrupt or truncated", compress_name(in->c));
        if (room >= limit)
            return too_large(limit, e);
    }
}

static int inflate_deflate(enum compression c, const char *p, size_t n, size_t limit, struct buf *out, struct err *e)
{
    struct deflated in = {libdeflate_alloc_decompressor(), c, p, n};
    size_t start = out->n;
    int r = 0;

    if (!in.d)
        return -ENOMEM;
    do
        r = inflate_member(&in, limit - (out->n - start), out, e);
    while (r == 0 && in.n && c == COMPRESS_GZIP && compress_detect(in.p, in.n) == COMPRESS_GZIP);
    libdeflate_free_decompressor(in.d);
    if (r == 0 && in.n)
        return err_set(e, -EINVAL, "%zu unexpected bytes after the end of the %s data", in.n, compress_name(c));
    return r;
}

/* The header of a zlib stream: method 8 and a checksum over two bytes. */
static bool has_zlib_header(const unsigned char *p, size_t n)
{
    return n >= 2 && (p[0] & 0x0f) == 8 && ((p[0] << 8) | p[1]) % 31 == 0;
}

static int zstd_window_log(size_t limit)
{
    int log = ZSTD_WINDOW_LOG_MIN;

    while (log < 27 && ((size_t) 1 << log) < limit)
        log++;
    return log;
}

static int zstd_stream(ZSTD_DCtx *d, const void *p, size_t n, size_t limit, struct buf *out, struct err *e)
{
    ZSTD_inBuffer in = {p, n, 0};
    size_t start = out->n, left = 1;

    ZSTD_DCtx_setParameter(d, ZSTD_d_windowLogMax, zstd_window_log(limit));
    while (in.pos < in.size || left) {
        /* One byte more than the limit, so that a stream of exactly `limit` bytes can end without more room. */
        size_t room = MIN(MAX(n * GUESS_RATIO, ZSTD_DStreamOutSize()), limit - (out->n - start) + 1);
        char *at = buf_reserve(out, room);
        ZSTD_outBuffer o = {at, room, 0};
        size_t before = in.pos;

        if (!at)
            return err_set(e, buf_error(out), "out of memory while decompressing");
        left = ZSTD_decompressStream(d, &o, &in);
        if (ZSTD_isError(left))
            return err_set(e, -EINVAL, "the zstd data is corrupt: %s", ZSTD_getErrorName(left));
        out->n += o.pos;
        if (out->n - start > limit)
            return too_large(limit, e);
        if (left && in.pos == in.size && in.pos == before && o.pos < room)
            return err_set(e, -EINVAL, "the zstd data is truncated");
    }
    return 0;
}

static int inflate_zstd(const void *p, size_t n, size_t limit, struct buf *out, struct err *e)
{
    unsigned long long size = ZSTD_getFrameContentSize(p, n);
    size_t frame = ZSTD_findFrameCompressedSize(p, n);
    ZSTD_DCtx *d = ZSTD_createDCtx();
    int r = 0;

    if (!d)
        return -ENOMEM;
    if (size < ZSTD_CONTENTSIZE_ERROR && size > limit) {
        r = too_large(limit, e);
    } else if (size < ZSTD_CONTENTSIZE_ERROR && frame == n) { /* one frame of known size: no intermediate copy */
        char *at = buf_reserve(out, MAX(size, 1ull));
        size_t got = at ? ZSTD_decompressDCtx(d, at, size, p, n) : 0;

        if (!at)
            r = err_set(e, buf_error(out), "out of memory while decompressing");
        else if (ZSTD_isError(got))
            r = err_set(e, -EINVAL, "the zstd data is corrupt: %s", ZSTD_getErrorName(got));
        else
            out->n += got;
    } else {
        r = zstd_stream(d, p, n, limit, out, e);
    }
    ZSTD_freeDCtx(d);
    return r;
}

int compress_inflate(enum compression c, const void *p, size_t n, size_t limit, struct buf *out, struct err *e)
{
    size_t start = out->n;
    int r;

    if (c == COMPRESS_ZLIB && !has_zlib_header(p, n))
        c = COMPRESS_DEFLATE;
    if (c == COMPRESS_NONE) {
        if (n > limit)
            return err_set(e, -EFBIG, "%zu bytes are more than the limit of %zu", n, limit);
        buf_put(out, p, n);
        r = buf_error(out);
    } else if (c == COMPRESS_ZSTD) {
        r = inflate_zstd(p, n, limit, out, e);
    } else {
        r = inflate_deflate(c, p, n, limit, out, e);
    }
    if (r < 0)
        out->n = start;
    return r;
}

int compress_inflate_detect(struct buf *in, size_t limit, struct err *e)
{
    enum compression c = compress_detect(in->p, in->n);
    struct buf out;
    int r;

    if (c == COMPRESS_NONE)
        return 0;
    buf_init(&out, 0);
    r = compress_inflate(c, in->p, in->n, limit, &out, e);
    if (r == -EINVAL && c == COMPRESS_ZLIB) { /* bytes that looked like a zlib header by chance */
        buf_done(&out);
        return 0;
    }
    if (r < 0) {
        buf_done(&out);
        return r;
    }
    out.limit = in->limit;
    buf_done(in);
    *in = out;
    return 0;
}

/* --- deflating --- */

static int deflate_with(struct libdeflate_compressor *d, enum compression c, const void *p, size_t n, struct buf *out,
                        struct err *e)
{
    size_t bound, got;
    char *at;

    if (c == COMPRESS_GZIP)
        bound = libdeflate_gzip_compress_bound(d, n);
    else if (c == COMPRESS_ZLIB)
        bound = libdeflate_zlib_compress_bound(d, n);
    else
        bound = libdeflate_deflate_compress_bound(d, n);
    at = buf_reserve(out, bound);
    if (!at)
        return err_set(e, buf_error(out), "out of memory while compressing");
    if (c == COMPRESS_GZIP)
        got = libdeflate_gzip_compress(d, p, n, at, bound);
    else if (c == COMPRESS_ZLIB)
        got = libdeflate_zlib_compress(d, p, n, at, bound);
    else
        got = libdeflate_deflate_compress(d, p, n, at, bound);
    out->n += got;
    return 0;
}

static int deflate_zstd(int level, const void *p, size_t n, struct buf *out, struct err *e)
{
    size_t bound = ZSTD_compressBound(n), got;
    char *at = buf_reserve(out, bound);

    if (!at)
        return err_set(e, buf_error(out), "out of memory while compressing");
    got = ZSTD_compress(at, bound, p, n, level ? level : 1);
    if (ZSTD_isError(got))
        return err_set(e, -ENOMEM, "zstd: %s", ZSTD_getErrorName(got));
    out->n += got;
    return 0;
}

int compress_deflate(enum compression c, int level, const void *p, size_t n, struct buf *out, struct err *e)
{
    struct libdeflate_compressor *d;
    int r;

    if (c == COMPRESS_NONE) {
        buf_put(out, p, n);
        return buf_error(out);
    }
    if (c == COMPRESS_ZSTD)
        return deflate_zstd(level, p, n, out, e);
    d = libdeflate_alloc_compressor(level ? MIN(level, 12) : 6);
    if (!d)
        return err_set(e, -ENOMEM, "out of memory while compressing");
    r = deflate_with(d, c, p, n, out, e);
    libdeflate_free_compressor(d);
    return r;
}
