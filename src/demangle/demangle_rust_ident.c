/* SPDX-License-Identifier: Apache-2.0 */
/* Identifiers of Rust's v0 mangling, in plain bytes or in punycode (RFC 3492). */
#include "demangle/demangle_rust_reader.h"

#include "base/utf8.h"

void rust_put_rune(struct rust *r, uint32_t c)
{
    char text[4];
    uint32_t n = (uint32_t) (utf8_write(text, c) - text);

    put(r, (struct str){text, n});
}

static int punycode_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0' + 26;
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a';
    return -1;
}

/* RFC 3492 section 6.1: the next bias. */
static int64_t punycode_adapt(int64_t delta, int64_t points, bool first)
{
    int64_t k = 0;

    delta /= first ? 700 : 2;
    delta += delta / points;
    for (; delta > 35 * 26 / 2; k += 36)
        delta /= 35;
    return k + 36 * delta / (delta + 38);
}

/* One generalized variable-length integer, added to *i. False at its end or on overflow. */
static bool punycode_delta(struct str *s, int64_t bias, int64_t *i)
{
    int64_t w = 1;

    for (int64_t k = 36;; k += 36) {
        int64_t t = k <= bias ? 1 : k > bias + 26 ? 26 : k - bias;
        int digit = s->n ? punycode_digit(s->p[0]) : -1;

        if (digit < 0)
            return false;
        *s = str_slice(*s, 1, s->n);
        *i += digit * w;
        if (digit < t)
            return true;
        if (w >= INT32_MAX / 36)
            return false;
        w *= 36 - t;
    }
}

static void put_punycode(struct rust *r, struct str id)
{
    uint32_t runes[IDENT_RUNES_MAX], n = 0;
    int64_t i = 0, code = 128, bias = 72;
    struct str digits = id;

    for (uint32_t k = id.n; k > 0; k--)
        if (id.p[k - 1] == '_') {
            for (uint32_t j = 0; j + 1 < k && n < IDENT_RUNES_MAX; j++)
                runes[n++] = (unsigned char) id.p[j];
            digits = str_slice(id, k, id.n);
            break;
        }
    while (digits.n) {
        int64_t old = i;

        if (!punycode_delta(&digits, bias, &i) || n == IDENT_RUNES_MAX) {
            fail(r);
            return;
        }
        bias = punycode_adapt(i - old, n + 1, old == 0);
        code += i / (n + 1);
        i %= n + 1;
        if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
            fail(r);
            return;
        }
        memmove(runes + i + 1, runes + i, (n - (uint32_t) i) * sizeof(*runes));
        runes[i++] = (uint32_t) code;
        n++;
    }
    for (uint32_t k = 0; k < n; k++)
        rust_put_rune(r, runes[k]);
}

struct ident rust_read_plain_ident(struct rust *r)
{
    struct ident id = {.punycode = eat(r, 'u')};
    uint32_t n = read_decimal(r);

    eat(r, '_');
    if (r->failed || (size_t) (r->end - r->p) < n) {
        fail(r);
        return (struct ident){0};
    }
    id.text = (struct str){r->p, n};
    r->p += n;
    for (uint32_t i = 0; i < n; i++) {
        char c = id.text.p[i];

        if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_')) {
            fail(r);
            return (struct ident){0};
        }
    }
    return id;
}

struct ident rust_read_ident(struct rust *r)
{
    int64_t disambiguator = read_disambiguator(r);
    struct ident id = rust_read_plain_ident(r);

    id.disambiguator = disambiguator;
    return id;
}

void rust_put_ident(struct rust *r, struct ident id)
{
    if (id.punycode)
        put_punycode(r, id.text);
    else
        put(r, id.text);
}
