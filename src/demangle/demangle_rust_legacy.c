/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rust's older mangling: a C++ nested name whose last part is a hash.
 *
 *   _ZN (<length> <identifier>)* 17h <16 hex digits> E
 *
 * Identifiers escape what C++ names cannot hold: $LT$ < $GT$ > $RF$ & $BP$ * $SP$ @ $LP$ ( $RP$ ) $C$ , $uXX$ a byte,
 * ".." is "::", and "_" in front of a leading "$" is dropped. An unknown escape is kept with all that follows it. The
 * hash must have five different digits, else the name may be C++ and is left alone.
 */
#include <errno.h>

#include "base/bytes.h"

#include "demangle/demangle_rust.h"

static bool is_hash(struct str s)
{
    unsigned seen = 0;

    for (uint32_t i = 0; i < s.n; i++) {
        int d = hex_digit_lower(s.p[i]);

        if (d < 0)
            return false;
        seen |= 1u << d;
    }
    return __builtin_popcount(seen) >= 5;
}

/* The length of the escape at the start of s, and the byte that it represents; 0 when there is no escape. */
static uint32_t read_escape(struct str s, char *ret)
{
    static const char codes[][4] = {"SP@", "BP*", "RF&", "LT<", "GT>", "LP(", "RP)"};

    if (s.n > 2 && s.p[1] == 'C' && s.p[2] == '$') {
        *ret = ',';
        return 3;
    }
    if (s.n > 4 && s.p[1] == 'u' && s.p[4] == '$') {
        int hi = hex_digit_lower(s.p[2]), lo = hex_digit_lower(s.p[3]);

        if (hi < 2 || hi > 7 || lo < 0)
            return 0;
        *ret = (char) (hi << 4 | lo);
        return 5;
    }
    if (s.n > 3 && s.p[3] == '$')
        for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
            if (s.p[1] == codes[i][0] && s.p[2] == codes[i][1]) {
                *ret = codes[i][2];
                return 4;
            }
    return 0;
}

static void put_identifier(struct str id, struct buf *out)
{
    if (str_starts(id, STR("_$")))
        id = str_slice(id, 1, id.n);
    while (id.n) {
        char c = id.p[0];
        uint32_t used = 1;

        if (c == '$') {
            used = read_escape(id, &c);
            if (!used) {
                buf_put_str(out, id);
                return;
            }
            buf_putc(out, c);
        } else if (str_starts(id, STR(".."))) {
            used = 2;
            buf_puts(out, "::");
        } else {
            buf_putc(out, c);
        }
        id = str_slice(id, used, id.n);
    }
}

/* Removes one <length> <identifier> from the start of *s. */
static int read_identifier(struct str *s, struct str *ret)
{
    uint32_t n = 0;

    if (s->p[0] < '0' || s->p[0] > '9')
        return -EINVAL;
    while (s->n && s->p[0] >= '0' && s->p[0] <= '9') {
        uint32_t digit = (uint32_t) (s->p[0] - '0');

        if (n >= INT32_MAX / 10 - digit)
            return -EINVAL;
        n = n * 10 + digit;
        *s = str_slice(*s, 1, s->n);
    }
    if (s->n < n)
        return -EINVAL;
    *ret = str_slice(*s, 0, n);
    *s = str_slice(*s, n, s->n);
    return 0;
}

int demangle_rust_legacy(struct str name, struct buf *out)
{
    size_t start = out->n;
    struct str rest = str_slice(name, 3, name.n - 20), id;

    if (!is_hash(str_slice(name, name.n - 17, name.n - 1)))
        return -EINVAL;
    while (rest.n) {
        if (read_identifier(&rest, &id) < 0) {
            out->n = start;
            return -EINVAL;
        }
        if (out->n > start)
            buf_puts(out, "::");
        put_identifier(id, out);
    }
    return buf_error(out);
}
