/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON writer and the pull parser of json.h. */
#include "base/json.h"

#include <endian.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"

/* --- writing --- */

/* Length of the well-formed UTF-8 sequence at s (s.n > 0), or 0. */
static uint32_t utf8_len(struct str s)
{
    unsigned char c = (unsigned char) s.p[0];
    uint32_t n = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;

    if (n > s.n || !str_is_utf8((struct str){s.p, n}))
        return 0;
    return n;
}

static void put_escaped(struct buf *b, unsigned char c)
{
    static const char short_form[] = "btnvfr"; /* starting at \b; \v has no short form in JSON */

    if (c == '"' || c == '\\')
        buf_printf(b, "\\%c", c);
    else if (c >= '\b' && c <= '\r' && c != '\v')
        buf_printf(b, "\\%c", short_form[c - '\b']);
    else
        buf_printf(b, "\\u%04x", c);
}

void json_put_str(struct buf *b, struct str s)
{
    uint32_t from = 0, i = 0;

    buf_putc(b, '"');
    while (i < s.n) {
        unsigned char c = (unsigned char) s.p[i];
        uint32_t len = 1;

        if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\' && c != '<') {
            i++;
            continue;
        }
        if (c >= 0x80) {
            len = utf8_len(str_slice(s, i, s.n));
            if (len) {
                i += len;
                continue;
            }
        }
        if (i > from)
            buf_put(b, s.p + from, i - from);
        if (c >= 0x80)
            buf_puts(b, "\xef\xbf\xbd");
        else
            put_escaped(b, c);
        from = ++i;
    }
    if (i > from)
        buf_put(b, s.p + from, i - from);
    buf_putc(b, '"');
}

void json_put_u64(struct buf *b, uint64_t v)
{
    char tmp[20];
    int i = 20;

    do
        tmp[--i] = (char) ('0' + v % 10);
    while (v /= 10);
    buf_put(b, tmp + i, (size_t) (20 - i));
}

void json_put_i64(struct buf *b, int64_t v)
{
    if (v < 0)
        buf_putc(b, '-');
    json_put_u64(b, v < 0 ? 0 - (uint64_t) v : (uint64_t) v);
}

void json_put_double(struct buf *b, double v)
{
    char tmp[40];

    if (!isfinite(v)) {
        buf_puts(b, "null");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(tmp, sizeof tmp, "%.*g", digits, v);
        if (strtod(tmp, NULL) == v)
            break;
    }
    buf_puts(b, tmp);
}

void json_put_key(struct buf *b, bool *first, const char *key)
{
    json_sep(b, first);
    json_put_str(b, str_from(key));
    buf_putc(b, ':');
}

void json_put_key_str(struct buf *b, bool *first, const char *key, struct str v)
{
    json_put_key(b, first, key);
    json_put_str(b, v);
}

void json_put_key_text(struct buf *b, bool *first, const char *key, const char *v)
{
    json_put_key_str(b, first, key, str_from(v));
}

void json_put_key_i64(struct buf *b, bool *first, const char *key, int64_t v)
{
    json_put_key(b, first, key);
    json_put_i64(b, v);
}

void json_put_key_u64(struct buf *b, bool *first, const char *key, uint64_t v)
{
    json_put_key(b, first, key);
    json_put_u64(b, v);
}

void json_put_key_double(struct buf *b, bool *first, const char *key, double v)
{
    json_put_key(b, first, key);
    json_put_double(b, v);
}

void json_put_key_bool(struct buf *b, bool *first, const char *key, bool v)
{
    json_put_key(b, first, key);
    buf_puts(b, v ? "true" : "false");
}

void json_put_key_ns(struct buf *b, bool *first, const char *key, int64_t v)
{
    json_put_key(b, first, key);
    buf_putc(b, '"');
    json_put_i64(b, v);
    buf_putc(b, '"');
}

/* --- reading --- */

void json_init(struct json *r, struct str text, struct arena *a)
{
    *r = (struct json){.p = text.p, .end = text.n ? text.p + text.n : text.p, .start = text.p, .arena = a};
}

void json_fail(struct json *r, const char *what)
{
    if (r->err)
        return;
    r->err = -EINVAL;
    r->what = what;
}

int json_error(const struct json *r, struct err *e)
{
    if (r->err)
        return err_set(e, r->err, "%s at byte %zu", r->what ? r->what : "invalid JSON", (size_t) (r->p - r->start));
    return 0;
}

static inline void space(struct json *r)
{
    const char *p = r->p, *end = r->end;

    if (likely(p<end && * p> ' '))
        return;
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    r->p = p;
}

