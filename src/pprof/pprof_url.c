/* SPDX-License-Identifier: Apache-2.0 */
/* Normalises source URLs and resolves redirects (pprof_url.h). */
#include "pprof/pprof_url.h"

#include <stdlib.h>

#include "base/bytes.h"

enum { PAIRS_MAX = 64 };

struct pair {
    struct buf key, value;
    size_t position;
};

static void unescape(struct buf *out, struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '%' && i + 2 < s.n && hex_digit(s.p[i + 1]) >= 0 && hex_digit(s.p[i + 2]) >= 0) {
            buf_putc(out, (char) (hex_digit(s.p[i + 1]) << 4 | hex_digit(s.p[i + 2])));
            i += 2;
        } else {
            buf_putc(out, s.p[i] == '+' ? ' ' : s.p[i]);
        }
    }
}

static void escape(struct buf *out, struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("-_.~", c))
            buf_putc(out, c);
        else if (c == ' ')
            buf_putc(out, '+');
        else
            buf_printf(out, "%%%02X", (unsigned char) c);
    }
}

static int compare_pairs(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    int c = str_cmp(buf_str(&x->key), buf_str(&y->key));

    return c ? c : x->position < y->position ? -1 : 1;
}

static size_t parse_query(struct str query, struct pair *pairs)
{
    size_t n = 0;

    while (query.n && n < PAIRS_MAX - 1) {
        struct str value = str_cut(&query, '&'), key = str_cut(&value, '=');

        if (!key.n && !value.n)
            continue;
        pairs[n] = (struct pair){.position = n};
        unescape(&pairs[n].key, key);
        unescape(&pairs[n].value, value);
        n++;
    }
    return n;
}

/* The last value of "seconds" replaces all others. */
static size_t set_seconds(struct pair *pairs, size_t n, int64_t *seconds)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        bool is = str_is(buf_str(&pairs[i].key), "seconds");
        int64_t v;

        if (is && *seconds > 0) {
            buf_done(&pairs[i].key);
            buf_done(&pairs[i].value);
            continue;
        }
        if (is && str_to_i64(buf_str(&pairs[i].value), 10, &v) == 0)
            *seconds = -v; /* given by the URL: marked, so that it is not written again */
        pairs[kept++] = pairs[i];
    }
    if (*seconds > 0) {
        pairs[kept] = (struct pair){.position = kept};
        buf_puts(&pairs[kept].key, "seconds");
        buf_printf(&pairs[kept].value, "%lld", (long long) *seconds);
        kept++;
    } else {
        *seconds = -*seconds;
    }
    return kept;
}

static void put_query(struct str query, int64_t *seconds, struct buf *out)
{
    struct pair pairs[PAIRS_MAX];
    int64_t asked = *seconds > 0 ? *seconds : 0;
    size_t n = set_seconds(pairs, parse_query(query, pairs), &asked);

    *seconds = asked;
    qsort(pairs, n, sizeof(*pairs), compare_pairs);
    for (size_t i = 0; i < n; i++) {
        buf_putc(out, i ? '&' : '?');
        escape(out, buf_str(&pairs[i].key));
        buf_putc(out, '=');
        escape(out, buf_str(&pairs[i].value));
        buf_done(&pairs[i].key);
        buf_done(&pairs[i].value);
    }
}

bool pprof_url_adjust(struct str source, int64_t *seconds, struct buf *out)
{
    ptrdiff_t scheme = str_find(source, STR("://")), at;
    struct str rest = scheme > 0 ? str_slice(source, (size_t) scheme + 3, source.n) : source, host, path, query;

    at = str_find_char(rest, '#');
    if (at >= 0)
        rest = str_slice(rest, 0, (size_t) at);
    at = str_find_char(rest, '?');
    query = at >= 0 ? str_slice(rest, (size_t) at + 1, rest.n) : STR("");
    rest = at >= 0 ? str_slice(rest, 0, (size_t) at) : rest;
    at = str_find_char(rest, '/');
    host = at >= 0 ? str_slice(rest, 0, (size_t) at) : rest;
    path = at >= 0 ? str_slice(rest, (size_t) at, rest.n) : STR("");
    if (!host.n || (scheme <= 0 && str_find_char(host, ':') < 0))
        return false;
    if (scheme > 0)
        buf_put_str(out, str_slice(source, 0, (size_t) scheme));
    else
        buf_puts(out, "http");
    buf_puts(out, "://");
    buf_put_str(out, host);
    buf_put_str(out, path.n && !str_is(path, "/") ? path : STR("/debug/pprof/profile"));
    put_query(query, seconds, out);
    return true;
}

void pprof_url_redirect(struct str base, struct str location, struct buf *out)
{
    ptrdiff_t host = str_find(base, STR("://")), slash;
    struct str rest = str_slice(base, host > 0 ? (size_t) host + 3 : 0, base.n);

    if (str_find(location, STR("://")) > 0) {
        buf_put_str(out, location);
        return;
    }
    slash = str_find_char(rest, '/');
    buf_put_str(out, str_slice(base, 0, slash >= 0 ? (size_t) (rest.p - base.p) + (size_t) slash : base.n));
    if (!location.n || location.p[0] != '/')
        buf_putc(out, '/');
    buf_put_str(out, location);
}
