/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protobuf's wire format, used by OTLP, pprof and gRPC's Status. A message is a run of fields:
 *
 *     tag     varint: field number << 3 | type
 *     value   type 0 VARINT  1..10 bytes, 7 bits each, least significant first, 0x80 = more follow
 *             type 1 I64     8 bytes, little-endian
 *             type 2 LEN     varint length, then that many bytes: text, bytes, a message, packed numbers
 *             type 3, 4      a group, obsolete: skipped as a whole
 *             type 5 I32     4 bytes, little-endian
 *
 * Reading is a loop over wire_each() with a switch over whole tags, so that a field of an unexpected type falls into
 * `default` and is skipped like an unknown one:
 *
 *     while (wire_each(w, &p, end, &f, &r)) {
 *         switch (f.tag) {
 *         case WIRE_TAG(1, WIRE_VARINT): x = f.v; break;
 *         case WIRE_TAG(2, WIRE_LEN): r = decode_child(f.data, p); ...
 *         }
 *     }
 *     return r;
 *
 * A repeated number may be packed (one LEN field that holds all of them) or not (one field of the number's own type for
 * each), and senders may mix the two. Both forms have the same bytes between f.data and the position after the field,
 * so one rule reads them: name the field with WIRE_LIST_OF() in the switch and read the numbers in [f.data, p):
 *
 *         case WIRE_LIST_OF(4, WIRE_VARINT): r = decode_numbers(f.data, p, ...); break;
 *
 * Nothing is copied and nothing can be read outside [p, end). Errors name a byte and a path of fields: the innermost
 * function says what is wrong (wire_fail), each caller puts its field in front (wire_path), the outermost makes the
 * error message (wire_report). None of this costs anything as long as there is no error.
 */
#ifndef BASE_WIRE_H
#define BASE_WIRE_H

#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/macros.h"
#include "base/str.h"

enum wire_type { WIRE_VARINT, WIRE_I64, WIRE_LEN, WIRE_SGROUP, WIRE_EGROUP, WIRE_I32 };
#define WIRE_TAG(field, type) ((uint32_t) (field) << 3 | (uint32_t) (type))
/* In a switch: a repeated number of this type, packed or not. The numbers are the bytes [f.data, position after f). */
#define WIRE_LIST_OF(field, type) WIRE_TAG(field, WIRE_LEN) : case WIRE_TAG(field, type)

struct wire_field {
    uint32_t tag;
    uint64_t v;          /* the number, or the length of LEN */
    const uint8_t *data; /* after the tag and, for LEN, the length: the first byte of the value */
    const uint8_t *at;   /* where its tag is */
};

/* --- reading --- */
const uint8_t *wire_tag_slow(const uint8_t *p, const uint8_t *end, uint32_t *ret); /* NULL: no tag */
const uint8_t *wire_skip_group(const uint8_t *p, const uint8_t *end, uint32_t tag);

/* Returns the position after the field at p (p < end), or NULL if it is malformed: see wire_malformed(). */
static inline __attribute__((always_inline)) const uint8_t *wire_next_(const uint8_t *p, const uint8_t *end,
                                                                       struct wire_field *f, bool value)
{
    f->at = p;
    if (likely(*p < 0x80)) {
        f->tag = *p++;
        if (unlikely(f->tag < 8))
            return NULL;
    } else if (unlikely(!(p = wire_tag_slow(p, end, &f->tag)))) {
        return NULL;
    }
    f->data = p;
    switch (f->tag & 7) {
    case WIRE_VARINT:
        return value ? varint_read(p, end, &f->v) : varint_skip(p, end);
    case WIRE_LEN:
        p = varint_read(p, end, &f->v);
        if (unlikely(!p || f->v > (uint64_t) (end - p)))
            return NULL;
        f->data = p;
        return p + f->v;
    case WIRE_I64:
        if (unlikely(end - p < 8))
            return NULL;
        f->v = load_u64(p);
        return p + 8;
    case WIRE_I32:
        if (unlikely(end - p < 4))
            return NULL;
        f->v = load_u32(p);
        return p + 4;
    default:
        return wire_skip_group(p, end, f->tag);
    }
}

static inline __attribute__((always_inline)) const uint8_t *wire_next(const uint8_t *p, const uint8_t *end,
                                                                      struct wire_field *f)
{
    return wire_next_(p, end, f, true);
}

/* As wire_next() where values of VARINT fields are not needed: v is then undefined. */
static inline __attribute__((always_inline)) const uint8_t *wire_next_scan(const uint8_t *p, const uint8_t *end,
                                                                           struct wire_field *f)
{
    return wire_next_(p, end, f, false);
}

/* How many messages of a request or file may be empty: two bytes that stand for an entry of a table. Real senders have
 * one per table, and occasionally one per list. */
enum { WIRE_EMPTY_MAX = 1 << 16 };

static inline struct str wire_str(const struct wire_field *f)
{
    return (struct str){(const char *) f->data, (uint32_t) f->v};
}

static inline uint32_t wire_list_count(const struct wire_field *f, const uint8_t *next)
{
    return varint_count(f->data, (size_t) (next - f->data));
}

/* --- errors --- */
enum { WIRE_NO_INDEX = UINT32_MAX };

struct wire_err {
    const uint8_t *at; /* position, NULL if the error is not caused by the input */
    char path[320];    /* field path from the outermost in, truncated at its beginning if too long */
    char what[192];
};

/* Records the problem with `field` (NULL: with the message itself) at byte `at`. Returns -EINVAL. */
int wire_fail(struct wire_err *w, const uint8_t *at, const char *field, const char *fmt, ...) _printf_(4, 5);
/* Records the problem with the field at `at` that wire_next() refused. Returns -EINVAL. */
int wire_malformed(struct wire_err *w, const uint8_t *at, const uint8_t *end);
int wire_path_slow(struct wire_err *w, int r, const char *name, uint32_t index);

