/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rust's v0 mangling (RFC 2603), a recursive descent that writes while it reads:
 *
 *   symbol  = "_R" path [path of the instantiating crate]
 *   path    = C ident | M impl type | X impl type path | Y type path | N ns path ident | I path arg* E | B base62
 *   type    = a…z (basic) | path | A type const | S type | T type* E | R/Q [L base62] type | P/O type | F fn | D dyn
 *   const   = type hex* "_" | p | B base62
 *   ident   = [s base62] [u] decimal ["_"] bytes       u: punycode
 *   base62  = [0-9a-zA-Z]* "_"                         "_" is 0, "0_" is 1
 *
 * `skip` turns writing off for parts that are read but not shown; back references are not followed then. The first
 * error sets `failed` and empties the input, so that every loop ends.
 */
#include "demangle/demangle_rust.h"

#include <errno.h>
#include <stdio.h>

#include "base/bytes.h"
#include "base/wrap.h"
#include "demangle/demangle.h"
#include "demangle/demangle_rust_reader.h"

static void read_path(struct rust *r, bool separator);
static void read_type(struct rust *r);
static void read_const(struct rust *r);

/* B base62: a back reference, which is read from an earlier position. */
static bool enter_backref(struct rust *r, const char **ret_p, const char **ret_end)
{
    const char *here = r->p;
    int64_t at;

    expect(r, 'B');
    at = read_base62(r);
    if (r->skip || r->failed)
        return false;
    if (at < 0 || at >= here - r->base) {
        fail(r);
        return false;
    }
    *ret_p = r->p;
    *ret_end = r->end;
    r->p = r->base + at;
    r->end = here;
    return true;
}

static void leave_backref(struct rust *r, const char *p, const char *end)
{
    r->end = end;
    r->p = r->failed ? end : p;
}

static void put_lifetime(struct rust *r, int64_t lifetime)
{
    int64_t depth = r->lifetimes - lifetime;

    put_char(r, '\'');
    if (lifetime == 0) {
        put_char(r, '_');
    } else if (depth < 0) {
        fail(r);
    } else if (depth < 26) {
        put_char(r, (char) ('a' + depth));
    } else {
        put_char(r, 'z');
        put_number(r, "%llu", (unsigned long long) (depth - 25));
    }
}

static void read_generic_args(struct rust *r)
{
    bool hold = r->skip;
    unsigned n = 0;

    r->skip |= r->no_generics;
    while (next_item(r, &n, ", ")) {
        if (eat(r, 'L'))
            put_lifetime(r, read_base62(r));
        else if (eat(r, 'K'))
            read_const(r);
        else
            read_type(r);
    }
    r->skip = hold;
}

/* N ns path ident */
static void read_nested(struct rust *r, bool separator)
{
    char ns = peek(r);
    struct ident id;

    if (!((ns >= 'a' && ns <= 'z') || (ns >= 'A' && ns <= 'Z'))) {
        fail(r);
        return;
    }
    r->p++;
    read_path(r, separator);
    id = rust_read_ident(r);
    put_cstr(r, "::");
    if (ns >= 'a') {
        rust_put_ident(r, id);
        return;
    }
    put_char(r, '{');
    if (ns == 'C')
        put_cstr(r, "closure");
    else if (ns == 'S')
        put_cstr(r, "shim");
    else
        put_char(r, ns);
    if (id.text.n) {
        put_char(r, ':');
        rust_put_ident(r, id);
    }
    put_number(r, "#%lld}", (long long) id.disambiguator);
}

/* [disambiguator] path, the location of an impl: not shown. */
static void skip_impl_path(struct rust *r)
{
    bool hold = r->skip;

    r->skip = true;
    read_disambiguator(r);
    read_path(r, false);
    r->skip = hold;
}

static void read_path_inside(struct rust *r, bool separator)
{
    const char *p, *end;
    char c = peek(r);

    if (c == 'B') {
        if (enter_backref(r, &p, &end)) {
            read_path(r, separator);
            leave_backref(r, p, end);
        }
        return;
    }
    if (r->p < r->end)
        r->p++;
    switch (c) {
    case 'C':
        rust_put_ident(r, rust_read_ident(r));
        break;
    case 'M':
    case 'X':
    case 'Y':
        if (c != 'Y')
            skip_impl_path(r);
        put_char(r, '<');
        read_type(r);
        if (c != 'M') {
            put_cstr(r, " as ");
            read_path(r, false);
        }
        put_char(r, '>');
        break;
    case 'N':
        read_nested(r, separator);
        break;
    case 'I':
        read_path(r, separator);
        put_cstr(r, separator ? "::<" : "<");
        read_generic_args(r);
        put_char(r, '>');
        expect(r, 'E');
        break;
    default:
        fail(r);
    }
}

