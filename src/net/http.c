/* SPDX-License-Identifier: Apache-2.0 */
/* Headers, URLs, query strings, cookies and dates of HTTP. See http.h. */
#include "net/http.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/url.h"

enum { HTTP_HEADERS_MAX = 4096 };

/* --- headers --- */
struct str http_headers_get(const struct http_headers *h, const char *name)
{
    struct str want = str_from(name);

    for (uint32_t i = 0; i < h->n; i++)
        if (str_eq(h->v[i].name, want))
            return h->v[i].value.p ? h->v[i].value : STR("");
    return (struct str){0};
}

bool http_headers_has(const struct http_headers *h, const char *name)
{
    return http_headers_get(h, name).p != NULL;
}

int http_headers_push(struct http_headers *h, struct arena *a, struct str name, struct str value)
{
    if (h->n == h->cap) {
        uint32_t cap = h->cap ? h->cap * 2 : 16;
        struct http_header *v;

        if (cap > HTTP_HEADERS_MAX)
            return -E2BIG;
        v = arena_alloc(a, cap * sizeof *v);
        if (!v)
            return -ENOMEM;
        if (h->n)
            memcpy(v, h->v, h->n * sizeof *v);
        h->v = v;
        h->cap = cap;
    }
    h->v[h->n++] = (struct http_header){name, value};
    return 0;
}

int http_headers_add(struct http_headers *h, struct arena *a, struct str name, struct str value)
{
    char *copy;

    if (!http_name_ok(name) || !http_value_ok(value))
        return -EINVAL;
    copy = arena_alloc_aligned(a, name.n + value.n + 2, 1);
    if (!copy)
        return -ENOMEM;
    for (uint32_t i = 0; i < name.n; i++)
        copy[i] = name.p[i] >= 'A' && name.p[i] <= 'Z' ? (char) (name.p[i] | 32) : name.p[i];
    copy[name.n] = 0;
    if (value.n)
        memcpy(copy + name.n + 1, value.p, value.n);
    copy[name.n + 1 + value.n] = 0;
    return http_headers_push(h, a, (struct str){copy, name.n}, (struct str){copy + name.n + 1, value.n});
}

bool http_eq_nocase(struct str a, const char *b)
{
    return a.n == strlen(b) && (a.n == 0 || strncasecmp(a.p, b, a.n) == 0);
}

bool http_list_has(struct str list, const char *token)
{
    while (list.p) {
        struct str item = str_trim(str_cut(&list, ','));
        ptrdiff_t semi = str_find_char(item, ';'); /* "gzip;q=0.5" */

        if (http_eq_nocase(semi < 0 ? item : str_trim(str_slice(item, 0, (size_t) semi)), token))
            return true;
    }
    return false;
}

bool http_name_ok(struct str name)
{
    for (uint32_t i = 0; i < name.n; i++) {
        unsigned char c = (unsigned char) name.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              (c && strchr("!#$%&'*+-.^_`|~", c))))
            return false;
    }
    return name.n > 0;
}

bool http_value_ok(struct str value)
{
    for (uint32_t i = 0; i < value.n; i++) {
        unsigned char c = (unsigned char) value.p[i];

        if ((c < 32 && c != '\t') || c == 127)
            return false;
    }
    return true;
}

struct str http_cookie(const struct http_headers *h, const char *name)
{
    for (uint32_t i = 0; i < h->n; i++) {
        struct str list = h->v[i].value;

        if (!str_is(h->v[i].name, "cookie"))
            continue;
        while (list.p) {
            struct str value = str_trim(str_cut(&list, ';')), key = str_cut(&value, '=');

            if (value.p && str_is(str_trim(key), name)) {
                if (value.n >= 2 && value.p[0] == '"' && value.p[value.n - 1] == '"')
                    value = str_slice(value, 1, value.n - 1);
                return value;
            }
        }
    }
    return (struct str){0};
}

