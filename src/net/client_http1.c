/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 on a client's connection: one request at a time, no pipelining. See client_conn.h. */
#include "net/client_conn.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "net/http1.h"

enum { OUTPUT_HIGH = 256 << 10, HEAD_MAX = 64 << 10, HEADERS_MAX = 200 };

struct wire1 {
    struct buf in;
    size_t scanned;
    struct client_request *r; /* in progress */
    struct http1_body body;
    bool in_body, keep_alive;
};

static struct wire1 *wire_of(struct client_conn *c)
{
    return c->state_of_wire;
}

int client_http1_new(struct client_conn *c)
{
    c->state_of_wire = mem_zalloc(sizeof(struct wire1));
    if (!c->state_of_wire)
        return -ENOMEM;
    c->wire = &client_http1;
    return 0;
}

static int start(struct client_conn *c, struct client_request *r)
{
    struct wire1 *w = wire_of(c);
    struct buf *b = &c->stream.out;
    bool body = r->body.n || strcmp(r->method, "POST") == 0 || strcmp(r->method, "PUT") == 0;

    w->r = r;
    w->in_body = false;
    w->scanned = 0;
    buf_printf(b, "%s %s%.*s HTTP/1.1\r\nhost: %s\r\nuser-agent: %s\r\n", r->method,
               r->target.n && r->target.p[0] == '/' ? "" : "/", STR_FMT(r->target), c->client->url.authority,
               c->client->user_agent);
    for (size_t i = 0; i < r->n_headers; i++)
        http1_put_header(b, r->headers[i].name, r->headers[i].value);
    if (body)
        buf_printf(b, "content-length: %u\r\n", r->body.n);
    buf_puts(b, "\r\n");
    return buf_error(b);
}

static void flush(struct client_conn *c)
{
    struct client_request *r = wire_of(c)->r;

    while (r && r->sent < r->body.n && stream_waiting(&c->stream) < OUTPUT_HIGH) {
        size_t n = MIN(r->body.n - r->sent, OUTPUT_HIGH);

        if (stream_put(&c->stream, r->body.p + r->sent, n) < 0) {
            client_conn_fail(c, -ENOMEM, "out of memory");
            return;
        }
        r->sent += n;
    }
}

static void answered(struct client_conn *c)
{
    struct wire1 *w = wire_of(c);
    struct client_request *r = w->r;

    if (!w->keep_alive || r->sent < r->body.n) /* answered before the whole body was sent: do not send the rest */
        c->no_more = true;
    w->r = NULL;
    w->in_body = false;
    client_end(r, 0, NULL);
}

/* Returns the number of bytes of the head consumed, 0 if it is not complete, or a negative errno. */
static ssize_t take_head(struct client_conn *c, char *p, size_t n)
{
    struct wire1 *w = wire_of(c);
    struct client_request *r = w->r;
    const struct http1_limits limits = {
        .head_bytes = HEAD_MAX, .headers = HEADERS_MAX, .head_request = strcmp(r->method, "HEAD") == 0};
    ssize_t head = http1_head_length(p, n, w->scanned, HEAD_MAX);
    struct http1_head h;
    struct err e = {0};
    char *copy;
    int code;

    w->scanned = head == 0 ? n : 0;
    if (head < 0)
        client_conn_fail(c, -EPROTO, "%s: the response header is larger than %d bytes", c->peer, HEAD_MAX);
    if (head <= 0)
        return head;
    copy = arena_alloc_aligned(&r->arena, (size_t) head, 1);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, p, (size_t) head);
    code = http1_parse_response(copy, (size_t) head, &limits, &r->arena, &h, &e);
    if (code < 0) {
        client_conn_fail(c, -EPROTO, "%s: malformed response: %s", c->peer, err_message(&e, code));
        return code;
    }
    if (h.status < 200) /* 100 Continue and other interim responses */
        return h.status == 101 ? -EPROTO : head;
    r->status = h.status;
    r->headers_in = h.headers;
    w->keep_alive = h.keep_alive;
    w->in_body = true;
    http1_body_init(&w->body, &h);
    code = client_take_head(r);
    return code < 0 ? code : head;
}

static void take_body(struct client_conn *c, const char **p, size_t *n)
{
    struct wire1 *w = wire_of(c);

    while (w->r && !w->body.done && *n) {
        struct str piece;

        if (http1_body_next(&w->body, p, n, &piece) < 0) {
            client_conn_fail(c, -EPROTO, "%s: malformed chunk", c->peer);
            return;
        }
        if (piece.n && client_take_data(w->r, piece) < 0)
            return;
    }
    if (w->r && w->body.done)
        answered(c);
}

static void process(struct client_conn *c, char **p, size_t *n)
{
    struct wire1 *w = wire_of(c);

    while (!c->failed && w->r && (*n || (w->in_body && w->body.done))) {
        if (w->in_body) {
            const char *q = *p;

            take_body(c, &q, n);
            *p += q - *p;
        } else {
            ssize_t head = take_head(c, *p, *n);

            if (head < 0 && !c->failed)
                client_conn_fail(c, (int) head, "%s: invalid response", c->peer);
            if (head <= 0)
                return;
            *p += head;
            *n -= (size_t) head;
        }
    }
    if (*n && !w->r && !c->failed)
        client_conn_fail(c, -EPROTO, "%s sent unexpected data", c->peer);
}

static void input(struct client_conn *c, char *p, size_t n)
{
    struct wire1 *w = wire_of(c);

    if (w->in.n) {
        char *q;
        size_t left;

        buf_put(&w->in, p, n);
        if (buf_error(&w->in)) {
            client_conn_fail(c, -ENOMEM, "out of memory");
            return;
        }
        q = w->in.p;
        left = w->in.n;
        process(c, &q, &left);
        memmove(w->in.p, q, left);
        w->in.n = left;
    } else {
        process(c, &p, &n);
        buf_put(&w->in, p, n);
    }
    if (!w->in.n || c->failed)
        buf_done(&w->in);
}

static void eof(struct client_conn *c)
{
    struct wire1 *w = wire_of(c);

    if (w->r && w->in_body && w->body.framing == HTTP1_TO_CLOSE)
        answered(c);
}

static void abort_request(struct client_conn *c, struct client_request *r)
{
    struct wire1 *w = wire_of(c);

    if (w->r != r)
        return;
    w->r = NULL;
    c->failed = true; /* the rest of its response would arrive here */
    client_conn_schedule(c);
}

static unsigned room(const struct client_conn *c)
{
    const struct wire1 *w = c->state_of_wire;

    return w->r == NULL;
}

static void done(struct client_conn *c)
{
    struct wire1 *w = wire_of(c);

    buf_done(&w->in);
    mem_free(w);
}

const struct client_wire client_http1 = {
    .start = start,
    .input = input,
    .eof = eof,
    .flush = flush,
    .abort = abort_request,
    .room = room,
    .done = done,
};
