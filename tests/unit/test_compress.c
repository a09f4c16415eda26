/* SPDX-License-Identifier: Apache-2.0 */
/* compress.h: round trips, detection, caps, damage. gzip and zlib are checked against zlib itself, zstd against libzstd. */
#include "base/compress.h"

#include <zlib.h>

#include "tap.h"

static const enum compression all[] = {COMPRESS_NONE, COMPRESS_GZIP, COMPRESS_ZLIB, COMPRESS_DEFLATE, COMPRESS_ZSTD};

/* Bytes that compress somewhat: a counter among a repeated phrase. */
static void fill(struct buf *b, size_t n)
{
    for (uint32_t i = 0; b->n < n; i++)
        buf_printf(b, "frame %u calls %u;", i % 97, i * 2654435761u);
    b->n = n;
}

static void test_round_trip(void)
{
    static const size_t sizes[] = {0, 1, 100, 70000, 1 << 20};

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        for (size_t k = 0; k < ARRAY_SIZE(sizes); k++) {
            _cleanup_(buf_done) struct buf plain = BUF_INIT, packed = BUF_INIT, back = BUF_INIT;
            struct err e;

            fill(&plain, sizes[k]);
            buf_puts(&back, "kept");
            eq_int(compress_deflate(all[i], 0, plain.p, plain.n, &packed, &e), 0);
            eq_int(compress_inflate(all[i], packed.p, packed.n, plain.n, &back, &e), 0);
            eq_int(back.n, plain.n + 4);
            ok(memcmp(back.p + 4, plain.p ? plain.p : "", plain.n) == 0);
            if (plain.n) /* one byte less of room is an error and leaves the output alone */
                eq_int(compress_inflate(all[i], packed.p, packed.n, plain.n - 1, &back, &e), -EFBIG);
            eq_int(back.n, plain.n + 4);
            if (all[i] != COMPRESS_DEFLATE && plain.n > 100)
                eq_int(compress_detect(packed.p, packed.n), all[i]);
        }
}

/* What zlib itself makes, several members of it. */
static void test_zlib_peer(void)
{
    _cleanup_(buf_done) struct buf plain = BUF_INIT, packed = BUF_INIT, back = BUF_INIT;
    struct err e;

    fill(&plain, 300000);
    for (int member = 0; member < 3; member++) {
        z_stream z = {0};
        size_t room = 400000;

        ok(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
        z.next_in = (Bytef *) plain.p + member * 100000;
        z.avail_in = 100000;
        z.next_out = (Bytef *) buf_reserve(&packed, room);
        z.avail_out = (uInt) room;
        eq_int(deflate(&z, Z_FINISH), Z_STREAM_END);
        packed.n += z.total_out;
        deflateEnd(&z);
    }
    eq_int(compress_inflate(COMPRESS_GZIP, packed.p, packed.n, 300000, &back, &e), 0);
    ok(back.n == plain.n && memcmp(back.p, plain.p, plain.n) == 0);
    eq_int(compress_inflate(COMPRESS_GZIP, packed.p, packed.n, 250000, &back, &e), -EFBIG);
    buf_puts(&packed, "x");
    eq_int(compress_inflate(COMPRESS_GZIP, packed.p, packed.n, 300000, &back, &e), -EINVAL);
}

/* A bomb: 64 MiB of zeros in some 64 KiB must stop at the cap, not after inflating it all. */
static void test_bomb(void)
{
    _cleanup_(buf_done) struct buf zeros = BUF_INIT;

    buf_pad(&zeros, 0, 64 << 20);
    for (size_t i = 1; i < ARRAY_SIZE(all); i++) {
        _cleanup_(buf_done) struct buf packed = BUF_INIT, back = BUF_INIT;
        struct err e;

        eq_int(compress_deflate(all[i], 0, zeros.p, zeros.n, &packed, &e), 0);
        eq_int(compress_inflate(all[i], packed.p, packed.n, 1 << 20, &back, &e), -EFBIG);
        ok(strstr(e.message, "limit") != NULL);
        ok(back.cap <= 8 << 20);
    }
}

static void test_damage(void)
{
    _cleanup_(buf_done) struct buf plain = BUF_INIT;

    fill(&plain, 5000);
    for (size_t i = 1; i < ARRAY_SIZE(all); i++) {
        _cleanup_(buf_done) struct buf packed = BUF_INIT;
        struct err e;

        compress_deflate(all[i], 0, plain.p, plain.n, &packed, &e);
        for (size_t n = 0; n < packed.n; n += 37) {
            _cleanup_(buf_done) struct buf back = BUF_INIT;

            ok(compress_inflate(all[i], packed.p, n, 1 << 20, &back, &e) < 0);
        }
    }
}

static void test_detect(void)
{
    static const char text[] = "x\x9c is a zlib header, but this is not zlib";
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct err e;

    eq_int(compress_detect("", 0), COMPRESS_NONE);
    eq_int(compress_detect("\x0a\x02\x08\x01", 4), COMPRESS_NONE);
    buf_puts(&b, text);
    eq_int(compress_inflate_detect(&b, 1 << 20, &e), 0);
    eq_str(buf_str(&b), str_from(text));
}

static void test_names(void)
{
    enum compression c;

    eq_int(compress_by_name(STR("gzip"), &c), 0);
    eq_int(c, COMPRESS_GZIP);
    eq_int(compress_by_name(STR("deflate"), &c), 0);
    eq_int(c, COMPRESS_ZLIB);
    eq_int(compress_by_name(STR("br"), &c), -EINVAL);
}

int main(void)
{
    tap_run(test_round_trip);
    tap_run(test_zlib_peer);
    tap_run(test_bomb);
    tap_run(test_damage);
    tap_run(test_detect);
    tap_run(test_names);
    return tap_done();
}