const char *http_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } table[] = {
        {100, "Continue"},
        {101, "Switching Protocols"},
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {426, "Upgrade Required"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {499, "Client Closed Request"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        if (table[i].status == status)
            return table[i].reason;
    return "";
}

/* --- URLs --- */
/* text: the URL as it may be printed. */
static int url_host(struct str authority, struct http_url *ret, const char *text, struct err *e)
{
    struct str host = authority, port = {0};
    ptrdiff_t colon = -1;
    uint64_t number;

    if (str_find_char(authority, '@') >= 0)
        return err_set(e, -EINVAL, "'%s': user names and passwords in URLs are not supported; use a header", text);
    for (size_t i = authority.n; i-- > 0 && authority.p[i] != ']';)
        if (authority.p[i] == ':') {
            colon = (ptrdiff_t) i;
            break;
        }
    if (colon >= 0) {
        host = str_slice(authority, 0, (size_t) colon);
        port = str_slice(authority, (size_t) colon + 1, authority.n);
        if (str_to_u64(port, 10, &number) < 0 || number == 0 || number > 65535)
            return err_set(e, -EINVAL, "'%s': '%.*s' is not a valid port", text, STR_FMT(port));
    }
    if (!port.n)
        number = ret->https ? 443 : 80;
    if (!host.n || host.n >= sizeof ret->host || !http_value_ok(host) || str_find_char(host, ' ') >= 0)
        return err_set(e, -EINVAL, "'%s': invalid host name", text);
    snprintf(ret->port, sizeof ret->port, "%u", (unsigned) number);
    if (number == (ret->https ? 443u : 80u))
        snprintf(ret->authority, sizeof ret->authority, "%.*s", STR_FMT(host));
    else
        snprintf(ret->authority, sizeof ret->authority, "%.*s:%u", STR_FMT(host), (unsigned) number);
    if (host.n > 2 && host.p[0] == '[' && host.p[host.n - 1] == ']')
        host = str_slice(host, 1, host.n - 1);
    snprintf(ret->host, sizeof ret->host, "%.*s", STR_FMT(host));
    return 0;
}

int http_url_parse(const char *text, struct http_url *ret, struct err *e)
{
    struct str s = str_from(text);
    char shown[URL_SHOWN];
    size_t end;

    *ret = (struct http_url){.target = ""};
    url_redact(text, shown, sizeof shown);
    if (str_starts(s, STR("unix://"))) {
        if (s.n - 7 == 0 || s.n - 7 >= sizeof ret->unix_path)
            return err_set(e, -EINVAL, "'%s': the path of a unix socket must have 1 to 107 bytes", shown);
        snprintf(ret->unix_path, sizeof ret->unix_path, "%s", text + 7);
        snprintf(ret->host, sizeof ret->host, "localhost");
        snprintf(ret->authority, sizeof ret->authority, "localhost");
        return 0;
    }
    if (s.n >= 8 && strncasecmp(s.p, "https://", 8) == 0) {
        ret->https = true;
        s = str_slice(s, 8, s.n);
    } else if (s.n >= 7 && strncasecmp(s.p, "http://", 7) == 0) {
        s = str_slice(s, 7, s.n);
    } else {
        return err_set(e, -EINVAL, "'%s' is not a URL; expected http://… or https://…", shown);
    }
    for (end = 0; end < s.n && !strchr("/?#", s.p[end]); end++)
        ;
    ret->target = s.p + end;
    if (!http_value_ok(str_slice(s, end, s.n)) || str_find_char(s, ' ') >= 0)
        return err_set(e, -EINVAL, "'%s' contains a space or a control character", shown);
    return url_host(str_slice(s, 0, end), ret, shown, e);
}

/* --- query strings --- */
struct str http_percent_decode(struct arena *a, struct str s, bool plus)
{
    char *out = arena_alloc_aligned(a, s.n + 1, 1);
    uint32_t n = 0;

    if (!out)
        return (struct str){0};
    for (uint32_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if (c == '%') {
            if (s.n - i < 3 || hex_digit(s.p[i + 1]) < 0 || hex_digit(s.p[i + 2]) < 0)
                return (struct str){0};
            c = (char) (hex_digit(s.p[i + 1]) << 4 | hex_digit(s.p[i + 2]));
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        out[n++] = c;
    }
    out[n] = 0;
    return (struct str){out, n};
}

void http_percent_encode(struct buf *b, struct str s)
{
    for (uint32_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char) s.p[i];

        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("-._~", c)))
            buf_putc(b, (char) c);
        else
            buf_printf(b, "%%%02X", c);
    }
}

bool http_query_next(struct str *query, struct arena *a, struct str *ret_name, struct str *ret_value)
{
    while (query->p) {
        struct str value = str_cut(query, '&'), name;

        if (!value.n)
            continue;
        name = http_percent_decode(a, str_cut(&value, '='), true);
        value = value.p ? http_percent_decode(a, value, true) : STR("");
        if (!name.p || !value.p)
            continue;
        *ret_name = name;
        *ret_value = value;
        return true;
    }
    return false;
}

struct str http_query_get(struct str query, struct arena *a, const char *want)
{
    struct str name, value;

    while (http_query_next(&query, a, &name, &value))
        if (str_is(name, want))
            return value;
    return (struct str){0};
}

/* --- dates --- */
static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

void http_date_format(int64_t wall_ns, char out[40])
{
    time_t t = (time_t) (wall_ns / NS_PER_S);
    struct tm tm;

    gmtime_r(&t, &tm);
    snprintf(out, 40, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", days + 3 * tm.tm_wday, tm.tm_mday % 100,
             months + 3 * tm.tm_mon, (tm.tm_year + 1900) % 10000, tm.tm_hour % 100, tm.tm_min % 100, tm.tm_sec % 100);
}

int http_retry_after(struct str value, int64_t now_wall, int64_t *ret)
{
    char copy[40], month[4];
    const char *m;
    struct tm tm = {0};
    uint64_t seconds;
    int64_t ns;

    value = str_trim(value);
    if (str_to_u64(value, 10, &seconds) == 0) {
        *ret = (int64_t) MIN(seconds, 86400) * NS_PER_S;
        return 0;
    }
    if (value.n >= sizeof copy)
        return -EINVAL;
    snprintf(copy, sizeof copy, "%.*s", STR_FMT(value));
    /* NOLINTNEXTLINE(cert-err34-c): numbers out of range are refused below */
    if (sscanf(copy, "%*3s, %d %3s %d %d:%d:%d GMT", &tm.tm_mday, month, &tm.tm_year, &tm.tm_hour, &tm.tm_min,
               &tm.tm_sec) != 6)
        return -EINVAL;
    m = strstr(months, month);
    if (strlen(month) != 3 || !m || (m - months) % 3 || tm.tm_year < 1970 || tm.tm_year > 9999)
        return -EINVAL;
    tm.tm_mon = (int) (m - months) / 3;
    tm.tm_year -= 1900;
    ns = (int64_t) timegm(&tm) * NS_PER_S - now_wall;
    *ret = MAX(0, MIN(ns, 86400 * NS_PER_S));
    return 0;
}
