/* SPDX-License-Identifier: Apache-2.0 */
/* Detects, reads and writes files of OTLP requests (otlp_file.h). */
#include "codec/otlp_file.h"

#include <errno.h>

#include "base/compress.h"
#include "base/json.h"
#include "base/wire.h"
#include "model/batch.h"
#include "model/builder.h"

enum { FRAME_HEADER = 4 };

/* --- detection --- */

/* True if a sequence of frames fills the file exactly. */
static bool looks_framed(const char *p, size_t n)
{
    bool any = false;

    while (n > FRAME_HEADER) {
        uint32_t length = load_be32(p);

        if (!length || length > n - FRAME_HEADER)
            return false;
        p += FRAME_HEADER + (size_t) length;
        n -= FRAME_HEADER + (size_t) length;
        any = true;
    }
    return any && !n;
}

/* Fields 1 and 2, both messages, and no others: a pprof has its strings in field 6. */
static bool looks_protobuf(const uint8_t *p, size_t n)
{
    const uint8_t *end = n ? p + n : p;
    struct wire_field f;

    while (p && p < end) {
        p = wire_next(p, end, &f);
        if (p && f.tag != WIRE_TAG(1, WIRE_LEN) && f.tag != WIRE_TAG(2, WIRE_LEN))
            return false;
    }
    return p && n;
}

static bool looks_json(const char *p, size_t n)
{
    struct arena arena;
    struct json r;
    struct str key;
    bool yes = false;

    arena_init(&arena, 1 << 16);
    json_init(&r, (struct str){p, (uint32_t) MIN(n, (size_t) INT32_MAX)}, &arena);
    if (n && json_peek(&r) == JSON_OBJECT) {
        json_begin_object(&r);
        while (!yes && json_next_key(&r, &key)) {
            yes = str_is(key, "resourceProfiles") || str_is(key, "dictionary");
            json_skip_unchecked(&r);
        }
    }
    arena_done(&arena);
    return yes;
}

enum otlp_file_form otlp_file_detect(const void *p, size_t n)
{
    if (looks_json(p, n))
        return OTLP_FILE_JSON;
    if (looks_framed(p, n))
        return OTLP_FILE_FRAMED;
    return looks_protobuf(p, n) ? OTLP_FILE_PROTOBUF : OTLP_FILE_NONE;
}

/* --- reading --- */

struct otlp_file_reader {
    const struct otlp_limits *limits;
    struct builder *builder; /* from the second request on */
    struct batch *only;      /* the first request, borrowed from the file or owning its inflated bytes */
    uint32_t n;
};

static int take_batch(struct otlp_file_reader *r, struct batch *b)
{
    int rc = 0;

    if (r->n++ == 0) {
        r->only = b;
        return 0;
    }
    if (!r->builder) {
        rc = builder_new(NULL, &r->builder);
        if (rc == 0)
            rc = builder_append(r->builder, r->only);
    }
    if (rc == 0)
        rc = builder_append(r->builder, b);
    batch_unref(b);
    return rc;
}

static int decode_one(struct otlp_file_reader *r, const char *p, size_t n, struct err *e)
{
    struct batch *b;
    int rc = looks_json(p, n) ? otlp_json_decode_borrowed(p, n, r->limits, &b, e)
                              : otlp_decode_borrowed(p, n, r->limits, &b, e);

    return rc < 0 ? rc : take_batch(r, b);
}

/* A request inside a frame, which may be compressed. */
static int decode_frame(struct otlp_file_reader *r, const char *p, size_t n, struct err *e)
{
    size_t limit = r->limits && r->limits->input ? r->limits->input : OTLP_INPUT_MAX;
    enum compression c = compress_detect(p, n);
    _cleanup_(buf_done) struct buf plain = BUF_INIT;
    struct batch *b;
    int rc;

    if (c != COMPRESS_GZIP && c != COMPRESS_ZSTD)
        return decode_one(r, p, n, e);
    rc = compress_inflate(c, p, n, limit, &plain, e);
    if (rc < 0)
        return rc;
    rc = looks_json(plain.p, plain.n) ? otlp_json_decode(&plain, r->limits, &b, e)
                                      : otlp_decode(&plain, r->limits, &b, e);
    return rc < 0 ? rc : take_batch(r, b);
}

