/* SPDX-License-Identifier: Apache-2.0 */
/* Parser and writer of HTTP/1.1 heads and bodies. See http1.h. */
#include "net/http1.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"

enum { CHUNK_OVERHEAD_MAX = 16384 }; /* limit on extensions, trailers, and lines around tiny chunks */

/* --- heads --- */
ssize_t http1_head_length(const char *p, size_t n, size_t from, size_t limit)
{
    size_t start = from > 3 ? from - 3 : 0;

    for (const char *q = p + start; (q = memchr(q, '\n', n - (size_t) (q - p))); q++) {
        size_t at = (size_t) (q - p);

        if (at + 1 < n && q[1] == '\n')
            return at + 2 > limit ? -EMSGSIZE : (ssize_t) (at + 2);
        if (at + 2 < n && q[1] == '\r' && q[2] == '\n')
            return at + 3 > limit ? -EMSGSIZE : (ssize_t) (at + 3);
    }
    return n >= limit ? -EMSGSIZE : 0;
}

/* Takes one line off, without its CRLF or LF. */
static bool next_line(char **p, char *end, struct str *ret)
{
    char *nl = memchr(*p, '\n', (size_t) (end - *p));
    size_t n;

    if (!nl)
        return false;
    n = (size_t) (nl - *p);
    if (n && (*p)[n - 1] == '\r')
        n--;
    *ret = (struct str){*p, (uint32_t) n};
    *p = nl + 1;
    return true;
}

static int parse_header_line(struct str line, struct arena *a, struct http_headers *h, struct err *e)
{
    ptrdiff_t colon = str_find_char(line, ':');
    struct str name, value;
    char *q;

    if (line.p[0] == ' ' || line.p[0] == '\t')
        return err_set(e, -EBADMSG, "folded header line");
    if (colon < 0)
        return err_set(e, -EBADMSG, "header line without a colon");
    name = str_slice(line, 0, (size_t) colon);
    value = str_slice(line, (size_t) colon + 1, line.n);
    if (!http_name_ok(name))
        return err_set(e, -EBADMSG, "invalid character in a header name");
    if (!http_value_ok(value))
        return err_set(e, -EBADMSG, "control character in a header value");
    q = (char *) (uintptr_t) name.p; /* the head may be changed in place */
    for (uint32_t i = 0; i < name.n; i++)
        if (q[i] >= 'A' && q[i] <= 'Z')
            q[i] |= 32;
    return http_headers_push(h, a, name, str_trim(value));
}

static int parse_headers(char *p, char *end, const struct http1_limits *lim, struct arena *a, struct http_headers *h,
                         struct err *e)
{
    struct str line;

    while (next_line(&p, end, &line) && line.n) {
        int r;

        if (h->n >= lim->headers)
            return err_set(e, -E2BIG, "more than %u headers", lim->headers);
        r = parse_header_line(line, a, h, e);
        if (r < 0)
            return r;
    }
    return 0;
}

static int parse_length(struct str s, uint64_t *ret)
{
    uint64_t v = 0;

    if (!s.n || s.n > 18) /* digits only: str_to_u64 would accept a sign */
        return -EBADMSG;
    for (uint32_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return -EBADMSG;
        v = v * 10 + (uint64_t) (s.p[i] - '0');
    }
    *ret = v;
    return 0;
}

/* Determines the framing of the body from the headers alone. Anything that two parsers could read differently is
 * refused. */
static int parse_framing(struct http1_head *h, struct err *e)
{
    bool has_length = false, has_coding = false;

    for (uint32_t i = 0; i < h->headers.n; i++) {
        struct http_header *f = &h->headers.v[i];
        uint64_t length;

        if (str_is(f->name, "content-length")) {
            if (parse_length(f->value, &length) < 0 || (has_length && length != h->content_length))
                return err_set(e, -EBADMSG, "invalid content-length");
            h->content_length = length;
            has_length = true;
        } else if (str_is(f->name, "transfer-encoding")) {
            if (has_coding || h->minor == 0)
                return err_set(e, -EBADMSG, "invalid transfer-encoding");
            if (!http_eq_nocase(f->value, "chunked"))
                return err_set(e, -ENOTSUP, "transfer-encoding '%.*s' is not supported", (int) MIN(f->value.n, 64),
                               f->value.p);
            has_coding = true;
        }
    }
    if (has_length && has_coding)
        return err_set(e, -EBADMSG, "both content-length and transfer-encoding");
    h->framing = has_coding ? HTTP1_CHUNKED : has_length && h->content_length ? HTTP1_LENGTH : HTTP1_NO_BODY;
    return has_length;
}

