/* SPDX-License-Identifier: Apache-2.0 */
/* Internal header of the demangler of Rust's v0 mangling: reading and writing, shared by the demangle_rust*.c files. */
#ifndef DEMANGLE_DEMANGLE_RUST_READER_H
#define DEMANGLE_DEMANGLE_RUST_READER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/wrap.h"
#include "demangle/demangle.h"

enum { DEPTH_MAX = 500, STEPS_MAX = 1 << 20, IDENT_RUNES_MAX = 1024 };

struct rust {
    const char *base, *p, *end; /* base: after "_R"; back references are relative to it */
    struct buf *out;
    size_t start; /* of our output in out */
    int64_t lifetimes;
    unsigned depth, steps;
    char last;
    bool skip, failed, no_generics;
};

static inline void fail(struct rust *r)
{
    r->failed = true;
    r->p = r->end;
}

static inline char peek(const struct rust *r)
{
    return r->p < r->end ? *r->p : 0;
}

static inline bool eat(struct rust *r, char c)
{
    if (peek(r) != c || r->p >= r->end)
        return false;
    r->p++;
    return true;
}

static inline void expect(struct rust *r, char c)
{
    if (!eat(r, c))
        fail(r);
}

/* Every recursive rule starts with this. */
static inline bool enter(struct rust *r)
{
    if (++r->depth > DEPTH_MAX || ++r->steps > STEPS_MAX || r->out->n - r->start > DEMANGLE_OUTPUT_MAX)
        fail(r);
    return !r->failed;
}

static inline void put(struct rust *r, struct str s)
{
    if (r->skip || s.n == 0)
        return;
    r->last = s.p[s.n - 1];
    buf_put_str(r->out, s);
}

static inline void put_cstr(struct rust *r, const char *s)
{
    put(r, str_from(s));
}

static inline void put_char(struct rust *r, char c)
{
    put(r, (struct str){&c, 1});
}

_printf_(2, 3) static inline void put_number(struct rust *r, const char *fmt, ...)
{
    char text[40];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    put_cstr(r, text);
}

/* Digits up to "_". No digits are 0, and every other number is one more than its digits say. */
static inline int64_t read_base62(struct rust *r)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const char *start = r->p, *digit;
    uint64_t v = 0;

    for (; r->p < r->end && *r->p != '_'; r->p++) {
        digit = memchr(digits, *r->p, sizeof(digits) - 1);
        if (!digit)
            break;
        v = v * 62 + (uint64_t) (digit - digits);
    }
    v += r->p > start;
    expect(r, '_');
    return r->failed ? 0 : (int64_t) v;
}

/* In a list that ends with "E": true if there is another item, after what separates it from the one before. */
static inline bool next_item(struct rust *r, unsigned *n, const char *separator)
{
    if (r->p >= r->end || *r->p == 'E')
        return false;
    if ((*n)++)
        put_cstr(r, separator);
    return true;
}

static inline int64_t read_disambiguator(struct rust *r)
{
    return eat(r, 's') ? wrap_add(read_base62(r), 1) : 0;
}

static inline uint32_t read_decimal(struct rust *r)
{
    uint32_t v = 0;

    if (r->p >= r->end)
        fail(r);
    while (peek(r) >= '0' && peek(r) <= '9') {
        uint32_t digit = (uint32_t) (*r->p++ - '0');

        if (v >= INT32_MAX / 10 - digit) {
            fail(r);
            return 0;
        }
        v = v * 10 + digit;
    }
    return v;
}

/* An identifier: its bytes, and whether they are punycode. */
struct ident {
    struct str text;
    int64_t disambiguator;
    bool punycode;
};

/* demangle_rust_ident.c */
struct ident rust_read_plain_ident(struct rust *r); /* without its disambiguator */
struct ident rust_read_ident(struct rust *r);
void rust_put_ident(struct rust *r, struct ident id);
void rust_put_rune(struct rust *r, uint32_t c);

#endif
