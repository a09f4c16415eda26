/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of the client, from resolving the name to an open stream. See client_conn.h. Addresses are tried one
 * after another: the next one when one fails, or when it has not answered within a second and others are left.
 */
#include "net/client_conn.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

#define ATTEMPT_NS NS_PER_S

static void try_next(struct client_conn *c);

/* --- deadlines --- */
/* When the timer should fire next, given the state. */
static int64_t next_deadline(struct client_conn *c)
{
    const struct client_options *o = &c->client->o;
    int64_t at;

    if (c->state != CONN_OPEN) {
        at = c->opened_at + o->connect_timeout_ns;
        if (c->state == CONN_CONNECTING && c->at < c->n_list)
            at = MIN(at, c->attempt_until);
        return at;
    }
    at = c->n_requests ? 0 : c->last_used + o->idle_timeout_ns;
    if (o->keepalive_time_ns && c->wire->ping && (c->n_requests || o->keepalive_without_calls)) {
        int64_t ping = c->ping_sent ? c->ping_sent + o->keepalive_timeout_ns : c->last_input + o->keepalive_time_ns;

        at = at ? MIN(at, ping) : ping;
    }
    return at;
}

static void arm(struct client_conn *c)
{
    int64_t at = next_deadline(c);

    if (at && (!c->timer.loop || at < c->timer.at))
        loop_timer_set(c->client->loop, &c->timer, at);
}

static void keepalive(struct client_conn *c, int64_t now)
{
    const struct client_options *o = &c->client->o;

    if (c->ping_sent && now >= c->ping_sent + o->keepalive_timeout_ns) {
        client_conn_fail(c, -ETIMEDOUT, "%s does not respond to pings", c->peer);
    } else if (!c->ping_sent && now >= c->last_input + o->keepalive_time_ns) {
        c->ping_sent = now;
        c->wire->ping(c);
        client_conn_schedule(c);
    }
}

static void conn_timer(struct loop_timer *t)
{
    struct client_conn *c = container_of(t, struct client_conn, timer);
    const struct client_options *o = &c->client->o;
    int64_t now = loop_now(c->client->loop);

    if (c->state != CONN_OPEN && now >= c->opened_at + o->connect_timeout_ns) {
        client_conn_fail(c, -ETIMEDOUT, "no connection to %s within %.3g s", c->client->url.authority,
                         (double) o->connect_timeout_ns / (double) NS_PER_S);
    } else if (c->state == CONN_CONNECTING && c->at < c->n_list && now >= c->attempt_until) {
        try_next(c);
        return;
    } else if (c->state == CONN_OPEN) {
        if (!c->n_requests && now >= c->last_used + o->idle_timeout_ns)
            c->failed = true;
        else if (o->keepalive_time_ns && c->wire->ping && (c->n_requests || o->keepalive_without_calls))
            keepalive(c, now);
    }
    if (c->failed)
        client_conn_schedule(c);
    else
        arm(c);
}

/* --- the open stream --- */
static void flush_call(struct loop_call *call)
{
    struct client_conn *c = container_of(call, struct client_conn, flush);
    struct client *client = c->client;
    size_t before;
    int r;

    if (!c->failed && c->state == CONN_OPEN) {
        c->wire->flush(c);
        before = stream_waiting(&c->stream);
        r = c->failed ? 0 : stream_flush(&c->stream);
        if (r < 0)
            client_conn_fail(c, r, "cannot send to %s: %s", c->peer, err_message(NULL, r));
        else if (before && !stream_waiting(&c->stream))
            client_conn_schedule(c); /* more output may be waiting */
        if (c->no_more && !c->n_requests)
            c->failed = true;
    }
    if (c->failed) {
        client_conn_close(c);
        client_dispatch(client);
        return;
    }
    if (c->state == CONN_OPEN)
        client_dispatch(client);
    arm(c);
}

void client_conn_schedule(struct client_conn *c)
{
    loop_defer(c->client->loop, &c->flush);
}

void client_conn_fail(struct client_conn *c, int error, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    if (!c->error) {
        va_start(ap, fmt);
        vsnprintf(text, sizeof text, fmt, ap);
        va_end(ap);
        c->error = error;
        err_set(&c->err, error, "%s", text);
    }
    c->failed = true;
    client_conn_schedule(c);
}

bool client_conn_usable(const struct client_conn *c)
{
    return c->state == CONN_OPEN && !c->failed && !c->no_more;
}

static void on_opened(struct stream *s)
{
    struct client_conn *c = container_of(s, struct client_conn, stream);
    struct client *client = c->client;
    enum client_protocol p = client->o.protocol;
    struct str alpn = s->tls ? s->tls_context->ops->alpn(s->tls) : (struct str){0};
    int r;

    if (s->tls && p == CLIENT_HTTP2 && !str_is(alpn, "h2")) {
        client_conn_fail(c, -EPROTO, "%s does not speak HTTP/2 over TLS", c->peer);
        return;
    }
    if (p == CLIENT_AUTO)
        p = str_is(alpn, "h2") ? CLIENT_HTTP2 : CLIENT_HTTP1;
    r = p == CLIENT_HTTP2 ? client_http2_new(c) : client_http1_new(c);
    if (r < 0) {
        client_conn_fail(c, r, "out of memory");
        return;
    }
    c->state = CONN_OPEN;
    c->last_input = c->last_used = loop_now(client->loop);
    client_conn_schedule(c);
}

