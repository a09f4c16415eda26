/* SPDX-License-Identifier: Apache-2.0 */
/* Comparison, searching, splitting and number parsing for struct str (str.h). */
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"

int str_cmp(struct str a, struct str b)
{
    size_t n = MIN(a.n, b.n);
    int r = n ? memcmp(a.p, b.p, n) : 0;

    return r ? r : (a.n > b.n) - (a.n < b.n);
}

bool str_starts(struct str s, struct str prefix)
{
    return s.n >= prefix.n && (!prefix.n || memcmp(s.p, prefix.p, prefix.n) == 0);
}

bool str_ends(struct str s, struct str suffix)
{
    return s.n >= suffix.n && (!suffix.n || memcmp(s.p + s.n - suffix.n, suffix.p, suffix.n) == 0);
}

ptrdiff_t str_find_char(struct str s, char c)
{
    const char *q = s.n ? memchr(s.p, c, s.n) : NULL;

    return q ? q - s.p : -1;
}

ptrdiff_t str_find(struct str s, struct str needle)
{
    const char *q;

    if (!needle.n)
        return 0;
    if (s.n < needle.n)
        return -1;
    q = memmem(s.p, s.n, needle.p, needle.n);
    return q ? q - s.p : -1;
}

struct str str_slice(struct str s, size_t from, size_t to)
{
    to = MIN(to, s.n);
    from = MIN(from, to);
    return (struct str){s.p ? s.p + from : NULL, (uint32_t) (to - from)};
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct str str_trim(struct str s)
{
    while (s.n && is_space(s.p[0]))
        s.p++, s.n--;
    while (s.n && is_space(s.p[s.n - 1]))
        s.n--;
    return s;
}

struct str str_cut(struct str *s, char sep)
{
    ptrdiff_t i = str_find_char(*s, sep);
    struct str head = *s;

    if (i < 0) {
        *s = (struct str){0};
        return head;
    }
    head.n = (uint32_t) i;
    *s = str_slice(*s, (size_t) i + 1, s->n);
    return head;
}

int str_to_u64(struct str s, int base, uint64_t *ret)
{
    uint64_t v = 0;
    uint32_t i = 0;

    if (base == 0 || base == 16) {
        bool hex = s.n > 2 && s.p[0] == '0' && (s.p[1] == 'x' || s.p[1] == 'X');

        i = hex ? 2 : 0;
        base = base == 0 && !hex ? 10 : 16;
    }
    if (i >= s.n)
        return -EINVAL;
    for (; i < s.n; i++) {
        int d = hex_digit(s.p[i]);

        if (d < 0 || d >= base)
            return -EINVAL;
        if (__builtin_mul_overflow(v, (uint64_t) base, &v) || __builtin_add_overflow(v, (uint64_t) d, &v))
            return -ERANGE;
    }
    *ret = v;
    return 0;
}

int str_to_i64(struct str s, int base, int64_t *ret)
{
    bool neg = s.n && s.p[0] == '-';
    uint64_t v;
    int r;

    if (s.n && (s.p[0] == '-' || s.p[0] == '+'))
        s = str_slice(s, 1, s.n);
    r = str_to_u64(s, base, &v);
    if (r < 0)
        return r;
    if (v > (uint64_t) INT64_MAX + neg)
        return -ERANGE;
    *ret = neg ? (int64_t) (0 - v) : (int64_t) v;
    return 0;
}

int str_to_double(struct str s, double *ret)
{
    char tmp[64], *end;
    double d;

    if (!s.n || s.n >= sizeof tmp || is_space(s.p[0]))
        return -EINVAL;
    memcpy(tmp, s.p, s.n);
    tmp[s.n] = 0;
    d = strtod(tmp, &end);
    if (*end)
        return -EINVAL;
    *ret = d;
    return 0;
}

bool str_is_utf8(struct str s)
{
    const unsigned char *p = str_bytes(s), *end = p + s.n;

    while (p < end) {
        unsigned c = *p, n, i;
        uint32_t cp;

        if (end - p >= 8) { /* eight ASCII bytes at once */
            uint64_t w;

            memcpy(&w, p, 8);
            if (!(w & 0x8080808080808080ull)) {
                p += 8;
                continue;
            }
        }
        if (c < 0x80) {
            p++;
            continue;
        }
        n = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
        if (c < 0xc2 || c > 0xf4 || end - p <= (ptrdiff_t) n)
            return false;
        cp = c & (0x3fu >> n);
        for (i = 1; i <= n; i++) {
            if ((p[i] & 0xc0) != 0x80)
                return false;
            cp = cp << 6 | (p[i] & 0x3f);
        }
        if ((n == 2 && (cp < 0x800 || (cp >= 0xd800 && cp < 0xe000))) || (n == 3 && (cp < 0x10000 || cp > 0x10ffff)))
            return false;
        p += n + 1;
    }
    return true;
}

int str_to_size(struct str s, int64_t *ret)
{
    static const char units[] = "kmgt";
    uint32_t digits = 0;
    double v, scale = 1;
    struct str unit;

    while (digits < s.n && ((s.p[digits] >= '0' && s.p[digits] <= '9') || s.p[digits] == '.'))
        digits++;
    unit = str_slice(s, digits, s.n);
    if (str_to_double(str_slice(s, 0, digits), &v) < 0)
        return -EINVAL;
    if (unit.n && !str_is(unit, "B")) {
        const char *u = strchr(units, unit.p[0] | 0x20);
        struct str rest = str_slice(unit, 1, unit.n);

        if (!u || !*u || (rest.n && !str_is(rest, "B") && !str_is(rest, "iB")))
            return -EINVAL;
        for (; u >= units; u--)
            scale *= 1024;
    }
    if (v * scale > 9e18)
        return -ERANGE;
    *ret = (int64_t) (v * scale);
    return 0;
}

enum { TYPO_MAX = 64 };

/* The number of letters to change, insert, delete or swap to turn a into b; TYPO_MAX if one of them is long. */
static size_t distance(struct str a, struct str b)
{
    size_t rows[3][TYPO_MAX];

    if (a.n >= TYPO_MAX || b.n >= TYPO_MAX)
        return TYPO_MAX;
    for (size_t j = 0; j <= b.n; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a.n; i++) {
        size_t *row = rows[i % 3], *last = rows[(i - 1) % 3], *before = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= b.n; j++) {
            row[j] = MIN(MIN(last[j] + 1, row[j - 1] + 1), last[j - 1] + (a.p[i - 1] != b.p[j - 1]));
            if (i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1])
                row[j] = MIN(row[j], before[j - 2] + 1);
        }
    }
    return rows[a.n % 3][b.n];
}

bool str_is_typo(struct str typed, struct str name)
{
    return distance(typed, name) <= MAX(typed.n / 3, 1u);
}

void str_guess_offer(struct str_guess *g, const char *name)
{
    struct str s = str_from(name);
    size_t d = distance(g->typed, s);

    if ((g->best && d >= g->distance) || !str_is_typo(g->typed, s))
        return;
    g->best = name;
    g->distance = d;
}
