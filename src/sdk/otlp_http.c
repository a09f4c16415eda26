/* SPDX-License-Identifier: Apache-2.0 */
/* Sends one export as an HTTP/1.1 POST request and checks the status of the response (otlp_http.h). */
#include "sdk/otlp_http.h"

#include <errno.h>
#include <string.h>

#include "sdk/transport.h"

enum { ANSWER_MAX = 16384 };

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

/* The response begins with "HTTP/1.1 200 OK ...". */
static int check_answer(struct str answer, const struct settings *s, struct err *e)
{
    struct str line = str_cut(&answer, '\r');
    uint64_t status = 0;

    str_cut(&line, ' ');
    if (str_to_u64(str_cut(&line, ' '), 10, &status) < 0)
        return err_set(e, -EPROTO, "%.*s:%u does not speak HTTP", STR_FMT(s->host), s->port);
    if (status >= 200 && status < 300)
        return 0;
    if (status == 401)
        return err_set(e, -EPROTO, "the token is missing or wrong for %.*s:%u: set WICK_TOKEN (HTTP status 401)",
                       STR_FMT(s->host), s->port);
    return err_set(e, status == 429 || (status >= 502 && status <= 504) ? -EAGAIN : -EPROTO,
                   "the collector at %.*s:%u%.*s responded with %u %.*s", STR_FMT(s->host), s->port, STR_FMT(s->path),
                   (unsigned) status, STR_FMT(line));
}

int otlp_http_post(const struct settings *s, const struct buf *body, int64_t deadline, void (*pump)(void),
                   struct err *e)
{
    struct transport_target to = {.host = s->host, .port = s->port, .tls = s->tls, .ca_file = s->ca_file};
    struct transport t = {.fd = -1, .deadline = deadline, .pump = pump};
    _cleanup_(buf_done) struct buf head = BUF_INIT;
    char answer[ANSWER_MAX];
    size_t n = 0;
    ptrdiff_t got = 0;
    int r = transport_open(&t, &to, e);

    if (r < 0)
        return r;
    put_request(&head, s, body->n);
    r = buf_error(&head);
    if (r == 0)
        r = transport_write(&t, head.p, head.n, e);
    if (r == 0)
        r = transport_write(&t, body->p, body->n, e);
    while (r == 0 && n < sizeof answer && !memmem(answer, n, "\r\n\r\n", 4)) {
        got = transport_read(&t, answer + n, sizeof answer - n, e);
        if (got <= 0)
            break;
        n += (size_t) got;
    }
    transport_close(&t);
    if (r == 0 && n == 0)
        r = got < 0 ? (int) got : err_set(e, -ECONNRESET, "the collector closed the connection without a response");
    return r < 0 ? r : check_answer((struct str){answer, (uint32_t) n}, s, e);
}
