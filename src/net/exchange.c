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
#include "base/fd.h"
#include "base/mem.h"
#include "net/peer_uid.h"

enum {
    REQUEST_ARENA_MAX = 64 << 20,
    BODY_RESERVE_MAX = 4 << 20,
    PIECE = 128 << 10,        /* of a file, in memory at a time */
    READ_AHEAD = 1 << 20,     /* the kernel is asked for so much of a file before it is needed */
    ALWAYS_ANSWERED = 8 << 10 /* a response that is not larger is never refused: error messages, states */
};
#define SLOW_AFTER (2 * NS_PER_S) /* a response that made no progress for so long may be dropped if memory is short */

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
    x->q.answer_fd = -1;
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

/* --- memory of responses --- */
static void release_answer(struct exchange *x)
{
    atomic_fetch_sub_explicit(&x->worker->server->answers, x->held, memory_order_relaxed);
    if (x->peer)
        atomic_fetch_sub_explicit(&x->peer->answers, x->held, memory_order_relaxed);
    if (x->q.share)
        atomic_fetch_sub_explicit(&x->q.share->held, x->held, memory_order_relaxed);
    x->held = 0;
}

static bool is_full(const atomic_size_t *held, size_t limit)
{
    return limit && atomic_load_explicit(held, memory_order_relaxed) >= limit;
}

static bool share_is_full(const struct exchange *x)
{
    return x->q.share && is_full(&x->q.share->held, x->q.share->limit);
}

/* Whether what the connection holds is counted for something that has no room for x, or for itself if x is NULL. */
static bool crowds(const struct conn *c, const struct exchange *x)
{
    const struct http_server *s = c->worker->server;

    return (c->from && (!x || c->from == x->peer) && is_full(&c->from->answers, s->o.max_peer_answers)) ||
           is_full(&s->answers, s->o.max_answers);
}

/* Like the token bucket of a rate: a response of any size is taken while there is room at all. */
static bool has_room(const struct exchange *x)
{
    const struct http_server *s = x->worker->server;

    return !is_full(&s->answers, s->o.max_answers) &&
           !(x->peer && is_full(&x->peer->answers, s->o.max_peer_answers)) && !share_is_full(x);
}

/* The response that is read most slowly, of those that made no progress for a while and crowd out x (NULL: any); of the
 * loop's own connections. */
static struct exchange *slowest(const struct server_worker *w, const struct exchange *x)
{
    int64_t now = loop_now(w->loop);
    struct exchange *found = NULL;
    double least = 0;

    for (struct conn *c = w->conns; c; c = c->next)
        for (struct exchange *v = c->exchanges; v; v = v->next) {
            double rate = (double) v->answer_pos / (double) MAX(now - v->finished, 1);

            if (v->state != EXCHANGE_FINISHED || !v->held || now - v->touched < SLOW_AFTER || (found && rate >= least) ||
                !(crowds(c, x) || (share_is_full(v) && (!x || v->q.share == x->q.share))))
                continue;
            found = v;
            least = rate;
        }
    return found;
}

/* Makes room for x (NULL: for any) by dropping a response, or the rest of one that waits for the socket. False if there is
 * none. */
static bool drop_slowest(struct server_worker *w, const struct exchange *x)
{
    struct exchange *v = slowest(w, x);

    if (v) {
        release_answer(v);
        v->conn->protocol->drop(v->conn, v);
        return true;
    }
    for (struct conn *c = w->conns; c; c = c->next)
        if (c->held_output && crowds(c, x) && loop_now(w->loop) - c->progressed >= SLOW_AFTER) {
            conn_hold_output(c, 0);
            conn_fail(c);
            return true;
        }
    return false;
}

static bool holds_answers(const struct server_worker *w)
{
    for (const struct conn *c = w->conns; c; c = c->next) {
        if (c->held_output)
            return true;
        for (const struct exchange *v = c->exchanges; v; v = v->next)
            if (v->held)
                return true;
    }
    return false;
}

/* What is held here can be what a request of another loop has no room for, and only this loop may touch it. */
void exchange_make_room(struct loop_timer *t)
{
    struct server_worker *w = container_of(t, struct server_worker, room);

    while (drop_slowest(w, NULL))
        atomic_fetch_add_explicit(&w->server->unread, 1, memory_order_relaxed);
    if (holds_answers(w))
        loop_timer_set(w->loop, t, loop_now(w->loop) + SLOW_AFTER / 2);
}

