/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connected socket, plain or TLS, see stream.h. TLS may need the socket writable to read and readable to write (key
 * updates): read_needs_write and write_needs_read swap the readiness that is waited for.
 */
#include "net/stream.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/fd.h"

enum { STREAM_OUT_MAX = 256 << 20 }; /* a safety limit: protocols stop writing long before */

static void update_events(struct stream *s)
{
    uint32_t events = 0;

    if (s->handshaking) {
        events = s->tls_context->ops->wants_write(s->tls) ? EPOLLOUT : EPOLLIN;
    } else {
        if ((s->reading && !s->read_needs_write) || (s->write_needs_read && stream_waiting(s)))
            events |= EPOLLIN;
        if ((stream_waiting(s) && !s->write_needs_read) || (s->reading && s->read_needs_write))
            events |= EPOLLOUT;
        if (!s->saw_rdhup)
            events |= EPOLLRDHUP;
    }
    loop_io_set(&s->io, events);
}

static void handshake_step(struct stream *s)
{
    struct err e = {0};
    int r = s->tls_context->ops->handshake(s->tls, &e);

    if (r == -EAGAIN) {
        update_events(s);
        return;
    }
    if (r < 0) {
        s->ops->failed(s, r, &e);
        return;
    }
    s->handshaking = false;
    s->reading = true;
    if (s->tls_context->ops->has_pending(s->tls))
        loop_defer(s->loop, &s->again);
    update_events(s);
    s->ops->opened(s);
}

/* Runs if TLS has decrypted more than the last read consumed. */
static void read_again(struct loop_call *c)
{
    struct stream *s = container_of(c, struct stream, again);

    if (s->reading)
        s->ops->readable(s);
}

/* The peer sends no more. While reading, the read itself finds the end; while paused, only this callback reports it. */
static void on_half_closed(struct stream *s)
{
    s->saw_rdhup = true;
    update_events(s);
    s->ops->half_closed(s);
}

static void stream_ready(struct loop_io *io, uint32_t events)
{
    struct stream *s = container_of(io, struct stream, io);
    bool in = events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP), out = events & (EPOLLOUT | EPOLLHUP | EPOLLERR);

    if (s->handshaking) {
        handshake_step(s);
        return;
    }
    if (stream_waiting(s) && (s->write_needs_read ? in : out)) {
        int r = stream_flush(s);

        if (r < 0) {
            s->ops->failed(s, r, NULL);
            return;
        }
        if (!stream_waiting(s)) {
            s->ops->drained(s);
            return; /* drained() may have closed it; level-triggered readiness is reported again */
        }
    }
    if (s->reading && (s->read_needs_write ? out : in)) {
        s->ops->readable(s);
        return;
    }
    if (!s->reading && (events & (EPOLLHUP | EPOLLERR)))
        s->ops->failed(s, -ECONNRESET, NULL); /* both directions are closed */
    else if (!s->reading && (events & EPOLLRDHUP))
        on_half_closed(s);
}

int stream_init(struct stream *s, struct loop *l, int fd, const struct stream_tls *how, const struct stream_ops *ops,
                struct err *e)
{
    struct tls_context *tls = how->context;
    int r = 0;

    *s = (struct stream){.loop = l, .ops = ops, .tls_context = tls};
    s->io.ready = stream_ready;
    s->io.fd = fd;
    s->again.run = read_again;
    s->out.limit = STREAM_OUT_MAX;
    if (tls)
        r = tls->ops->session_new(tls, fd, how->host, &s->tls, e);
    if (r == 0)
        r = loop_io_add(l, &s->io, fd, tls ? EPOLLIN : EPOLLIN | EPOLLRDHUP);
    if (r < 0) {
        stream_done(s);
        return r;
    }
    s->handshaking = tls != NULL;
    s->reading = !tls;
    return 0;
}

void stream_start(struct stream *s)
{
    if (s->handshaking)
        handshake_step(s);
    else
        s->ops->opened(s);
}

void stream_done(struct stream *s)
{
    if (s->io.fd < 0)
        return;
    loop_defer_cancel(s->loop, &s->again);
    loop_io_remove(&s->io);
    if (s->tls) {
        s->tls_context->ops->shutdown(s->tls);
        s->tls_context->ops->session_free(s->tls);
        s->tls = NULL;
    }
    fd_close(s->io.fd);
    s->io.fd = -1;
    buf_done(&s->out);
    s->out_pos = 0;
}

static ssize_t plain_read(int fd, void *p, size_t n)
{
    ssize_t r;

    do
        r = recv(fd, p, n, 0);
    while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : r;
}

static ssize_t plain_write(int fd, const void *p, size_t n)
{
    ssize_t r;

    do
        r = send(fd, p, n, MSG_NOSIGNAL);
    while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : r;
}

ssize_t stream_read(struct stream *s, void *p, size_t n)
{
    ssize_t r;

    if (!s->tls)
        return plain_read(s->io.fd, p, n);
    r = s->tls_context->ops->read(s->tls, p, n);
    s->read_needs_write = r == -EAGAIN && s->tls_context->ops->wants_write(s->tls);
    if (r > 0 && s->tls_context->ops->has_pending(s->tls))
        loop_defer(s->loop, &s->again);
    update_events(s);
    return r;
}

void stream_pause(struct stream *s)
{
    s->reading = false;
    update_events(s);
}

void stream_resume(struct stream *s)
{
    if (s->reading)
        return;
    s->reading = true;
    if (s->tls && s->tls_context->ops->has_pending(s->tls))
        loop_defer(s->loop, &s->again);
    update_events(s);
}

int stream_put(struct stream *s, const void *p, size_t n)
{
    buf_put(&s->out, p, n);
    return buf_error(&s->out);
}

int stream_flush(struct stream *s)
{
    while (stream_waiting(s) && !s->handshaking) {
        const char *p = s->out.p + s->out_pos;
        size_t n = stream_waiting(s);
        ssize_t r = s->tls ? s->tls_context->ops->write(s->tls, p, n) : plain_write(s->io.fd, p, n);

        s->write_needs_read = s->tls && r == -EAGAIN && !s->tls_context->ops->wants_write(s->tls);
        if (r == -EAGAIN)
            break;
        if (r < 0)
            return (int) r;
        s->out_pos += (size_t) r;
    }
    if (!stream_waiting(s)) {
        buf_done(&s->out);
        s->out_pos = 0;
    } else if (s->out_pos > (1 << 20)) { /* keep the consumed front from growing while a slow peer reads */
        memmove(s->out.p, s->out.p + s->out_pos, stream_waiting(s));
        s->out.n -= s->out_pos;
        s->out_pos = 0;
    }
    update_events(s);
    return buf_error(&s->out);
}

size_t stream_waiting(const struct stream *s)
{
    return s->out.n - s->out_pos;
}