/* Type of a value by its first byte; 0: no value begins with it. */
static const uint8_t first_byte[256] = {
    ['{'] = 1 + JSON_OBJECT, ['['] = 1 + JSON_ARRAY,  ['"'] = 1 + JSON_STRING, ['t'] = 1 + JSON_BOOL,
    ['f'] = 1 + JSON_BOOL,   ['n'] = 1 + JSON_NULL,   ['-'] = 1 + JSON_NUMBER, ['0'] = 1 + JSON_NUMBER,
    ['1'] = 1 + JSON_NUMBER, ['2'] = 1 + JSON_NUMBER, ['3'] = 1 + JSON_NUMBER, ['4'] = 1 + JSON_NUMBER,
    ['5'] = 1 + JSON_NUMBER, ['6'] = 1 + JSON_NUMBER, ['7'] = 1 + JSON_NUMBER, ['8'] = 1 + JSON_NUMBER,
    ['9'] = 1 + JSON_NUMBER,
};

enum json_type json_peek(struct json *r)
{
    uint8_t t;

    space(r);
    if (unlikely(r->err || r->p == r->end)) {
        json_fail(r, "unexpected end of JSON");
        return JSON_ERROR;
    }
    t = first_byte[(unsigned char) *r->p];
    if (likely(t))
        return (enum json_type)(t - 1);
    json_fail(r, "invalid JSON");
    return JSON_ERROR;
}

static bool take_word(struct json *r, const char *word)
{
    size_t n = strlen(word);

    if ((size_t) (r->end - r->p) < n || memcmp(r->p, word, n) != 0) {
        json_fail(r, "invalid JSON");
        return false;
    }
    r->p += n;
    return true;
}

static void begin(struct json *r, enum json_type type, const char *expected)
{
    if (json_peek(r) != type) {
        json_fail(r, expected);
        return;
    }
    if (r->depth >= JSON_DEPTH_MAX) {
        json_fail(r, "JSON is nested too deeply");
        return;
    }
    r->p++;
    r->depth++;
    r->first = true;
}

/* After begin or a value: true if another element follows, with the comma consumed. */
static bool more(struct json *r, char close)
{
    space(r);
    if (r->err)
        return false;
    if (r->p == r->end) {
        json_fail(r, "unexpected end of JSON");
        return false;
    }
    if (*r->p == close) {
        r->p++;
        r->depth--;
        r->first = false;
        return false;
    }
    if (!r->first) {
        if (*r->p != ',') {
            json_fail(r, "',' expected");
            return false;
        }
        r->p++;
    }
    r->first = false;
    return true;
}

void json_begin_object(struct json *r)
{
    begin(r, JSON_OBJECT, "expected an object");
}

void json_begin_array(struct json *r)
{
    begin(r, JSON_ARRAY, "expected an array");
}

bool json_next_item(struct json *r)
{
    return more(r, ']');
}

bool json_next_item_of(struct json *r, size_t n, size_t max, const char *what)
{
    const char *text;

    if (!more(r, ']'))
        return false;
    if (n < max)
        return true;
    text = r->arena ? arena_printf(r->arena, "too many %s (limit %zu)", what, max) : NULL;
    json_fail(r, text ? text : "too many items");
    return false;
}

bool json_next_key(struct json *r, struct str *ret_key)
{
    if (!more(r, '}'))
        return false;
    if (json_peek(r) != JSON_STRING) {
        json_fail(r, "expected a key");
        return false;
    }
    *ret_key = json_str(r);
    space(r);
    if (r->err)
        return false;
    if (r->p == r->end || *r->p != ':') {
        json_fail(r, "':' expected");
        return false;
    }
    r->p++;
    return true;
}

static int hex4(const char *p, uint32_t *ret)
{
    uint64_t v;

    for (int i = 0; i < 4; i++) /* str_to_u64 would accept "0x" */
        if (p[i] == 'x' || p[i] == 'X')
            return -EINVAL;
    if (str_to_u64((struct str){p, 4}, 16, &v) < 0)
        return -EINVAL;
    *ret = (uint32_t) v;
    return 0;
}

/* p points after "\u". Lone surrogates become U+FFFD. Returns the position after the escape, or NULL. */
static const char *unescape_u(const char *p, const char *end, uint32_t *ret)
{
    uint32_t cp, low;

    if (end - p < 4 || hex4(p, &cp) < 0)
        return NULL;
    p += 4;
    if (cp >= 0xd800 && cp < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u' && hex4(p + 2, &low) == 0 &&
        low >= 0xdc00 && low < 0xe000) {
        *ret = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
        return p + 6;
    }
    *ret = cp >= 0xd800 && cp < 0xe000 ? 0xfffd : cp;
    return p;
}

