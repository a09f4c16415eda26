/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of the server, from the accepted socket to the choice of protocol, its deadlines and its end. See
 * exchange.h. Closing while the peer still sends would reset the connection and lose our last response:
 * conn_finish_output() shuts down our side and discards input, for a bounded time and size, until the peer closes.
 */
#include "net/exchange.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

static const char http2_preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

enum { PREFACE = sizeof http2_preface - 1, LINGER_MAX = 64 << 20, SIP_RATE = 1024 };
#define LINGER_NS (2 * NS_PER_S)      /* until the next input */
#define LINGER_ALL_NS (20 * NS_PER_S) /* in total */

static const struct stream_ops conn_stream_ops;

/* --- deadlines --- */
static void arm(struct conn *c)
{
    int64_t at = c->deadline;

    if (c->write_deadline && (!at || c->write_deadline < at))
        at = c->write_deadline;
    /* A timer that is set too early fires, finds nothing to do and is moved: cheaper than moving it with every byte. */
    if (at && (!c->timer.loop || at < c->timer.at))
        loop_timer_set(c->worker->loop, &c->timer, at);
}

void conn_set_deadline(struct conn *c, int64_t after_ns)
{
    c->deadline = after_ns ? loop_now(c->worker->loop) + after_ns : 0;
    arm(c);
}

int64_t conn_body_deadline(const struct conn *c, const struct exchange *x)
{
    const struct http_server_options *o = &c->worker->server->o;

    int64_t paid = o->body_timeout_ns + (int64_t) (x->body_seen / o->min_rate) * NS_PER_S;

    /* A body that is kept in memory has a fixed deadline, however steadily it trickles in; one that is processed in
     * pieces costs no memory. */
    return x->started + o->head_timeout_ns + (x->q.on_body ? paid : MIN(paid, o->body_deadline_ns));
}

/* Output that waits is a response, too, though its exchange may be gone. */
void conn_hold_output(struct conn *c, size_t n)
{
    atomic_fetch_add_explicit(&c->worker->server->answers, n - c->held_output, memory_order_relaxed);
    if (c->from)
        atomic_fetch_add_explicit(&c->from->answers, n - c->held_output, memory_order_relaxed);
    c->held_output = n;
}

static void note_output(struct conn *c)
{
    size_t waiting = stream_waiting(&c->stream);

    int64_t full = loop_now(c->worker->loop) + c->worker->server->o.write_timeout_ns;

    conn_hold_output(c, waiting);
    if (waiting < c->write_mark || !c->write_deadline)
        c->progressed = loop_now(c->worker->loop);
    if (!waiting) {
        c->write_deadline = 0;
        return;
    }
    if (!c->write_deadline) {
        c->write_deadline = full;
    } else if (waiting < c->write_mark) { /* extend the deadline in proportion to the bytes drained */
        int64_t gained = (int64_t) ((c->write_mark - waiting) * (size_t) NS_PER_S / SIP_RATE);

        c->write_deadline = MIN(full, c->write_deadline + gained);
    }
    c->write_mark = waiting;
    arm(c);
}

static void conn_timer(struct loop_timer *t)
{
    struct conn *c = container_of(t, struct conn, timer);
    int64_t now = loop_now(c->worker->loop);

    if (c->write_deadline && c->write_deadline <= now) {
        if (stream_waiting(&c->stream) < c->write_mark) /* the peer has read something since */
            note_output(c);
        if (c->write_deadline && c->write_deadline <= now) {
            atomic_fetch_add_explicit(&c->worker->server->timeouts, 1, memory_order_relaxed);
            conn_close(c);
            return;
        }
    }
    if (c->closing && !c->lingering && stream_waiting(&c->stream))
        c->deadline = 0; /* only the last output is left: write_deadline covers it */
    if (c->deadline && c->deadline <= now) {
        if (c->protocol && !c->lingering && !c->closing) {
            c->protocol->timer(c, now); /* sets another deadline, or closes */
            return;
        }
        conn_close(c);
        return;
    }
    arm(c);
}