/* separator: "::" goes before generic arguments; inside a type it does not. */
static void read_path(struct rust *r, bool separator)
{
    if (enter(r))
        read_path_inside(r, separator);
    r->depth--;
}

static const char *basic_type(char c)
{
    static const char *const names[26] = {
        "i8",   "bool", "char", "f64", "str", "f32", NULL,  "u8", "isize", "usize", NULL,  "i32", "u32",
        "i128", "u128", "_",    NULL,  NULL,  "i16", "u16", "()", "...",   NULL,    "i64", "u64", "!",
    };

    return names[c - 'a'];
}

/* G base62: lifetimes that are bound here. Each must be used later, which bounds their number. */
static void read_binder(struct rust *r)
{
    int64_t more;

    if (!eat(r, 'G'))
        return;
    more = wrap_add(read_base62(r), 1);
    if (more >= r->end - r->p - r->lifetimes)
        fail(r);
    put_cstr(r, "for<");
    while (!r->failed && more-- > 0) {
        r->lifetimes++;
        put_lifetime(r, 1);
        put_cstr(r, more ? ", " : "");
    }
    put_cstr(r, "> ");
}

static void read_abi(struct rust *r)
{
    struct ident id;

    if (eat(r, 'C')) {
        put_cstr(r, "extern \"C\" ");
        return;
    }
    put_cstr(r, "extern \"");
    id = rust_read_plain_ident(r);
    if (id.punycode)
        fail(r);
    for (uint32_t i = 0; i < id.text.n; i++)
        put_char(r, id.text.p[i] == '_' ? '-' : id.text.p[i]);
    put_cstr(r, "\" ");
}

static void read_fn(struct rust *r)
{
    unsigned n = 0;

    read_binder(r);
    if (eat(r, 'U'))
        put_cstr(r, "unsafe ");
    if (eat(r, 'K'))
        read_abi(r);
    put_cstr(r, "fn(");
    while (next_item(r, &n, ", "))
        read_type(r);
    expect(r, 'E');
    put_char(r, ')');
    if (!eat(r, 'u')) {
        put_cstr(r, " -> ");
        read_type(r);
    }
}

/* As a path, but generic arguments are left open for associated types. True when they were opened. */
static bool read_trait_path(struct rust *r)
{
    const char *p, *end;
    bool opened = false;

    if (peek(r) == 'B') {
        if (enter(r) && enter_backref(r, &p, &end)) {
            opened = read_trait_path(r);
            leave_backref(r, p, end);
        }
        r->depth--;
        return opened;
    }
    if (!eat(r, 'I')) {
        read_path(r, false);
        return false;
    }
    read_path(r, false);
    put_char(r, '<');
    read_generic_args(r);
    expect(r, 'E');
    return true;
}

/* A trait with its associated types, which are shown among its generic arguments. */
static void read_dyn_trait(struct rust *r)
{
    bool opened = read_trait_path(r);

    for (; eat(r, 'p'); opened = true) {
        put_cstr(r, opened ? ", " : "<");
        rust_put_ident(r, rust_read_plain_ident(r));
        put_cstr(r, " = ");
        read_type(r);
    }
    if (opened)
        put_char(r, '>');
}

static void read_dyn(struct rust *r)
{
    unsigned n = 0;

    put_cstr(r, "dyn ");
    read_binder(r);
    while (next_item(r, &n, " + "))
        read_dyn_trait(r);
    expect(r, 'E');
}

static void read_dyn_type(struct rust *r)
{
    int64_t hold = r->lifetimes, lifetime;

    read_dyn(r);
    r->lifetimes = hold;
    expect(r, 'L');
    lifetime = read_base62(r);
    if (lifetime > 0) {
        put_cstr(r, r->last != ' ' ? " + " : "+ ");
        put_lifetime(r, lifetime);
    }
}

static void read_tuple(struct rust *r)
{
    unsigned n = 0;

    put_char(r, '(');
    while (next_item(r, &n, ", "))
        read_type(r);
    put_cstr(r, n == 1 ? ",)" : ")");
    expect(r, 'E');
}

static void read_reference(struct rust *r, bool mutable)
{
    put_char(r, '&');
    if (eat(r, 'L')) {
        int64_t lifetime = read_base62(r);

        if (lifetime > 0) {
            put_lifetime(r, lifetime);
            put_char(r, ' ');
        }
    }
    if (mutable)
        put_cstr(r, "mut ");
    read_type(r);
}

static void read_compound_type(struct rust *r, char c)
{
    int64_t hold = r->lifetimes;

    switch (c) {
    case 'A':
    case 'S':
        put_char(r, '[');
        read_type(r);
        if (c == 'A') {
            put_cstr(r, "; ");
            read_const(r);
        }
        put_char(r, ']');
        break;
    case 'T':
        read_tuple(r);
        break;
    case 'R':
    case 'Q':
        read_reference(r, c == 'Q');
        break;
    case 'P':
    case 'O':
        put_cstr(r, c == 'P' ? "*const " : "*mut ");
        read_type(r);
        break;
    case 'F':
        read_fn(r);
        r->lifetimes = hold;
        break;
    case 'D':
        read_dyn_type(r);
        break;
    default:
        fail(r);
    }
}