static struct str unescape(struct json *r, const char *from, const char *to)
{
    static const char codes[] = "\"\\/bfnrt", plain[] = "\"\\/\b\f\n\r\t";
    char *q = arena_alloc_aligned(r->arena, (size_t) (to - from) + 1, 1), *start = q;

    if (!q) {
        r->err = -ENOMEM;
        return (struct str){0};
    }
    while (from < to) {
        const char *code;
        uint32_t cp;

        if (*from != '\\') {
            *q++ = *from++;
            continue;
        }
        from++; /* never at the end: the scan found the closing quote after it */
        if (*from == 'u') {
            from = unescape_u(from + 1, to, &cp);
            if (!from) {
                json_fail(r, "invalid escape in string");
                return (struct str){0};
            }
            q = utf8_write(q, cp);
            continue;
        }
        code = *from ? strchr(codes, *from) : NULL;
        if (!code) {
            json_fail(r, "invalid escape in string");
            return (struct str){0};
        }
        *q++ = plain[code - codes];
        from++;
    }
    return (struct str){start, (uint32_t) (q - start)};
}

/* The first quote, backslash or control character at or after p, or end. Eight bytes at a time: a byte equal to c is a
 * zero byte of x ^ ccc..., and x - 111... borrows into the high bit there. It may also mark bytes above a marked one,
 * never below, so the lowest mark is right. */