/* --- output --- */
static void conn_flush(struct loop_call *call)
{
    struct conn *c = container_of(call, struct conn, flush);
    size_t before;
    int r;

    if (c->protocol && !c->lingering && !c->failed)
        c->protocol->flush(c);
    before = stream_waiting(&c->stream);
    r = c->failed ? -EPROTO : stream_flush(&c->stream);
    if (r < 0) {
        conn_close(c);
        return;
    }
    atomic_fetch_add_explicit(&c->worker->server->bytes_out, before - stream_waiting(&c->stream), memory_order_relaxed);
    note_output(c);
    if (c->closing && !stream_waiting(&c->stream) && !c->lingering)
        conn_finish_output(c);
    else if (!c->closing && before && !stream_waiting(&c->stream) && c->protocol)
        loop_defer(c->worker->loop, &c->flush); /* the protocol may have more output */
}

void conn_schedule(struct conn *c)
{
    loop_defer(c->worker->loop, &c->flush);
}

void conn_finish_output(struct conn *c)
{
    c->closing = true;
    if (stream_waiting(&c->stream)) {
        conn_schedule(c);
        return;
    }
    c->lingering = true;
    if (c->stream.tls)
        c->stream.tls_context->ops->shutdown(c->stream.tls);
    shutdown(c->stream.io.fd, SHUT_WR);
    stream_resume(&c->stream);
    c->linger_end = loop_now(c->worker->loop) + LINGER_ALL_NS;
    conn_set_deadline(c, LINGER_NS);
}

/* Discards what a peer still sends after its response, so that it gets to reading the response. Closing at once would
 * reset the connection, and the response might be lost. False if the limit is reached. */
static bool linger(struct conn *c, size_t n)
{
    int64_t left = c->linger_end - loop_now(c->worker->loop);

    c->lingered += n;
    if (c->lingered > LINGER_MAX || left <= 0)
        return false;
    conn_set_deadline(c, MIN(left, LINGER_NS));
    return true;
}

/* --- input --- */
static void on_opened(struct stream *s)
{
    struct conn *c = container_of(s, struct conn, stream);
    struct str alpn = {0};
    char subject[256];

    conn_set_deadline(c, c->worker->server->o.idle_timeout_ns);
    if (!s->tls)
        return;
    alpn = s->tls_context->ops->alpn(s->tls);
    s->tls_context->ops->peer_subject(s->tls, subject, sizeof subject);
    if (subject[0])
        c->subject = mem_strdup(subject);
    if (str_is(alpn, "h2") && conn_http2_new(c) < 0)
        conn_fail(c);
}

/* Chooses by the first bytes. Returns false if they are too few to decide, or the connection is gone. */
static bool choose_protocol(struct conn *c, char *p, size_t n)
{
    size_t seen = c->preface_n, k = MIN(n, PREFACE - seen);
    int r;

    memcpy(c->preface + seen, p, k);
    c->preface_n += (uint8_t) k;
    if (memcmp(c->preface, http2_preface, c->preface_n) == 0) {
        if (c->preface_n < PREFACE) {
            conn_set_deadline(c, c->worker->server->o.head_timeout_ns);
            return false;
        }
        r = conn_http2_new(c);
    } else {
        r = conn_http1_new(c);
    }
    if (r < 0)
        conn_fail(c);
    return r >= 0;
}

static void give_input(struct conn *c, char *p, size_t n)
{
    size_t seen = c->preface_n;

    if (!c->protocol) {
        if (!choose_protocol(c, p, n))
            return;
        if (seen) /* bytes of earlier reads, passed on now */
            c->protocol->input(c, c->preface, seen);
        if (c->failed || c->closing)
            return;
    }
    c->protocol->input(c, p, n);
}

/* The peer has shut down its side, but a request of it may still be answered: HTTP/1.1 clients do that, if rarely. */
static bool may_still_answer(const struct conn *c)
{
    return c->protocol == &conn_http1 && c->exchanges && c->exchanges->state != EXCHANGE_READING;
}

static void on_half_closed(struct stream *s)
{
    struct conn *c = container_of(s, struct conn, stream);

    c->peer_closed = true;
    for (struct exchange *x = c->exchanges, *next; x; x = next) {
        next = x->next;
        exchange_cancel(x);
    }
}

