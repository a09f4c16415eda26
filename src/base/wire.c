/* SPDX-License-Identifier: Apache-2.0 */
/* Protobuf's wire format (wire.h): the slow paths of reading, error messages, and writing. */
#include "base/wire.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

enum { GROUP_DEPTH_MAX = 32 };

/* --- reading --- */

const uint8_t *wire_tag_slow(const uint8_t *p, const uint8_t *end, uint32_t *ret)
{
    uint64_t tag;

    p = varint_read_slow(p, end, &tag);
    if (!p || tag < 8 || tag > UINT32_MAX)
        return NULL;
    *ret = (uint32_t) tag;
    return p;
}

/* p points after the opening tag. Groups nest, so their tags are kept on a small stack. */
const uint8_t *wire_skip_group(const uint8_t *p, const uint8_t *end, uint32_t tag)
{
    uint32_t open[GROUP_DEPTH_MAX];
    unsigned depth = 0;

    if ((tag & 7) != WIRE_SGROUP)
        return NULL;
    open[depth++] = tag >> 3;
    while (p < end) {
        uint64_t t;
        struct wire_field f;
        const uint8_t *at = p;

        p = varint_read(p, end, &t);
        if (!p || t < 8 || t > UINT32_MAX)
            return NULL;
        if ((t & 7) == WIRE_SGROUP) {
            if (depth == GROUP_DEPTH_MAX)
                return NULL;
            open[depth++] = (uint32_t) (t >> 3);
        } else if ((t & 7) == WIRE_EGROUP) {
            if (open[--depth] != t >> 3)
                return NULL;
            if (!depth)
                return p;
        } else if ((t & 7) > WIRE_I32 || !(p = wire_next(at, end, &f))) {
            return NULL;
        }
    }
    return NULL;
}

/* --- errors --- */

int wire_fail(struct wire_err *w, const uint8_t *at, const char *field, const char *fmt, ...)
{
    va_list ap;

    w->at = at;
    snprintf(w->path, sizeof w->path, "%s", field ? field : "");
    va_start(ap, fmt);
    vsnprintf(w->what, sizeof w->what, fmt, ap);
    va_end(ap);
    return -EINVAL;
}

int wire_malformed(struct wire_err *w, const uint8_t *at, const uint8_t *end)
{
    uint64_t tag, v;
    const uint8_t *p = varint_read(at, end, &tag);

    if (!p)
        return wire_fail(w, at, NULL, end - at < 10 ? "it is cut short in a tag" : "a tag is longer than 10 bytes");
    if (tag < 8 || tag > UINT32_MAX || (tag & 7) > WIRE_I32)
        return wire_fail(w, at, NULL, "%#llx is not a valid field tag", (unsigned long long) tag);
    switch (tag & 7) {
    case WIRE_SGROUP:
    case WIRE_EGROUP:
        return wire_fail(w, at, NULL, "field %u is a group without its end", (unsigned) (tag >> 3));
    case WIRE_LEN:
        p = varint_read(p, end, &v);
        if (p && v > (uint64_t) (end - p))
            return wire_fail(w, at, NULL, "field %u is %llu bytes long, with %td left", (unsigned) (tag >> 3),
                             (unsigned long long) v, end - p);
        /* fall through */
    default:
        return wire_fail(w, at, NULL, "field %u is cut short", (unsigned) (tag >> 3));
    }
}

int wire_path_slow(struct wire_err *w, int r, const char *name, uint32_t index)
{
    char step[96], rest[sizeof w->path];

    if (r != -EINVAL || !w->at)
        return r;
    if (index == WIRE_NO_INDEX)
        snprintf(step, sizeof step, "%s", name);
    else
        snprintf(step, sizeof step, "%s[%u]", name, index);
    memcpy(rest, w->path, sizeof rest);
    if (snprintf(w->path, sizeof w->path, "%s%s%s", step, *rest && *rest != '[' ? "." : "", rest) >=
        (int) sizeof w->path)
        memcpy(w->path, rest, sizeof rest); /* very deep: the innermost part of the path is more useful */
    return r;
}

int wire_report(const struct wire_err *w, const uint8_t *start, int r, const char *what, struct err *e)
{
    if (r != -EINVAL || !w->at)
        return r;
    return err_set(e, r, "%s: byte %td%s%s: %s", what, w->at - start, *w->path ? ", " : "", w->path, w->what);
}

/* --- writing --- */

void wire_put_uint_always(struct buf *b, uint32_t field, uint64_t v)
{
    char *q = wire_room(b, 2 * WIRE_VARINT_MAX), *start = q;

    if (!q)
        return;
    q = wire_raw_varint(q, WIRE_TAG(field, WIRE_VARINT));
    q = wire_raw_varint(q, v);
    b->n += (size_t) (q - start);
}

void wire_put_fixed64_always(struct buf *b, uint32_t field, uint64_t v)
{
    char *q = wire_room(b, WIRE_VARINT_MAX + 8), *start = q;

    if (!q)
        return;
    q = wire_raw_varint(q, WIRE_TAG(field, WIRE_I64));
    q = wire_raw_fixed64(q, v);
    b->n += (size_t) (q - start);
}

void wire_put_bytes_always(struct buf *b, uint32_t field, const void *p, size_t n)
{
    char *q = wire_room(b, 2 * WIRE_VARINT_MAX + n), *start = q;

    if (!q)
        return;
    q = wire_raw_varint(q, WIRE_TAG(field, WIRE_LEN));
    q = wire_raw_varint(q, n);
    if (n)
        memcpy(q, p, n);
    b->n += (size_t) (q - start) + n;
}

void wire_put_packed_u32(struct buf *b, uint32_t field, const uint32_t *v, uint32_t n)
{
    char *q = n ? wire_room(b, WIRE_PACKED_MAX(n, sizeof *v)) : NULL;

    if (q)
        b->n += (size_t) (wire_raw_packed(q, field, v, n, sizeof *v) - q);
}

/* Returns the position of the content and the number of length bytes reserved before it: position << 4 | bytes. */
size_t wire_begin(struct buf *b, uint32_t field, size_t guess)
{
    size_t len = varint_size(guess);
    char *q = wire_room(b, 2 * WIRE_VARINT_MAX), *start = q;

    if (!q)
        return 0;
    q = wire_raw_varint(q, WIRE_TAG(field, WIRE_LEN));
    b->n += (size_t) (q - start) + len;
    return b->n << 4 | len;
}

void wire_end(struct buf *b, size_t begun)
{
    size_t at = begun >> 4, kept = begun & 15, n, len;

    if (b->err)
        return;
    n = b->n - at;
    len = varint_size(n);
    if (len > kept && !buf_reserve(b, len - kept))
        return;
    if (len != kept) {
        memmove(b->p + at - kept + len, b->p + at, n);
        b->n += len - kept;
    }
    wire_raw_varint(b->p + at - kept, n);
}
