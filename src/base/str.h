/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A string that it does not own: a pointer and a length, not NUL-terminated, any bytes. Passed by value. Decoders make
 * these point into the request, so strings are rarely copied.
 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <string.h>

#include "base/macros.h"

struct str {
    const char *p;
    uint32_t n;
};

#define STR(lit) ((struct str){"" lit, sizeof(lit) - 1})
/* For printf("%.*s", STR_FMT(s)). Evaluates s more than once: do not pass calls with side effects. */
#define STR_FMT(s) (int) (s).n, (s).p ? (s).p : ""

/* The bytes, never NULL: adding 0 to a null pointer is undefined. */
static inline const uint8_t *str_bytes(struct str s)
{
    return (const uint8_t *) (s.p ? s.p : "");
}

static inline struct str str_from(const char *s)
{
    return (struct str){s, s ? (uint32_t) strlen(s) : 0};
}

static inline bool str_eq(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool str_is(struct str a, const char *b)
{
    return str_eq(a, str_from(b));
}

/* <0, 0, >0 by bytes; a prefix sorts first. */
int str_cmp(struct str a, struct str b);
bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);
/* Position of c or of needle, or -1. */
ptrdiff_t str_find_char(struct str s, char c);
ptrdiff_t str_find(struct str s, struct str needle);
/* [from, to), clamped to the string. */
struct str str_slice(struct str s, size_t from, size_t to);
struct str str_trim(struct str s); /* without ASCII white space at both ends */
/* Cuts the part before sep off *s and returns it; if there is no sep, returns all of *s, which becomes empty with p ==
 * NULL. */
struct str str_cut(struct str *s, char sep);

/* Parses the whole string as a number in base 10, or 16 with "0x" if base is 0. -EINVAL or -ERANGE leave ret
 * untouched. */
int str_to_u64(struct str s, int base, uint64_t *ret);
int str_to_i64(struct str s, int base, int64_t *ret);
int str_to_double(struct str s, double *ret);
/* A size in bytes: 512, 64k, 10MiB, 1G; powers of 1024. */
int str_to_size(struct str s, int64_t *ret);
/* "did you mean": the one rule for all suggestions. A name is suggested if one letter in three of what was typed, and at
 * least one, is enough to turn it into the name: a letter changed, inserted, deleted, or swapped with its neighbour. */
bool str_is_typo(struct str typed, struct str name);
/* Finds the nearest of several names. Initialise with {typed}; best is NULL as long as none is near. */
struct str_guess {
    struct str typed;
    const char *best;
    size_t distance;
};
void str_guess_offer(struct str_guess *g, const char *name);

/* True for well-formed UTF-8 (no surrogates, no overlong forms, at most U+10FFFF). */
bool str_is_utf8(struct str s);

#endif