/* Counts the response in what the server holds until it is read. -ENOBUFS if there is no room, even after those who do
 * not read were dropped. */
static int hold_answer(struct exchange *x)
{
    struct http_server *s = x->worker->server;
    size_t n = x->q.answer_fd >= 0 ? PIECE : x->q.answer.cap;

    while (n > ALWAYS_ANSWERED && !has_room(x)) {
        atomic_fetch_add_explicit(&s->unread, 1, memory_order_relaxed);
        if (!drop_slowest(x->worker, x))
            return -ENOBUFS;
    }
    x->held = n;
    if (n > ALWAYS_ANSWERED && !x->worker->room.at)
        loop_timer_set(x->worker->loop, &x->worker->room, loop_now(x->worker->loop) + SLOW_AFTER);
    atomic_fetch_add_explicit(&s->answers, n, memory_order_relaxed);
    if (x->peer)
        atomic_fetch_add_explicit(&x->peer->answers, n, memory_order_relaxed);
    if (x->q.share)
        atomic_fetch_add_explicit(&x->q.share->held, n, memory_order_relaxed);
    return 0;
}

/* Replaces a response that may not be held. */
static void shed_answer(struct exchange *x)
{
    static const char text[] = "too many responses are waiting to be read by this user or address; read them, then retry\n";

    fd_close(x->q.answer_fd);
    x->q.answer_fd = -1;
    buf_done(&x->q.answer);
    x->q.answer_headers.n = x->q.trailers.n = 0;
    x->q.status = 503;
    x->q.answer_const = (struct str){text, sizeof text - 1};
    http_add_header(&x->q, "content-type", STR("text/plain; charset=utf-8"));
    http_add_header(&x->q, "retry-after", STR("1"));
}

void exchange_free(struct exchange *x)
{
    if (!x)
        return;
    assert(x->state != EXCHANGE_HANDED);
    unaccount(x);
    release_answer(x);
    if (x->owns_peer)
        peers_unref(&x->worker->server->peers, x->peer);
    leave_conn(x);
    if (x->q.released)
        x->q.released(&x->q);
    buf_done(&x->body);
    buf_done(&x->q.answer);
    buf_done(&x->piece);
    fd_close(x->q.answer_fd);
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
    x->touched = x->finished = loop_now(w->loop);
    w->n_handed--;
    if (!c) {
        exchange_free(x);
        worker_maybe_stopped(w);
        return;
    }
    if (hold_answer(x) < 0)
        shed_answer(x);
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

void http_answer_file(struct http_request *q, int fd, uint64_t size)
{
    fd_close(q->answer_fd);
    q->answer_fd = fd;
    q->answer_size = size;
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

uint64_t exchange_length(const struct exchange *x)
{
    if (x->q.answer_fd >= 0)
        return x->q.answer_size;
    return x->q.answer_const.p ? x->q.answer_const.n : x->q.answer.n;
}

uint64_t exchange_left(const struct exchange *x)
{
    return exchange_has_body(x) ? exchange_length(x) - x->answer_pos : 0;
}

/* The piece of the file that is sent next; n is 0 if it cannot be read. The kernel has been asked for it before. */
static struct str file_output(struct exchange *x)
{
    size_t done = (size_t) (x->answer_pos - x->piece_pos), n = (size_t) MIN(exchange_left(x), PIECE);

    if (done == x->piece.n) {
        buf_reset(&x->piece);
        done = 0;
        x->piece_pos = x->answer_pos;
        if (x->answer_pos % READ_AHEAD == 0)
            fd_will_need(x->q.answer_fd, (off_t) x->answer_pos, 2 * READ_AHEAD);
        if (!buf_reserve(&x->piece, n) || fd_pread_all(x->q.answer_fd, x->piece.p, n, (off_t) x->answer_pos) < 0)
            return (struct str){0};
        x->piece.n = n;
    }
    return str_slice(buf_str(&x->piece), done, x->piece.n);
}

struct str exchange_output(struct exchange *x, bool *ret_end)
{
    const char *p = x->q.answer_const.p ? x->q.answer_const.p : x->q.answer.p;
    uint64_t left = exchange_left(x);

    *ret_end = left == 0;
    if (left && x->q.answer_fd >= 0)
        return file_output(x);
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