/* Reads the next field of the message [*p, end) and advances *p past it. False at the end, if the caller has set *r, or
 * if the field is malformed; *r is then set. */
static inline __attribute__((always_inline)) bool wire_each_(struct wire_err *w, const uint8_t **p, const uint8_t *end,
                                                             struct wire_field *f, int *r, bool value)
{
    const uint8_t *at = *p;

    if (at >= end || *r != 0)
        return false;
    *p = wire_next_(at, end, f, value);
    if (likely(*p != NULL))
        return true;
    *r = wire_malformed(w, at, end);
    return false;
}

static inline __attribute__((always_inline)) bool wire_each(struct wire_err *w, const uint8_t **p, const uint8_t *end,
                                                            struct wire_field *f, int *r)
{
    return wire_each_(w, p, end, f, r, true);
}

/* As wire_each() where values of VARINT fields are not needed: v is then undefined. */
static inline __attribute__((always_inline)) bool wire_each_scan(struct wire_err *w, const uint8_t **p,
                                                                 const uint8_t *end, struct wire_field *f, int *r)
{
    return wire_each_(w, p, end, f, r, false);
}

/* Puts name[index]. in front of the path when r < 0; returns r. */
static inline int wire_path(struct wire_err *w, int r, const char *name, uint32_t index)
{
    return likely(r >= 0) ? r : wire_path_slow(w, r, name, index);
}
/* Sets e to "WHAT: byte N, PATH: ..." if r is -EINVAL with a position; returns r. */
int wire_report(const struct wire_err *w, const uint8_t *start, int r, const char *what, struct err *e);

/* --- writing --- */
enum { WIRE_VARINT_MAX = 10 };

/* buf_reserve() without a function call if there already is room. */
static inline char *wire_room(struct buf *b, size_t n)
{
    if (likely(b->cap - b->n >= n && b->cap && !b->err))
        return b->p + b->n;
    return buf_reserve(b, n);
}

static inline char *wire_raw_varint(char *q, uint64_t v)
{
    return (char *) varint_write((uint8_t *) q, v);
}

static inline char *wire_raw_fixed64(char *q, uint64_t v)
{
    store_u64(q, v);
    return q + 8;
}

static inline __attribute__((always_inline)) uint64_t wire_list_at(const void *list, uint32_t i, size_t width)
{
    return width == 4 ? ((const uint32_t *) list)[i] : ((const uint64_t *) list)[i];
}

/* A packed list of n > 0 numbers that are 4 or 8 bytes wide in memory; there must be room for WIRE_PACKED_MAX(n, width).
 * Most lists are shorter than 128 bytes: the numbers are written after a length of one byte and moved if it takes
 * more. */
#define WIRE_PACKED_MAX(n, width) (2 * WIRE_VARINT_MAX + (size_t) (n) * ((width) == 4 ? 5 : WIRE_VARINT_MAX))

static inline __attribute__((always_inline)) char *wire_raw_packed(char *q, uint32_t field, const void *list,
                                                                   uint32_t n, size_t width)
{
    char *body;
    size_t size, extra;

    body = q = wire_raw_varint(q, WIRE_TAG(field, WIRE_LEN)) + 1;
    for (uint32_t i = 0; i < n; i++)
        q = wire_raw_varint(q, wire_list_at(list, i, width));
    size = (size_t) (q - body);
    extra = varint_size(size) - 1;
    if (extra)
        memmove(body + extra, body, size);
    wire_raw_varint(body - 1, size);
    return q + extra;
}

static inline char *wire_raw_packed_fixed64(char *q, uint32_t field, const uint64_t *v, uint32_t n)
{
    q = wire_raw_varint(q, WIRE_TAG(field, WIRE_LEN));
    q = wire_raw_varint(q, (uint64_t) n * 8);
    for (uint32_t i = 0; i < n; i++)
        q = wire_raw_fixed64(q, v[i]);
    return q;
}

static inline void wire_put_varint(struct buf *b, uint64_t v)
{
    char *q = wire_room(b, WIRE_VARINT_MAX);

    if (likely(q != NULL))
        b->n += (size_t) (wire_raw_varint(q, v) - q);
}

/* The scalar forms leave out a zero, as proto3 does; wire_put_uint_always() does not (oneof members). */
void wire_put_uint_always(struct buf *b, uint32_t field, uint64_t v);
static inline void wire_put_uint(struct buf *b, uint32_t field, uint64_t v)
{
    if (v)
        wire_put_uint_always(b, field, v);
}
void wire_put_fixed64_always(struct buf *b, uint32_t field, uint64_t v);
static inline void wire_put_fixed64(struct buf *b, uint32_t field, uint64_t v)
{
    if (v)
        wire_put_fixed64_always(b, field, v);
}
void wire_put_bytes_always(struct buf *b, uint32_t field, const void *p, size_t n);
static inline void wire_put_bytes(struct buf *b, uint32_t field, const void *p, size_t n)
{
    if (n)
        wire_put_bytes_always(b, field, p, n);
}
static inline void wire_put_str(struct buf *b, uint32_t field, struct str s)
{
    wire_put_bytes(b, field, s.p, s.n);
}
/* A packed list; an empty one is left out. */
void wire_put_packed_u32(struct buf *b, uint32_t field, const uint32_t *v, uint32_t n);

/* A nested message: begin, write its fields, end. `guess` is the approximate number of bytes that follow; a guess with
 * the right number of length bytes avoids a move. */
size_t wire_begin(struct buf *b, uint32_t field, size_t guess);
void wire_end(struct buf *b, size_t begun);

#endif