static void on_readable(struct stream *s)
{
    struct client_conn *c = container_of(s, struct client_conn, stream);
    size_t size;
    char *scratch = loop_scratch(c->client->loop, &size);
    ssize_t n = scratch ? stream_read(s, scratch, size) : -ENOMEM;

    if (n == -EAGAIN || c->state != CONN_OPEN)
        return;
    c->last_input = loop_now(c->client->loop);
    c->ping_sent = 0;
    if (n > 0) {
        c->wire->input(c, scratch, (size_t) n);
    } else {
        if (n == 0)
            c->wire->eof(c);
        client_conn_fail(c, n < 0 ? (int) n : -ECONNRESET, n < 0 ? "%s: %s" : "%s closed the connection%.0s", c->peer,
                         err_message(NULL, (int) n));
    }
    client_conn_schedule(c);
}

static void on_drained(struct stream *s)
{
    client_conn_schedule(container_of(s, struct client_conn, stream));
}

static void on_half_closed(struct stream *s)
{
}

static void on_failed(struct stream *s, int error, const struct err *e)
{
    struct client_conn *c = container_of(s, struct client_conn, stream);

    client_conn_fail(c, error, "%s: %s", c->peer, err_message(e, error));
}

static const struct stream_ops stream_ops = {
    .opened = on_opened,
    .readable = on_readable,
    .drained = on_drained,
    .half_closed = on_half_closed,
    .failed = on_failed,
};

/* --- connecting --- */
static void stop_connecting(struct client_conn *c)
{
    if (!c->connecting.loop)
        return;
    loop_io_remove(&c->connecting);
    fd_close(c->connecting.fd);
}

static void connected(struct client_conn *c, int fd)
{
    struct client *client = c->client;
    int r;

    c->state = CONN_OPENING;
    r = stream_init(&c->stream, client->loop, fd,
                    &(struct stream_tls){client->url.https ? client->o.tls : NULL, client->url.host}, &stream_ops,
                    &c->err);
    if (r < 0) {
        c->error = r;
        c->failed = true;
        client_conn_schedule(c);
        return;
    }
    c->has_stream = true;
    stream_start(&c->stream);
}

static void connect_ready(struct loop_io *io, uint32_t events)
{
    struct client_conn *c = container_of(io, struct client_conn, connecting);
    int fd = io->fd, r = address_connect_result(fd);

    loop_io_remove(io);
    if (r == 0) {
        connected(c, fd);
        return;
    }
    fd_close(fd);
    err_set(&c->err, r, "cannot connect to %s: %s", c->peer, err_message(NULL, r));
    c->error = r;
    try_next(c);
}

static void try_next(struct client_conn *c)
{
    stop_connecting(c);
    while (c->at < c->n_list) {
        struct address *a = &c->list[c->at++];
        int fd, r;

        address_format(a, c->peer, sizeof c->peer);
        if (c->client->o.allow && !c->client->o.allow(c->peer)) {
            c->error = err_set(&c->err, -EPERM, "connections to %s are not allowed", c->peer);
            continue;
        }
        r = address_connect(a, &fd, &c->err);
        if (r == 0) {
            connected(c, fd);
            return;
        }
        if (r == 1) {
            c->connecting.ready = connect_ready;
            r = loop_io_add(c->client->loop, &c->connecting, fd, EPOLLOUT);
            if (r == 0) {
                c->attempt_until = loop_now(c->client->loop) + ATTEMPT_NS;
                arm(c);
                return;
            }
            fd_close(fd);
        }
        c->error = r;
    }
    c->failed = true;
    client_conn_schedule(c);
}

static void resolved(void *arg, int n, const struct address *list, const struct err *e)
{
    struct client_conn *c = arg;

    c->resolve = NULL;
    if (n < 0) {
        client_conn_fail(c, n, "%s", err_message(e, n));
        return;
    }
    for (int i = 0; i < MIN(n, RESOLVE_MAX); i++)
        c->list[c->n_list++] = list[i];
    c->state = CONN_CONNECTING;
    try_next(c);
}

int client_conn_new(struct client *client)
{
    struct client_conn *c = mem_zalloc(sizeof *c);
    struct resolve *resolve;
    int r;

    if (!c)
        return -ENOMEM;
    c->client = client;
    c->timer.fire = conn_timer;
    c->flush.run = flush_call;
    c->opened_at = clock_mono();
    c->next = client->conns;
    if (c->next)
        c->next->prev = c;
    client->conns = c;
    client->n_conns++;
    r = resolve_start(client->loop, &client->parts, resolved, c, &resolve);
    if (r < 0)
        client_conn_fail(c, r, "cannot resolve '%s': %s", client->parts.host, err_message(NULL, r));
    else if (resolve)
        c->resolve = resolve;
    arm(c);
    return 0;
}

/* Deals with the requests of a closed connection: if the connection was reused and the peer had not begun to answer a
 * request, that request is sent again, once. */
static void give_up_requests(struct client_conn *c)
{
    while (c->requests) {
        struct client_request *r = c->requests;

        if (c->served && !r->retried && !r->head_seen && (c->error == -ECONNRESET || c->error == -EPIPE))
            client_requeue(r);
        else
            client_end(r, c->error ? c->error : -ECONNRESET, &c->err);
    }
}

void client_conn_close(struct client_conn *c)
{
    struct client *client = c->client;

    c->failed = true;
    loop_timer_cancel(&c->timer);
    resolve_cancel(c->resolve);
    stop_connecting(c);
    give_up_requests(c);
    loop_defer_cancel(client->loop, &c->flush);
    if (c->has_stream)
        stream_done(&c->stream);
    if (c->wire)
        c->wire->done(c);
    if (c->prev)
        c->prev->next = c->next;
    else
        client->conns = c->next;
    if (c->next)
        c->next->prev = c->prev;
    client->n_conns--;
    if (c->error && !c->served && !client->freeing) {
        if (!c->err.code)
            err_set(&c->err, c->error, "%s: %m", c->peer);
        client_failed(client, c->state == CONN_OPEN, &c->err);
    }
    mem_free(c);
}