static void read_type_inside(struct rust *r)
{
    const char *p, *end;
    char c = peek(r);

    if (c >= 'a' && c <= 'z') {
        const char *name = basic_type(c);

        r->p++;
        if (name)
            put_cstr(r, name);
        else
            fail(r);
    } else if (c == 'B') {
        if (enter_backref(r, &p, &end)) {
            read_type(r);
            leave_backref(r, p, end);
        }
    } else if (c && strchr("CMXYNI", c)) {
        read_path(r, false);
    } else {
        if (r->p < r->end)
            r->p++;
        read_compound_type(r, c);
    }
}

static void read_type(struct rust *r)
{
    if (enter(r))
        read_type_inside(r);
    r->depth--;
}

/* The hex digits of a constant with their "_": the value modulo 2^64 and the digits. */
static uint64_t read_hex(struct rust *r, struct str *ret_digits)
{
    const char *start = r->p;
    uint64_t v = 0;

    for (; r->p < r->end; r->p++) {
        char c = *r->p;

        if (c == '_') {
            *ret_digits = (struct str){start, (uint32_t) (r->p - start)};
            r->p++;
            if (ret_digits->n == 0)
                break;
            return v;
        }
        if (hex_digit_lower(c) < 0)
            break;
        if (v == 0 && c == '0' && (r->p + 1 >= r->end || r->p[1] != '_'))
            break; /* leading zero */
        v = v * 16 + (uint64_t) hex_digit_lower(c);
    }
    if (!r->failed && r->p >= r->end && r->p > start) { /* a missing "_" at the very end is accepted */
        *ret_digits = (struct str){start, (uint32_t) (r->p - start)};
        return v;
    }
    fail(r);
    *ret_digits = (struct str){start, 0};
    return 0;
}

static void put_char_const(struct rust *r, uint64_t v)
{
    static const char escapes[][2] = {{'\t', 't'}, {'\r', 'r'}, {'\n', 'n'}, {'\\', '\\'}, {'\'', '\''}};

    put_char(r, '\'');
    for (size_t i = 0; i < ARRAY_SIZE(escapes); i++)
        if (v == (uint64_t) escapes[i][0]) {
            put_char(r, '\\');
            put_char(r, escapes[i][1]);
            put_char(r, '\'');
            return;
        }
    if (v >= ' ' && v <= '~')
        put_char(r, (char) v);
    else
        put_number(r, "\\u{%llx}", (unsigned long long) v);
    put_char(r, '\'');
}

static void put_const(struct rust *r, char type)
{
    struct str digits;
    uint64_t v;

    if (strchr("aslxni", type) && eat(r, 'n'))
        put_char(r, '-');
    v = read_hex(r, &digits);
    if (r->failed)
        return;
    if (type == 'b') {
        if (digits.n > 1 || v > 1)
            fail(r);
        put_cstr(r, v ? "true" : "false");
    } else if (type == 'c') {
        if (digits.n > 6)
            fail(r);
        put_char_const(r, v);
    } else if (digits.n > 16) {
        put_cstr(r, "0x");
        put(r, digits);
    } else {
        put_number(r, "%llu", (unsigned long long) v);
    }
}

static void read_const(struct rust *r)
{
    const char *p, *end;
    char c = peek(r);

    if (enter(r)) {
        if (c == 'B') {
            if (enter_backref(r, &p, &end)) {
                read_const(r);
                leave_backref(r, p, end);
            }
        } else if (eat(r, 'p')) {
            put_char(r, '_');
        } else if (c && strchr("aslxnihtmyojbc", c)) {
            r->p++;
            put_const(r, c);
        } else {
            fail(r);
        }
    }
    r->depth--;
}

int demangle_rust_v0(struct str name, unsigned flags, struct buf *out)
{
    ptrdiff_t dot = str_find_char(name, '.');
    struct rust r = {.out = out, .start = out->n, .no_generics = flags & DEMANGLE_NO_TEMPLATE_PARAMS};

    if (dot >= 0) /* a suffix that LLVM added */
        name.n = (uint32_t) dot;
    r.base = r.p = name.p + 2;
    r.end = name.p + name.n;
    if (name.n < 3)
        return -EINVAL;
    read_path(&r, true);
    if (r.p < r.end) {
        r.skip = true;
        read_path(&r, false);
    }
    if (r.failed || r.p < r.end || buf_error(out)) {
        out->n = r.start;
        return buf_error(out) ? buf_error(out) : -EINVAL;
    }
    return 0;
}