static int decode_frames(struct otlp_file_reader *r, const char *p, size_t n, struct err *e)
{
    int rc = 0;

    while (rc == 0 && n > FRAME_HEADER) {
        uint32_t length = load_be32(p);

        rc = decode_frame(r, p + FRAME_HEADER, length, e); /* lengths are valid: looks_framed() checked them */
        p += FRAME_HEADER + (size_t) length;
        n -= FRAME_HEADER + (size_t) length;
    }
    return rc;
}

static int decode_lines(struct otlp_file_reader *r, const char *p, size_t n, struct err *e)
{
    struct arena arena;
    struct json j;
    int rc = 0;

    arena_init(&arena, 0);
    json_init(&j, (struct str){p, (uint32_t) n}, &arena);
    while (rc == 0) {
        const char *from;
        bool stuck;

        while (j.p < j.end && memchr(" \t\r\n", *j.p, 4))
            j.p++;
        if (j.p == j.end)
            break;
        from = j.p;
        json_skip_unchecked(&j);
        stuck = !j.err && j.p == from; /* a stray bracket: skipping does not check, but it must make progress */
        if (stuck)
            json_fail(&j, "expected a request");
        rc = stuck ? 0 : decode_one(r, from, (size_t) ((j.err ? j.end : j.p) - from), e);
        if (rc == 0 && j.err)
            rc = json_error(&j, e);
    }
    arena_done(&arena);
    return rc;
}

static int finish(struct otlp_file_reader *r, struct buf *in, struct batch **ret, struct err *e)
{
    int rc;

    if (!r->builder) {
        if (!r->only->input) /* otherwise it was inflated and owns its bytes */
            otlp_own(r->only, in);
        buf_done(in);
        *ret = TAKE(r->only);
        return 0;
    }
    rc = builder_finish(r->builder, ret, e);
    if (rc == 0)
        buf_done(in);
    return rc;
}

int otlp_file_decode(struct buf *in, const struct otlp_limits *limits, struct batch **ret, struct err *e)
{
    struct otlp_file_reader r = {.limits = limits};
    enum otlp_file_form form = otlp_file_detect(in->p, in->n);
    int rc;

    if (in->n > INT32_MAX)
        return err_set(e, -EFBIG, "a file of %zu bytes is too large", in->n);
    if (form == OTLP_FILE_FRAMED)
        rc = decode_frames(&r, in->p, in->n, e);
    else if (form == OTLP_FILE_JSON)
        rc = decode_lines(&r, in->p, in->n, e);
    else if (form == OTLP_FILE_PROTOBUF)
        rc = decode_one(&r, in->p, in->n, e);
    else
        rc = err_set(e, -EINVAL, "not OTLP profiles");
    if (rc < 0 && r.n)
        err_prefix(e, rc, "request %u: ", r.n + 1);
    if (rc == 0)
        rc = finish(&r, in, ret, e);
    builder_free(r.builder);
    batch_unref(r.only);
    return rc;
}

/* --- writing --- */

int otlp_file_encode(enum otlp_file_form form, const struct batch *b, struct buf *out, struct err *e)
{
    size_t start = out->n, n;
    int r;

    if (form == OTLP_FILE_JSON) {
        r = otlp_json_encode(b, out, e);
        buf_putc(out, '\n');
        return r < 0 ? r : buf_error(out);
    }
    if (form == OTLP_FILE_FRAMED)
        buf_put(out, "\0\0\0\0", FRAME_HEADER);
    r = otlp_encode(b, NULL, out, e);
    if (r < 0) {
        out->n = start;
        return r;
    }
    n = out->n - start - FRAME_HEADER;
    for (int i = 0; form == OTLP_FILE_FRAMED && i < FRAME_HEADER; i++)
        out->p[start + (size_t) i] = (char) (n >> (24 - 8 * i));
    return 0;
}