static inline const char *plain_end(const char *p, const char *end)
{
    const uint64_t ones = 0x0101010101010101ull, high = 0x8080808080808080ull;

    for (; end - p >= 8; p += 8) {
        uint64_t x, quote, slash, hit;

        memcpy(&x, p, 8);
        x = le64toh(x);
        quote = x ^ ones * '"';
        slash = x ^ ones * '\\';
        hit = (((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((x - ones * 0x20) & ~x)) & high;
        if (hit)
            return p + __builtin_ctzll(hit) / 8;
    }
    while (p < end && *p != '"' && *p != '\\' && (unsigned char) *p >= 0x20)
        p++;
    return p;
}

struct str json_str(struct json *r)
{
    const char *p, *from;
    bool escaped = false;
    struct str s;

    if (json_peek(r) == JSON_NULL && take_word(r, "null"))
        return (struct str){0};
    if (r->err || *r->p != '"') {
        json_fail(r, "expected a string");
        return (struct str){0};
    }
    from = p = r->p + 1;
    for (p = plain_end(p, r->end); p < r->end && *p != '"'; p = plain_end(p + 1, r->end)) {
        if ((unsigned char) *p < 0x20) {
            json_fail(r, "control character in string");
            return (struct str){0};
        }
        if (*p == '\\') {
            escaped = true;
            if (++p == r->end)
                break;
        }
    }
    if (p >= r->end) {
        json_fail(r, "unterminated string");
        return (struct str){0};
    }
    s = escaped ? unescape(r, from, p) : (struct str){from, (uint32_t) (p - from)};
    if (!r->err)
        r->p = p + 1;
    return s;
}

/* The digits of the next number, quoted or not. */
static struct str number_text(struct json *r)
{
    enum json_type t = json_peek(r);
    const char *from = r->p;

    if (t == JSON_STRING)
        return json_str(r);
    if (t == JSON_NULL && take_word(r, "null"))
        return STR("0");
    if (t != JSON_NUMBER) {
        json_fail(r, "expected a number");
        return STR("0");
    }
    while (r->p < r->end && ((*r->p >= '0' && *r->p <= '9') || memchr("+-.eE", *r->p, 5)))
        r->p++;
    return (struct str){from, (uint32_t) (r->p - from)};
}

/* An integer of at most 18 digits, quoted or not, with no fraction or exponent after it. If it returns false, r is
 * unchanged. */
static inline bool quick_integer(struct json *r, uint64_t *ret, bool *ret_negative)
{
    const char *p, *digits, *end = r->end;
    bool quoted;
    uint64_t v = 0;

    space(r);
    p = r->p;
    if (r->err || p == end)
        return false;
    quoted = *p == '"';
    p += quoted;
    *ret_negative = p < end && *p == '-';
    p += *ret_negative;
    for (digits = p; p < end && (unsigned char) (*p - '0') < 10; p++)
        v = v * 10 + (uint64_t) (*p - '0');
    if (p == digits || p - digits > 18 || p == end)
        return false;
    if (quoted ? *p != '"' : *p == '.' || *p == 'e' || *p == 'E')
        return false;
    r->p = p + quoted;
    *ret = v;
    return true;
}

/* Skips digits; false if there are none. */
static bool skip_digits(struct json *r)
{
    const char *from = r->p;

    while (r->p < r->end && *r->p >= '0' && *r->p <= '9')
        r->p++;
    return r->p > from;
}

static void skip_number(struct json *r)
{
    bool good;

    r->p += *r->p == '-';
    good = skip_digits(r);
    if (good && r->p < r->end && *r->p == '.') {
        r->p++;
        good = skip_digits(r);
    }
    if (good && r->p < r->end && (*r->p == 'e' || *r->p == 'E')) {
        r->p++;
        if (r->p < r->end && (*r->p == '+' || *r->p == '-'))
            r->p++;
        good = skip_digits(r);
    }
    if (!good)
        json_fail(r, "invalid number");
}

double json_double(struct json *r)
{
    struct str s = number_text(r);
    double d = 0;

    if (!r->err && str_to_double(s, &d) < 0)
        json_fail(r, "invalid number");
    return r->err ? 0 : d;
}

int64_t json_i64(struct json *r)
{
    struct str s;
    int64_t v = 0;
    uint64_t quick;
    bool negative;
    double d;

    if (likely(quick_integer(r, &quick, &negative)))
        return negative ? -(int64_t) quick : (int64_t) quick;
    s = number_text(r);
    if (r->err || str_to_i64(s, 10, &v) == 0)
        return v;
    if (str_to_double(s, &d) == 0 && d >= -9.2e18 && d <= 9.2e18 && d == (double) (int64_t) d)
        return (int64_t) d; /* 1e3, 5.0 */
    json_fail(r, "invalid integer");
    return 0;
}

uint64_t json_u64(struct json *r)
{
    struct str s;
    uint64_t v = 0;
    bool negative;
    const char *at = r->p;
    double d;

    if (likely(quick_integer(r, &v, &negative)) && (!negative || !v))
        return v;
    r->p = at;
    v = 0;
    s = number_text(r);
    if (r->err || str_to_u64(s, 10, &v) == 0)
        return v;
    if (str_to_double(s, &d) == 0 && d >= 0 && d <= 1.8e19 && d == (double) (uint64_t) d)
        return (uint64_t) d;
    json_fail(r, "invalid unsigned integer");
    return 0;
}

bool json_bool(struct json *r)
{
    if (json_peek(r) == JSON_NULL)
        return !take_word(r, "null");
    if (!r->err && *r->p == 't')
        return take_word(r, "true");
    if (!r->err && *r->p == 'f')
        take_word(r, "false");
    else
        json_fail(r, "expected true or false");
    return false;
}

void json_skip(struct json *r)
{
    struct str key;

    switch (json_peek(r)) {
    case JSON_OBJECT:
        json_begin_object(r);
        while (json_next_key(r, &key))
            json_skip(r);
        break;
    case JSON_ARRAY:
        json_begin_array(r);
        while (json_next_item(r))
            json_skip(r);
        break;
    case JSON_STRING:
        json_str(r);
        break;
    case JSON_NUMBER:
        skip_number(r);
        break;
    case JSON_BOOL:
        json_bool(r);
        break;
    case JSON_NULL:
        take_word(r, "null");
        break;
    case JSON_ERROR:
        break;
    }
}

/* The position after the closing quote of the string whose text begins at p, or NULL. */
static const char *string_end(const char *p, const char *end)
{
    while ((p = memchr(p, '"', (size_t) (end - p)))) {
        size_t slashes = 0;

        while (p[-1 - (ptrdiff_t) slashes] == '\\') /* stops at the opening quote at the latest */
            slashes++;
        p++;
        if (slashes % 2 == 0)
            return p;
    }
    return NULL;
}

void json_skip_unchecked(struct json *r)
{
    const char *p = r->p;
    size_t depth = 0;

    for (; !r->err && p < r->end; p++) {
        switch (*p) {
        case '"':
            p = string_end(p + 1, r->end);
            if (!p) {
                json_fail(r, "unterminated string");
                return;
            }
            p--;
            break;
        case '{':
        case '[':
            depth++;
            continue;
        case '}':
        case ']':
            if (!depth) { /* the end of the enclosing value also ends a number, the only value without an end of its
                             own */
                r->p = p;
                return;
            }
            depth--;
            break;
        case ',':
            if (!depth) {
                r->p = p;
                return;
            }
            continue;
        default:
            continue;
        }
        if (!depth) {
            r->p = p + 1;
            return;
        }
    }
    json_fail(r, "unexpected end of JSON");
}

struct str json_raw(struct json *r)
{
    const char *from;

    json_peek(r);
    from = r->p;
    json_skip(r);
    return r->err ? (struct str){0} : (struct str){from, (uint32_t) (r->p - from)};
}

int json_end(struct json *r)
{
    space(r);
    if (!r->err && r->p != r->end)
        json_fail(r, "unexpected text after the end of the JSON");
    return r->err;
}