static void on_readable(struct stream *s)
{
    struct conn *c = container_of(s, struct conn, stream);
    size_t size;
    char *scratch = loop_scratch(c->worker->loop, &size);
    ssize_t n = scratch ? stream_read(s, scratch, size) : -ENOMEM;

    if (n == -EAGAIN)
        return;
    if (n > 0)
        atomic_fetch_add_explicit(&c->worker->server->bytes_in, (uint64_t) n, memory_order_relaxed);
    if (n == 0 && !c->lingering && may_still_answer(c)) {
        stream_pause(s);
        on_half_closed(s);
        return;
    }
    if (n <= 0 || (c->lingering && !linger(c, (size_t) n))) {
        conn_close(c);
        return;
    }
    if (!c->lingering && !c->closing && !c->failed)
        give_input(c, scratch, (size_t) n);
}

static void on_drained(struct stream *s)
{
    conn_schedule(container_of(s, struct conn, stream));
}

static void on_failed(struct stream *s, int error, const struct err *e)
{
    conn_close(container_of(s, struct conn, stream));
}

static const struct stream_ops conn_stream_ops = {
    .opened = on_opened,
    .readable = on_readable,
    .drained = on_drained,
    .half_closed = on_half_closed,
    .failed = on_failed,
};

/* --- opening and closing --- */
void conn_open(struct server_worker *w, int fd, const char *peer, struct peer *from)
{
    struct conn *c = w->state == WORKER_RUNNING ? mem_zalloc(sizeof *c) : NULL;
    struct http_server *s = w->server;

    if (!c) {
        fd_close(fd);
        peers_disconnect(&s->peers, from);
        atomic_fetch_sub(&s->connections, 1);
        return;
    }
    c->worker = w;
    c->from = from;
    c->timer.fire = conn_timer;
    c->flush.run = conn_flush;
    c->is_tls = s->o.tls != NULL;
    snprintf(c->peer, sizeof c->peer, "%s", peer);
    if (stream_init(&c->stream, w->loop, fd, &(struct stream_tls){s->o.tls, NULL}, &conn_stream_ops, NULL) < 0) {
        mem_free(c);
        peers_disconnect(&s->peers, from);
        atomic_fetch_sub(&s->connections, 1);
        return;
    }
    c->next = w->conns;
    if (c->next)
        c->next->prev = c;
    w->conns = c;
    w->n_conns++;
    conn_set_deadline(c, s->o.handshake_timeout_ns);
    stream_start(&c->stream);
}

int conn_hold(struct conn *c, size_t n)
{
    struct http_server *s = c->worker->server;
    uint64_t all = atomic_fetch_add_explicit(&s->buffered, n - c->held, memory_order_relaxed) + n - c->held;

    if (c->from && atomic_fetch_add_explicit(&c->from->buffered, n - c->held, memory_order_relaxed) + n - c->held >
                       s->o.max_peer_buffered)
        all = SIZE_MAX;
    c->held = n;
    return n && all > s->o.max_buffered ? -ENOBUFS : 0;
}

void conn_fail(struct conn *c)
{
    c->failed = true;
    conn_schedule(c);
}

void conn_close(struct conn *c)
{
    struct server_worker *w = c->worker;

    loop_timer_cancel(&c->timer);
    loop_defer_cancel(w->loop, &c->flush);
    stream_done(&c->stream);
    conn_hold(c, 0);
    conn_hold_output(c, 0);
    while (c->exchanges)
        exchange_abandon(c->exchanges);
    /* A handler that finished from inside its cancelled() has scheduled nothing, because its connection was gone
     * already. */
    if (c->protocol)
        c->protocol->done(c);
    if (c->prev)
        c->prev->next = c->next;
    else
        w->conns = c->next;
    if (c->next)
        c->next->prev = c->prev;
    w->n_conns--;
    atomic_fetch_sub(&w->server->connections, 1);
    peers_disconnect(&w->server->peers, c->from);
    mem_free(c->subject);
    mem_free(c);
    worker_maybe_stopped(w);
}
