/* SPDX-License-Identifier: Apache-2.0 */
/* A request and its response, independent of the version of HTTP. See exchange.h and server.h. */
#include "net/exchange.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/mem.h"
#include "net/peer_uid.h"

enum { REQUEST_ARENA_MAX = 64 << 20, BODY_RESERVE_MAX = 4 << 20 };

static struct exchange *exchange_of(const struct http_request *q)
{
    return (struct exchange *) (uintptr_t) q; /* its first member */
}

static void finish_on_loop(struct loop_call *call);

struct exchange *exchange_new(struct conn *c)
{
    struct exchange *x = mem_zalloc(sizeof *x);
    const struct http_server_options *o = &c->worker->server->o;

    if (!x)
        return NULL;
    x->conn = c;
    x->worker = c->worker;
    x->peer = c->from;
    x->started = loop_now(c->worker->loop);
    x->finish_call.run = finish_on_loop;
    arena_init(&x->q.arena, REQUEST_ARENA_MAX);
    x->q.status = 200;
    x->q.max_body = o->max_body;
    x->q.server_arg = o->arg;
    x->q.tls = c->is_tls;
    x->q.scheme = c->is_tls ? STR("https") : STR("http");
    x->q.peer = "";
    x->q.peer_subject = "";
    x->q.peer_uid = HTTP_NO_UID;
    x->next = c->exchanges;
    if (x->next)
        x->next->prev = x;
    c->exchanges = x;
    c->n_exchanges++;
    return x;
}

static void leave_conn(struct exchange *x)
{
    struct conn *c = x->conn;

    if (!c)
        return;
    if (x->prev)
        x->prev->next = x->next;
    else
        c->exchanges = x->next;
    if (x->next)
        x->next->prev = x->prev;
    x->prev = x->next = NULL;
    x->conn = NULL;
    c->n_exchanges--;
}

static void unaccount(struct exchange *x)
{
    atomic_fetch_sub_explicit(&x->worker->server->buffered, x->accounted, memory_order_relaxed);
    if (x->peer)
        atomic_fetch_sub_explicit(&x->peer->buffered, x->accounted, memory_order_relaxed);
    x->accounted = 0;
}

int exchange_account(struct exchange *x, size_t n)
{
    struct http_server *s = x->worker->server;

    x->accounted += n;
    if (x->peer &&
        atomic_fetch_add_explicit(&x->peer->buffered, n, memory_order_relaxed) + n > s->o.max_peer_buffered) {
        atomic_fetch_add_explicit(&s->buffered, n, memory_order_relaxed);
        return -ENOBUFS;
    }
    return atomic_fetch_add_explicit(&s->buffered, n, memory_order_relaxed) + n > s->o.max_buffered ? -ENOBUFS : 0;
}

void exchange_free(struct exchange *x)
{
    if (!x)
        return;
    assert(x->state != EXCHANGE_HANDED);
    unaccount(x);
    if (x->owns_peer)
        peers_unref(&x->worker->server->peers, x->peer);
    leave_conn(x);
    if (x->q.released)
        x->q.released(&x->q);
    buf_done(&x->body);
    buf_done(&x->q.answer);
    arena_done(&x->q.arena);
    mem_free(x);
}

int exchange_set_target(struct exchange *x, struct str target)
{
    struct http_request *q = &x->q;
    ptrdiff_t mark;

    q->target = target;
    if (str_starts(target, STR("http://")) || str_starts(target, STR("https://"))) { /* absolute form */
        struct str rest = str_slice(target, target.p[4] == 's' ? 8 : 7, target.n);
        ptrdiff_t slash = str_find_char(rest, '/');

        q->authority = slash < 0 ? rest : str_slice(rest, 0, (size_t) slash);
        target = slash < 0 ? STR("/") : str_slice(rest, (size_t) slash, rest.n);
    }
    if (!target.n || (target.p[0] != '/' && !str_is(target, "*")))
        return -EBADMSG;
    mark = str_find_char(target, '?');
    q->path = mark < 0 ? target : str_slice(target, 0, (size_t) mark);
    q->query = mark < 0 ? STR("") : str_slice(target, (size_t) mark + 1, target.n);
    return 0;
}

/* From here on the handler owns the exchange. */
static void hand_over(struct exchange *x)
{
    x->state = EXCHANGE_HANDED;
    x->worker->n_handed++;
}

/* Looks up the peer's uid, once per connection, when the head of its first request is complete: then the peer waits for
 * a response, so its socket is open. */
static void identify(struct conn *c)
{
    if (c->identified)
        return;
    c->identified = true;
    c->uid = HTTP_NO_UID;
    peer_uid(c->stream.io.fd, &c->uid);
}

bool exchange_begin(struct exchange *x)
{
    struct http_server *s = x->worker->server;

    atomic_fetch_add_explicit(&s->requests, 1, memory_order_relaxed);
    x->q.peer = arena_cstr(&x->q.arena, str_from(x->conn->peer));
    if (x->conn->subject)
        x->q.peer_subject = arena_cstr(&x->q.arena, str_from(x->conn->subject));
    if (!x->q.peer || !x->q.peer_subject) {
        exchange_refuse(x, 503, "out of memory\n");
        return false;
    }
    if (s->o.identify_peers) {
        identify(x->conn);
        x->q.peer_uid = x->conn->uid;
    }
    x->head_only = str_is(x->q.method, "HEAD");
    if (x->worker->n_handed >= s->o.max_requests) {
        exchange_refuse(x, 503, "busy\n");
        return false;
    }
    if (!s->o.begin)
        return true;
    hand_over(x);
    x->discard = true; /* in case it answers at once, from inside begin() */
    if (s->o.begin(s->o.arg, &x->q))
        return false;
    x->discard = false;
    x->state = EXCHANGE_READING;
    x->worker->n_handed--;
    return true;
}

