/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON, both ways.
 *
 * Writing is a few functions over a buf; the caller places commas with json_sep().
 *
 * Reading is a pull parser over bytes in memory: no tree is built, nothing is allocated but the text of strings that
 * hold escapes (from the arena given). The caller walks what it expects:
 *
 *     json_begin_object(&r);
 *     while (json_next_key(&r, &key)) {
 *         if (str_is(key, "name")) name = json_str(&r);
 *         else json_skip(&r);
 *     }
 *     if (json_end(&r) < 0) -> r.err, at byte r.pos
 *
 * Errors stick: after the first one every call returns an empty value and every loop ends. Depth is limited.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* --- writing --- */
/* Quoted and escaped; bytes that are not UTF-8 become U+FFFD; '<' becomes \u003c so that it is safe inside HTML. */
void json_put_str(struct buf *b, struct str s);
void json_put_i64(struct buf *b, int64_t v);
void json_put_u64(struct buf *b, uint64_t v);
void json_put_double(struct buf *b, double v); /* shortest form that reads back equal; NaN and Inf become null */
/* A comma if this is not the first element; call before each. */
static inline void json_sep(struct buf *b, bool *first)
{
    if (!*first)
        buf_putc(b, ',');
    *first = false;
}
/* "key": with the comma before it. */
void json_put_key(struct buf *b, bool *first, const char *key);
/* A key with its value. */
void json_put_key_str(struct buf *b, bool *first, const char *key, struct str v);
void json_put_key_text(struct buf *b, bool *first, const char *key, const char *v);
void json_put_key_i64(struct buf *b, bool *first, const char *key, int64_t v);
void json_put_key_u64(struct buf *b, bool *first, const char *key, uint64_t v);
void json_put_key_double(struct buf *b, bool *first, const char *key, double v);
void json_put_key_bool(struct buf *b, bool *first, const char *key, bool v);
/* A time or duration in nanoseconds, as a decimal string: a double, which browsers read numbers as, would round it. */
void json_put_key_ns(struct buf *b, bool *first, const char *key, int64_t v);

/* --- reading --- */
enum json_type { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT, JSON_ERROR };
enum { JSON_DEPTH_MAX = 128 };

struct json {
    const char *p, *end, *start;
    struct arena *arena;
    int err;          /* 0 or -EINVAL, -ENOMEM */
    const char *what; /* a short description of the error */
    uint8_t depth;
    bool first; /* directly after '[' or '{' */
};

void json_init(struct json *r, struct str text, struct arena *a);
/* What comes next, without consuming it. */
enum json_type json_peek(struct json *r);
/* Objects: begin, then next_key until false (which consumes the '}'). */
void json_begin_object(struct json *r);
bool json_next_key(struct json *r, struct str *ret_key);
/* Arrays: begin, then next_item until false (which consumes the ']'). */
void json_begin_array(struct json *r);
bool json_next_item(struct json *r);
/* The same for items that are kept in a table of max entries, n of which are taken: one more is an error, "too many WHAT
 * (limit MAX)". A loop that ends at a full table by itself would leave the rest of the array unread. */
bool json_next_item_of(struct json *r, size_t n, size_t max, const char *what);
/* Scalars. A number may also be quoted ("12"), as OTLP writes 64-bit ones; null gives zero. */
struct str json_str(struct json *r);
int64_t json_i64(struct json *r);
uint64_t json_u64(struct json *r);
double json_double(struct json *r);
bool json_bool(struct json *r);
struct str json_raw(struct json *r); /* the text of the next value of any type, consumed */
void json_skip(struct json *r);
/* Skips a value by looking only at quotes and brackets: for text that is read later, and checked then. */
void json_skip_unchecked(struct json *r);
/* Only white space may follow. 0 or the error. */
int json_end(struct json *r);
void json_fail(struct json *r, const char *what);
/* Sets e to "WHAT at byte N"; returns r->err. */
int json_error(const struct json *r, struct err *e);

#endif
