/* SPDX-License-Identifier: Apache-2.0 */
/* Sends one export as an HTTP/1.1 POST request and checks the status of the response (otlp_http.h). */
#include "sdk/otlp_http.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "net/http1.h"
#include "sdk/transport.h"

enum { ANSWER_MAX = 16384, HEADERS_MAX = 100 };

static void put_request(struct buf *b, const struct settings *s, size_t body)
{
    buf_printf(b,
               "POST %.*s HTTP/1.1\r\nHost: %.*s:%u\r\nContent-Type: application/x-protobuf\r\n"
               "User-Agent: wick/" WICK_VERSION
               "\r\nOTLP-Profiles-Development-Version: 1\r\nConnection: close\r\nContent-Length: %zu\r\n",
               STR_FMT(s->path), STR_FMT(s->host), s->port, body);
    if (s->compression == WICK_COMPRESSION_GZIP)
        buf_puts(b, "Content-Encoding: gzip\r\n");
    for (uint32_t i = 0; i < s->n_headers; i++)
        buf_printf(b, "%.*s: %.*s\r\n", STR_FMT(s->headers[i].name), STR_FMT(s->headers[i].value));
    buf_puts(b, "\r\n");
}

/* The status of the response in p, or -EPROTO if it is not HTTP. */
static int status_of(char *p, size_t n)
{
    static const struct http1_limits limits = {ANSWER_MAX, HEADERS_MAX};
    ssize_t length = http1_head_length(p, n, 0, ANSWER_MAX);
    struct http1_head h;
    struct arena a;
    int r = -EPROTO;

    if (length <= 0)
        return r;
    arena_init(&a, 0);
    if (http1_parse_response(p, (size_t) length, &limits, &a, &h, NULL) == 0)
        r = h.status;
    arena_done(&a);
    return r;
}

static int check_answer(int status, const struct settings *s, struct err *e)
{
    if (status < 0)
        return err_set(e, -EPROTO, "%.*s:%u does not speak HTTP", STR_FMT(s->host), s->port);
    if (status >= 200 && status < 300)
        return 0;
    if (status == 401)
        return err_set(e, -EPROTO, "the token is missing or wrong for %.*s:%u: set WICK_TOKEN (HTTP status 401)",
                       STR_FMT(s->host), s->port);
    return err_set(e, status == 429 || (status >= 502 && status <= 504) ? -EAGAIN : -EPROTO,
                   "the collector at %.*s:%u%.*s responded with %d %s", STR_FMT(s->host), s->port, STR_FMT(s->path),
                   status, http_reason(status));
}

int otlp_http_post(const struct settings *s, const struct buf *body, int64_t deadline, void (*pump)(void),
                   int *ret_status, struct err *e)
{
    struct transport_target to = {.host = s->host, .port = s->port, .tls = s->tls, .ca_file = s->ca_file};
    struct transport t = {.fd = -1, .deadline = deadline, .pump = pump};
    _cleanup_(buf_done) struct buf head = BUF_INIT;
    char answer[ANSWER_MAX];
    size_t n = 0;
    ptrdiff_t got = 0;
    int r = transport_open(&t, &to, e);

    *ret_status = 0;
    if (r < 0)
        return r;
    put_request(&head, s, body->n);
    r = buf_error(&head);
    if (r == 0)
        r = transport_write(&t, head.p, head.n, e);
    if (r == 0)
        r = transport_write(&t, body->p, body->n, e);
    while (r == 0 && n < sizeof answer && http1_head_length(answer, n, 0, sizeof answer) == 0) {
        got = transport_read(&t, answer + n, sizeof answer - n, e);
        if (got <= 0)
            break;
        n += (size_t) got;
    }
    transport_close(&t);
    if (n)
        *ret_status = status_of(answer, n);
    else if (r != -ETIMEDOUT && got != -ETIMEDOUT) /* the connection was made, and the peer broke it off */
        *ret_status = -EPROTO;
    if (r == 0 && n == 0)
        r = got < 0 ? (int) got : err_set(e, -ECONNRESET, "the collector closed the connection without a response");
    return r < 0 ? r : check_answer(*ret_status, s, e);
}