/* Reserves memory for a body of known size: the content length, or the length of the gRPC message. */
static void reserve_body(struct exchange *x, const char *p, size_t n)
{
    struct str length = http_headers_get(&x->q.headers, "content-length");
    uint64_t want = 0;

    if (length.p)
        str_to_u64(length, 10, &want);
    else if (n >= 5 && str_starts(http_headers_get(&x->q.headers, "content-type"), STR("application/grpc")))
        want = 5 + (uint64_t) load_be32(p + 1);
    x->body.limit = x->q.max_body;
    if (want > n && want <= BODY_RESERVE_MAX && want <= x->q.max_body)
        buf_reserve(&x->body, want);
}

int exchange_body(struct exchange *x, const char *p, size_t n)
{
    x->body_seen += n;
    if (x->discard || !n)
        return 0;
    if (x->body_seen > x->q.max_body)
        return 413;
    if (x->q.on_body) {
        int r = x->q.on_body(&x->q, (struct str){p, (uint32_t) n});

        if (x->state != EXCHANGE_READING)
            return -1;
        return r < 0 ? 500 : 0;
    }
    if (exchange_account(x, n) < 0)
        return 503;
    if (!x->body.n)
        reserve_body(x, p, n);
    buf_put(&x->body, p, n);
    return buf_error(&x->body) ? 503 : 0;
}

void exchange_dispatch(struct exchange *x)
{
    struct http_server *s = x->worker->server;

    x->q.body = buf_str(&x->body);
    hand_over(x);
    s->o.handle(s->o.arg, &x->q);
}

void exchange_refuse(struct exchange *x, int status, const char *text)
{
    if (status >= 400 && status < 500)
        atomic_fetch_add_explicit(&x->worker->server->bad_requests, 1, memory_order_relaxed);
    if (x->state == EXCHANGE_READING) {
        x->discard = true;
        hand_over(x);
    }
    if (status == 503)
        http_add_header(&x->q, "retry-after", STR("1"));
    http_reply(&x->q, status, "text/plain; charset=utf-8", str_from(text));
}

void exchange_cancel(struct exchange *x)
{
    if (x->cancel_reported || x->state != EXCHANGE_HANDED)
        return;
    x->cancel_reported = true;
    if (x->q.cancelled)
        x->q.cancelled(&x->q);
}

void exchange_abandon(struct exchange *x)
{
    if (x->state != EXCHANGE_HANDED) {
        exchange_free(x);
        return;
    }
    peers_ref(&x->worker->server->peers, x->peer);
    x->owns_peer = true;
    leave_conn(x); /* first: the handler may finish from inside cancelled(), which frees the exchange */
    exchange_cancel(x);
}

/* --- the response --- */
int http_add_header(struct http_request *q, const char *name, struct str value)
{
    return http_headers_add(&q->answer_headers, &q->arena, str_from(name), value);
}

int http_add_trailer(struct http_request *q, const char *name, struct str value)
{
    return http_headers_add(&q->trailers, &q->arena, str_from(name), value);
}

static void finish_on_loop(struct loop_call *call)
{
    struct exchange *x = container_of(call, struct exchange, finish_call);
    struct conn *c = x->conn;
    struct server_worker *w = x->worker;

    assert(x->state == EXCHANGE_HANDED);
    x->state = EXCHANGE_FINISHED;
    x->touched = loop_now(w->loop);
    w->n_handed--;
    if (!c) {
        exchange_free(x);
        worker_maybe_stopped(w);
        return;
    }
    c->protocol->respond(c, x);
    conn_schedule(c);
}

void http_finish(struct http_request *q)
{
    struct exchange *x = exchange_of(q);

    if (loop_is_own_thread(x->worker->loop))
        finish_on_loop(&x->finish_call);
    else
        loop_post(x->worker->loop, &x->finish_call);
}

void http_reply(struct http_request *q, int status, const char *content_type, struct str body)
{
    q->status = status;
    buf_reset(&q->answer);
    if (content_type) {
        http_add_header(q, "content-type", str_from(content_type));
        buf_put_str(&q->answer, body);
    }
    http_finish(q);
}

void http_reply_text(struct http_request *q, int status, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    http_reply(q, status, "text/plain; charset=utf-8", str_from(text));
}

void http_take_body(struct http_request *q, struct buf *ret)
{
    struct exchange *x = exchange_of(q);

    *ret = x->body;
    x->body = BUF_INIT;
}

/* --- for the protocols --- */
bool exchange_has_body(const struct exchange *x)
{
    return !x->head_only && x->q.status != 204 && x->q.status != 304 && exchange_length(x) > 0;
}

size_t exchange_length(const struct exchange *x)
{
    return x->q.answer_const.p ? x->q.answer_const.n : x->q.answer.n;
}

struct str exchange_output(struct exchange *x, bool *ret_end)
{
    const char *p = x->q.answer_const.p ? x->q.answer_const.p : x->q.answer.p;
    size_t left = exchange_has_body(x) ? exchange_length(x) - x->answer_pos : 0;

    *ret_end = left == 0;
    return (struct str){left ? p + x->answer_pos : NULL, (uint32_t) MIN(left, UINT32_MAX)};
}

void exchange_sent(struct exchange *x, size_t n)
{
    x->touched = loop_now(x->worker->loop);
    x->answer_pos += n;
}

const char *worker_date(struct server_worker *w)
{
    int64_t now = clock_wall();

    if (now / NS_PER_S != w->date_second) {
        w->date_second = now / NS_PER_S;
        http_date_format(now, w->date);
    }
    return w->date;
}