static void parse_connection(struct http1_head *h)
{
    h->keep_alive = h->minor == 1;
    for (uint32_t i = 0; i < h->headers.n; i++) {
        const struct http_header *f = &h->headers.v[i];

        if (str_is(f->name, "connection")) {
            if (http_list_has(f->value, "close"))
                h->keep_alive = false;
            else if (h->minor == 0 && http_list_has(f->value, "keep-alive"))
                h->keep_alive = true;
        } else if (str_is(f->name, "expect") && http_eq_nocase(f->value, "100-continue")) {
            h->expect_continue = h->minor == 1;
        }
    }
}

static int parse_version(struct str s, int *ret_minor, struct err *e)
{
    if (s.n != 8 || memcmp(s.p, "HTTP/", 5) != 0 || s.p[6] != '.')
        return err_set(e, -EBADMSG, "not HTTP");
    if (s.p[5] != '1' || (s.p[7] != '0' && s.p[7] != '1'))
        return err_set(e, -EPROTONOSUPPORT, "'%.8s' is not supported", s.p);
    *ret_minor = s.p[7] - '0';
    return 0;
}

static bool target_ok(struct str s)
{
    for (uint32_t i = 0; i < s.n; i++)
        if ((unsigned char) s.p[i] <= 32 || s.p[i] == 127)
            return false;
    return s.n > 0;
}

static int check_host(const struct http1_head *h, struct err *e)
{
    unsigned hosts = 0;

    for (uint32_t i = 0; i < h->headers.n; i++)
        hosts += str_is(h->headers.v[i].name, "host");
    if (hosts > 1 || (hosts == 0 && h->minor == 1))
        return err_set(e, -EBADMSG, hosts ? "more than one host header" : "no host header");
    return 0;
}

int http1_parse_request(char *p, size_t n, const struct http1_limits *lim, struct arena *a, struct http1_head *ret,
                        struct err *e)
{
    struct str line, rest;
    char *end = p + n;
    int r;

    *ret = (struct http1_head){0};
    if (!next_line(&p, end, &line))
        return err_set(e, -EBADMSG, "no request line");
    rest = line;
    ret->method = str_cut(&rest, ' ');
    ret->target = rest.p ? str_cut(&rest, ' ') : (struct str){0};
    if (!http_name_ok(ret->method) || !target_ok(ret->target) || !rest.p)
        return err_set(e, -EBADMSG, "malformed request line");
    r = parse_version(rest, &ret->minor, e);
    if (r == 0)
        r = parse_headers(p, end, lim, a, &ret->headers, e);
    if (r == 0)
        r = parse_framing(ret, e);
    if (r >= 0)
        r = check_host(ret, e);
    if (r < 0)
        return r;
    parse_connection(ret);
    return 0;
}

int http1_parse_response(char *p, size_t n, const struct http1_limits *lim, struct arena *a, struct http1_head *ret,
                         struct err *e)
{
    char *end = p + n;
    struct str line, rest;
    int r, has_length;

    *ret = (struct http1_head){0};
    if (!next_line(&p, end, &line) || line.n < 12)
        return err_set(e, -EBADMSG, "no status line");
    r = parse_version(str_slice(line, 0, 8), &ret->minor, e);
    if (r < 0)
        return r;
    rest = str_slice(line, 8, line.n);
    for (int i = 1; i <= 3; i++)
        if (rest.p[i] < '0' || rest.p[i] > '9')
            return err_set(e, -EBADMSG, "malformed status line");
    if (rest.p[0] != ' ' || (rest.n > 4 && rest.p[4] != ' '))
        return err_set(e, -EBADMSG, "malformed status line");
    ret->status = (rest.p[1] - '0') * 100 + (rest.p[2] - '0') * 10 + (rest.p[3] - '0');
    if (ret->status < 100)
        return err_set(e, -EBADMSG, "malformed status line");
    r = parse_headers(p, end, lim, a, &ret->headers, e);
    if (r < 0)
        return r;
    has_length = parse_framing(ret, e);
    if (has_length < 0)
        return has_length;
    parse_connection(ret);
    if (lim->head_request || ret->status < 200 || ret->status == 204 || ret->status == 304)
        ret->framing = HTTP1_NO_BODY;
    else if (ret->framing == HTTP1_NO_BODY && !has_length) {
        ret->framing = HTTP1_TO_CLOSE;
        ret->keep_alive = false;
    }
    return 0;
}

