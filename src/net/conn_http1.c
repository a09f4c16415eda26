/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 on a server's connection. One request at a time: while it is answered the socket is not read, so TCP holds
 * back a pipelining peer; what arrived with the same read is kept in `in` (at most one read's worth).
 */
#include "net/exchange.h"
#include "net/http1.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

enum { OUTPUT_HIGH = 256 << 10 };

struct http1 {
    struct buf in;      /* not parsed yet */
    size_t scanned;     /* bytes of it that do not contain the end of a head */
    struct exchange *x; /* the request in progress */
    struct http1_body body;
    bool in_body, answering, keep_alive, chunked_out, head_put;
};

static struct http1 *http1_of(struct conn *c)
{
    return c->state;
}

static const struct http_server_options *options(struct conn *c)
{
    return &c->worker->server->o;
}

int conn_http1_new(struct conn *c)
{
    c->state = mem_zalloc(sizeof(struct http1));
    if (!c->state)
        return -ENOMEM;
    c->protocol = &conn_http1;
    return 0;
}

/* --- requests --- */
/* Answers input that cannot be parsed as a request, and closes the connection afterwards. */
static void refuse(struct conn *c, int status, const char *text)
{
    struct http1 *h = http1_of(c);

    h->keep_alive = false;
    if (!h->x)
        h->x = exchange_new(c);
    if (!h->x) {
        conn_fail(c);
        return;
    }
    h->x->q.version = 11;
    h->answering = true;
    exchange_refuse(h->x, status, text);
}

static int status_of_error(int r)
{
    switch (r) {
    case -EMSGSIZE:
    case -E2BIG:
        return 431;
    case -EPROTONOSUPPORT:
        return 505;
    case -ENOTSUP:
        return 501;
    case -ENOMEM:
        return 503;
    default:
        return 400;
    }
}

static void refuse_error(struct conn *c, int r, const struct err *e)
{
    char text[256];

    snprintf(text, sizeof text, "%s\n", err_message(e, r));
    refuse(c, status_of_error(r), text);
}

/* The head is complete: copies it, so that its strings live as long as the request. */
static int take_head(struct conn *c, const char *p, size_t n)
{
    struct http1 *h = http1_of(c);
    struct http1_limits lim = {.head_bytes = options(c)->max_head, .headers = options(c)->max_headers};
    struct http1_head head;
    struct err e = {0};
    char *copy;
    int r;

    h->x = exchange_new(c);
    copy = h->x ? arena_alloc_aligned(&h->x->q.arena, n, 1) : NULL;
    if (!copy || exchange_account(h->x, n) < 0) {
        conn_fail(c);
        return -ENOMEM;
    }
    memcpy(copy, p, n);
    r = http1_parse_request(copy, n, &lim, &h->x->q.arena, &head, &e);
    if (r == 0 && exchange_set_target(h->x, head.target) < 0)
        r = err_set(&e, -EBADMSG, "the request target is not a path");
    if (r < 0) {
        refuse_error(c, r, &e);
        return r;
    }
    h->x->q.method = head.method;
    h->x->q.headers = head.headers;
    h->x->q.version = 10 + head.minor;
    if (!h->x->q.authority.p)
        h->x->q.authority = http_headers_get(&head.headers, "host");
    h->keep_alive = head.keep_alive && !c->draining;
    h->in_body = true;
    h->answering = h->head_put = false;
    http1_body_init(&h->body, &head);
    return head.expect_continue && head.framing != HTTP1_NO_BODY ? 1 : 0;
}

static void begin_request(struct conn *c, bool expects)
{
    struct http1 *h = http1_of(c);
    struct exchange *x = h->x;
    bool keep_alive = h->keep_alive;

    /* If the handler answers before the body is read, the connection is closed afterwards: the rest of the body is not
     * worth reading. */
    if (!h->body.done)
        h->keep_alive = false;
    if (!exchange_begin(x)) {
        h->answering = true;
        return;
    }
    h->keep_alive = keep_alive;
    if (h->body.framing == HTTP1_LENGTH && h->body.left > x->q.max_body) {
        refuse(c, 413, "the body is larger than the limit\n");
        return;
    }
    if (expects)
        stream_put(&c->stream, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    conn_set_deadline(c, conn_body_deadline(c, x) - loop_now(c->worker->loop));
}

static const char *refusal_text(int status)
{
    return status == 413   ? "the body is larger than the limit\n"
           : status == 503 ? "busy\n"
                           : "cannot receive the body\n";
}

static void read_body(struct conn *c, const char **p, size_t *n)
{
    struct http1 *h = http1_of(c);

    while (!h->body.done && *n) {
        struct str piece;
        int r = http1_body_next(&h->body, p, n, &piece);

        if (r < 0) {
            refuse(c, 400, "malformed chunk\n");
            return;
        }
        r = piece.n ? exchange_body(h->x, piece.p, piece.n) : 0;
        if (r) {
            h->keep_alive = false;
            h->answering = true;
            if (r > 0)
                refuse(c, r, refusal_text(r));
            return;
        }
    }
    if (!h->body.done) {
        conn_set_deadline(c, conn_body_deadline(c, h->x) - loop_now(c->worker->loop));
        return;
    }
    h->answering = true;
    h->in_body = false;
    conn_set_deadline(c, 0); /* no deadline while the handler runs */
    exchange_dispatch(h->x);
}

/* Consumes as much input as possible. Stops while a request is being answered. */
static void process(struct conn *c, char **p, size_t *n)
{
    struct http1 *h = http1_of(c);

    while (!h->answering && !c->failed && !c->closing) {
        ssize_t head;
        int r;

        if (h->in_body) {
            const char *q = *p;

            if (!*n && !h->body.done)
                return;
            read_body(c, &q, n);
            *p += q - *p;
            continue;
        }
        while (*n && h->scanned == 0 && ((*p)[0] == '\r' || (*p)[0] == '\n')) { /* empty lines before a request */
            (*p)++;
            (*n)--;
        }
        if (!*n)
            return;
        head = http1_head_length(*p, *n, h->scanned, options(c)->max_head);
        if (head < 0) {
            refuse(c, 431, "the request header is larger than the limit\n");
            return;
        }
        if (head == 0) {
            if (!h->scanned)
                conn_set_deadline(c, options(c)->head_timeout_ns);
            h->scanned = *n;
            return;
        }
        h->scanned = 0;
        r = take_head(c, *p, (size_t) head);
        *p += head;
        *n -= (size_t) head;
        if (r < 0)
            return;
        begin_request(c, r > 0);
    }
}

static void after_input(struct conn *c)
{
    struct http1 *h = http1_of(c);

    if (h->answering && !c->closing && !c->lingering)
        stream_pause(&c->stream);
    conn_schedule(c);
}

static void input(struct conn *c, char *p, size_t n)
{
    struct http1 *h = http1_of(c);

    if (h->in.n) {
        size_t left;
        char *q;

        buf_put(&h->in, p, n);
        q = h->in.p;
        left = h->in.n;
        if (buf_error(&h->in)) {
            conn_fail(c);
            return;
        }
        process(c, &q, &left);
        if (left)
            memmove(h->in.p, q, left);
        h->in.n = left;
    } else {
        process(c, &p, &n);
        buf_put(&h->in, p, n);
    }
    if (buf_error(&h->in) || conn_hold(c, h->in.n) < 0)
        conn_fail(c);
    if (!h->in.n)
        buf_done(&h->in);
    after_input(c);
}

/* --- answers --- */
static void put_head(struct conn *c, struct exchange *x)
{
    struct http1 *h = http1_of(c);
    struct buf *b = &c->stream.out;
    bool length_known = x->head_only || !x->q.trailers.n || x->q.version < 11;

    if (c->draining || (c->peer_closed && !h->in.n))
        h->keep_alive = false;
    h->chunked_out = !length_known;
    buf_printf(b, "HTTP/1.1 %d %s\r\ndate: %s\r\n", x->q.status, http_reason(x->q.status), worker_date(c->worker));
    for (uint32_t i = 0; i < x->q.answer_headers.n; i++)
        http1_put_header(b, x->q.answer_headers.v[i].name, x->q.answer_headers.v[i].value);
    if (h->chunked_out)
        buf_puts(b, "transfer-encoding: chunked\r\n");
    else if (x->q.status != 204 && x->q.status != 304)
        buf_printf(b, "content-length: %llu\r\n", (unsigned long long) exchange_length(x));
    if (!h->keep_alive)
        buf_puts(b, "connection: close\r\n");
    else if (x->q.version < 11)
        buf_puts(b, "connection: keep-alive\r\n");
    buf_puts(b, "\r\n");
    h->head_put = true;
}

static void respond(struct conn *c, struct exchange *x)
{
    if (!http1_of(c)->head_put)
        put_head(c, x);
}

static void put_end(struct conn *c, struct exchange *x)
{
    struct buf *b = &c->stream.out;

    if (!http1_of(c)->chunked_out)
        return;
    buf_puts(b, "0\r\n");
    for (uint32_t i = 0; i < x->q.trailers.n; i++)
        http1_put_header(b, x->q.trailers.v[i].name, x->q.trailers.v[i].value);
    buf_puts(b, "\r\n");
}

static void answered(struct conn *c)
{
    struct http1 *h = http1_of(c);
    struct exchange *x = h->x;

    h->x = NULL;
    h->answering = h->in_body = h->head_put = false;
    exchange_free(x);
    if (!h->keep_alive || (c->peer_closed && !h->in.n)) {
        c->closing = true;
        return;
    }
    conn_set_deadline(c, options(c)->idle_timeout_ns);
    if (h->in.n)
        input(c, NULL, 0); /* pipelined requests */
    if (!h->answering && !c->failed)
        stream_resume(&c->stream);
}

static void flush(struct conn *c)
{
    struct http1 *h = http1_of(c);
    struct exchange *x = h->x;
    bool end = false;

    while (x && h->head_put && stream_waiting(&c->stream) < OUTPUT_HIGH) {
        struct str s = exchange_output(x, &end);
        size_t n = MIN(s.n, OUTPUT_HIGH);

        if (end) {
            put_end(c, x);
            answered(c);
            return;
        }
        if (!n) { /* the file cannot be read: the peer sees that the response is incomplete */
            conn_fail(c);
            return;
        }
        if (h->chunked_out)
            buf_printf(&c->stream.out, "%zx\r\n", n);
        stream_put(&c->stream, s.p, n);
        if (h->chunked_out)
            buf_puts(&c->stream.out, "\r\n");
        exchange_sent(x, n);
    }
}

/* --- the rest --- */
static void timer(struct conn *c, int64_t now)
{
    struct http1 *h = http1_of(c);

    atomic_fetch_add_explicit(&c->worker->server->timeouts, 1, memory_order_relaxed);
    if (!h->answering && (h->x || h->scanned)) { /* in the middle of a request: send an error response */
        conn_set_deadline(c, NS_PER_S);
        refuse(c, 408, "the request took too long\n");
        conn_schedule(c);
        return;
    }
    conn_fail(c);
}

static void drop(struct conn *c, struct exchange *x)
{
    (void) x;
    conn_fail(c);
}

static bool idle(const struct conn *c)
{
    const struct http1 *h = c->state;

    return !h->x && !h->in.n && !stream_waiting(&c->stream);
}

static void drain(struct conn *c)
{
    c->draining = true;
    http1_of(c)->keep_alive = false;
    if (idle(c))
        conn_fail(c);
}

static void done(struct conn *c)
{
    struct http1 *h = http1_of(c);

    buf_done(&h->in);
    mem_free(h);
}

const struct conn_protocol conn_http1 = {
    .input = input,
    .respond = respond,
    .flush = flush,
    .timer = timer,
    .drop = drop,
    .drain = drain,
    .idle = idle,
    .done = done,
};
