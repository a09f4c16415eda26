/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connected socket on a loop, plain or TLS: non-blocking reads into the caller's memory, buffered writes. Embedded in
 * a connection of the server or of the client. Holds no buffer while nothing waits to be written, so that an idle
 * connection uses no memory here.
 *
 * Any callback may call stream_done(); the stream touches nothing afterwards.
 */
#ifndef NET_STREAM_H
#define NET_STREAM_H

#include "base/buf.h"
#include "net/loop.h"
#include "net/tls.h"

struct stream;

struct stream_ops {
    void (*opened)(struct stream *s);                                 /* the TLS handshake is done; at once for a plain
                                                                       * socket */
    void (*readable)(struct stream *s);                               /* call stream_read() */
    void (*drained)(struct stream *s);                                /* all output was passed to the kernel */
    void (*half_closed)(struct stream *s);                            /* the peer sends no more (reading is paused) */
    void (*failed)(struct stream *s, int error, const struct err *e); /* reset or TLS failure; close it */
};

struct stream {
    struct loop_io io;
    struct loop_call again; /* TLS holds decrypted bytes that epoll cannot see */
    struct loop *loop;
    const struct stream_ops *ops;
    struct tls_context *tls_context;
    struct tls_session *tls;
    struct buf out;
    size_t out_pos;
    bool handshaking, reading, read_needs_write, write_needs_read, saw_rdhup;
};

struct stream_tls {
    struct tls_context *context; /* NULL: plain; must outlive the stream */
    const char *host;            /* see tls_ops.session_new */
};

/* Takes ownership of fd, on failure too. */
int stream_init(struct stream *s, struct loop *l, int fd, const struct stream_tls *tls, const struct stream_ops *ops,
                struct err *e);
/* Starts: opened() may be called from here. */
void stream_start(struct stream *s);
/* Closes and discards what was not written. The memory may be freed when it returns. */
void stream_done(struct stream *s);
/* > 0 bytes, 0 at the end, -EAGAIN or another negative errno. One call per readable() is enough. */
ssize_t stream_read(struct stream *s, void *p, size_t n);
void stream_pause(struct stream *s);  /* no readable() until resumed; half_closed() is still called */
void stream_resume(struct stream *s); /* readable() is called when there is input */
/* Appends to the output; stream_flush() sends it. 0, -ENOMEM. */
int stream_put(struct stream *s, const void *p, size_t n);
/* Sends as much as the socket accepts and waits to send the rest. 0, or a negative errno: then close. drained() is not
 * called here. */
int stream_flush(struct stream *s);
size_t stream_waiting(const struct stream *s); /* bytes put but not yet passed to the kernel */

#endif