/* --- bodies --- */
enum { SIZE_FIRST, SIZE, EXTENSION, SIZE_LF, DATA, DATA_CR, DATA_LF, TRAILER_START, TRAILER, TRAILER_LF, END_LF };

void http1_body_init(struct http1_body *b, const struct http1_head *h)
{
    *b = (struct http1_body){.framing = h->framing, .state = SIZE_FIRST};
    b->done = h->framing == HTTP1_NO_BODY;
    if (h->framing == HTTP1_LENGTH)
        b->left = h->content_length;
}

static struct str take_data(struct http1_body *b, const char **p, size_t *n)
{
    size_t k = (size_t) MIN(MIN(b->left, *n), 1u << 30);
    struct str s = {*p, (uint32_t) k};

    *p += k;
    *n -= k;
    b->left -= k;
    return s;
}

static int chunk_size_digit(struct http1_body *b, char c)
{
    int d = hex_digit(c);

    if (d < 0)
        return 0;
    if (b->left >> 56)
        return -EBADMSG;
    b->left = b->left << 4 | (unsigned) d;
    b->state = SIZE;
    return 1;
}

/* Processes one byte outside the data of chunks. */
static int chunk_step(struct http1_body *b, char c)
{
    int r;

    if (++b->overhead > CHUNK_OVERHEAD_MAX)
        return -EBADMSG;
    switch (b->state) {
    case SIZE_FIRST:
    case SIZE:
        r = chunk_size_digit(b, c);
        if (r)
            return MIN(r, 0);
        if (b->state == SIZE_FIRST)
            return -EBADMSG;
        b->state = c == '\r' ? SIZE_LF : EXTENSION;
        return c == '\r' || c == ';' || c == ' ' || c == '\t' ? 0 : -EBADMSG;
    case EXTENSION:
        b->state = c == '\r' ? SIZE_LF : EXTENSION;
        return c == '\n' ? -EBADMSG : 0;
    case SIZE_LF:
        b->state = b->left ? DATA : TRAILER_START;
        return c == '\n' ? 0 : -EBADMSG;
    case DATA_CR:
        b->state = DATA_LF;
        return c == '\r' ? 0 : -EBADMSG;
    case DATA_LF:
        b->state = SIZE_FIRST;
        return c == '\n' ? 0 : -EBADMSG;
    case TRAILER_START:
        b->state = c == '\r' ? END_LF : TRAILER;
        return c == '\n' ? -EBADMSG : 0;
    case TRAILER:
        b->state = c == '\r' ? TRAILER_LF : TRAILER;
        return c == '\n' ? -EBADMSG : 0;
    case TRAILER_LF:
        b->state = TRAILER_START;
        return c == '\n' ? 0 : -EBADMSG;
    case END_LF:
        b->done = true;
        return c == '\n' ? 0 : -EBADMSG;
    default:
        return -EBADMSG;
    }
}

static int chunked_next(struct http1_body *b, const char **p, size_t *n, struct str *ret)
{
    while (*n && !b->done) {
        int r;

        if (b->state == DATA) {
            *ret = take_data(b, p, n);
            if (ret->n >= 64)
                b->overhead = 0; /* chunks of a reasonable size reset the limit */
            if (!b->left)
                b->state = DATA_CR;
            return 0;
        }
        r = chunk_step(b, **p);
        if (r < 0)
            return r;
        (*p)++;
        (*n)--;
    }
    return 0;
}

int http1_body_next(struct http1_body *b, const char **p, size_t *n, struct str *ret)
{
    *ret = (struct str){0};
    if (b->done || !*n)
        return 0;
    switch (b->framing) {
    case HTTP1_LENGTH:
        *ret = take_data(b, p, n);
        b->done = b->left == 0;
        return 0;
    case HTTP1_CHUNKED:
        return chunked_next(b, p, n, ret);
    case HTTP1_TO_CLOSE:
        b->left = *n;
        *ret = take_data(b, p, n);
        return 0;
    default:
        b->done = true;
        return 0;
    }
}

void http1_put_header(struct buf *b, struct str name, struct str value)
{
    buf_put_str(b, name);
    buf_put(b, ": ", 2);
    buf_put_str(b, value);
    buf_put(b, "\r\n", 2);
}
