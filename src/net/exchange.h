/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal to the server: workers (one per loop), connections, exchanges (a request and its response). Everything of a
 * connection lives on its worker's loop.
 *
 *   exchange: READING ──────────> HANDED ────────────> FINISHED ──> freed
 *             (connection's)      (the handler's)      (connection's until all is sent)
 *
 * A connection that closes frees its READING and FINISHED exchanges and leaves the HANDED ones with conn == NULL.
 */
#ifndef NET_EXCHANGE_H
#define NET_EXCHANGE_H

#include <stdatomic.h>

#include "net/peers.h"
#include "net/server.h"
#include "net/stream.h"

struct conn;
struct exchange;
struct server_worker;

enum exchange_state { EXCHANGE_READING, EXCHANGE_HANDED, EXCHANGE_FINISHED };

struct exchange {
    struct http_request q; /* must be first: the handler's pointer */
    struct conn *conn;     /* NULL once the connection is gone */
    struct server_worker *worker;
    struct peer *peer;            /* its bytes count against this peer; NULL on unix sockets */
    struct exchange *prev, *next; /* list of the connection */
    int32_t stream_id;            /* HTTP/2 */
    enum exchange_state state;
    int64_t started;    /* monotonic */
    int64_t touched;    /* when the response last made progress */
    size_t head_bytes;  /* so far, decoded */
    struct buf body;    /* so far */
    uint64_t body_seen; /* including what on_body processed or what is discarded */
    size_t accounted;   /* its share of worker->server->buffered */
    size_t held;        /* its share of worker->server->answers: what of the response is in memory */
    bool owns_peer;     /* holds a reference of its own, because the connection is gone */
    bool discard;       /* answered before its body was read */
    bool head_only;     /* HEAD */
    bool bad_head, cancel_reported, head_sent, answer_sent;
    /* the response being sent */
    uint64_t answer_pos;
    struct buf piece;        /* of the file that is sent, not passed on yet */
    uint64_t piece_pos;      /* offset of piece in the file */
    int64_t finished;        /* monotonic: when the handler gave the response */
    struct loop_call finish_call;
};

/* The operations of one version of HTTP on a connection. */
struct conn_protocol {
    void (*input)(struct conn *c, char *p, size_t n);
    void (*respond)(struct conn *c, struct exchange *x); /* the response may be sent */
    void (*flush)(struct conn *c);                       /* moves output into the stream, which is flushed afterwards */
    void (*timer)(struct conn *c, int64_t now);          /* deadlines of its requests */
    void (*drop)(struct conn *c, struct exchange *x);    /* the rest of the response is not sent */
    void (*drain)(struct conn *c);                       /* finish the requests in progress, then close */
    bool (*idle)(const struct conn *c);                  /* no request in progress */
    void (*done)(struct conn *c);                        /* frees c->state; no exchanges are left by then */
};

struct conn {
    struct stream stream;
    struct server_worker *worker;
    struct conn *prev, *next;
    struct loop_timer timer;
    struct loop_call flush;
    const struct conn_protocol *protocol; /* NULL until the first bytes decide */
    void *state;
    struct exchange *exchanges;
    int64_t deadline;       /* of the current state; 0: none */
    int64_t write_deadline; /* set while output waits */
    size_t write_mark;      /* bytes waiting when write_deadline was set */
    size_t held;            /* bytes of input kept for later, counted in what the server buffers */
    size_t held_output;     /* bytes of output that wait for the peer, counted as responses */
    int64_t progressed;     /* monotonic: when the peer last read some of it */
    unsigned n_exchanges;
    uint8_t preface_n;
    bool failed; /* closes at the end of this round */
    bool draining, is_tls, peer_closed;
    bool closing;   /* accepts no more requests; closes when the output is sent */
    bool lingering; /* our side is shut down; input is discarded until the peer closes */
    size_t lingered;
    int64_t linger_end;
    char preface[24]; /* first bytes, while they may be the HTTP/2 preface */
    char peer[56];
    struct peer *from; /* NULL on unix sockets */
    char *subject;     /* of the client certificate, or NULL */
    bool identified;
    uid_t uid; /* of the peer, once identified; HTTP_NO_UID if unknown */
};

enum worker_state { WORKER_RUNNING, WORKER_DRAINING, WORKER_STOPPED };

struct server_worker {
    struct http_server *server;
    struct loop *loop;
    struct conn *conns;
    unsigned n_conns, n_handed;
    enum worker_state state;
    struct loop_call stop_call;
    struct loop_timer grace;
    struct loop_timer room; /* set while responses are held: those without a reader are dropped when there is no room */
    int64_t date_second;
    char date[40];
};

struct listener {
    struct loop_io io;
    struct listener *next;
    struct http_server *server;
    struct loop_timer backoff;
    struct loop_call call;
    char unix_path[108];
};

struct http_server {
    struct http_server_options o;
    struct server_worker *workers;
    struct listener *listeners;
    struct peers peers;
    atomic_uint next, running;
    void (*done)(void *arg);
    void *done_arg;
    int64_t grace_ns;
    atomic_uint_least64_t connections, accepted, refused, requests, bad_requests, timeouts, floods, bytes_in, bytes_out,
        buffered, answers, unread;
};

/* exchange.c */
struct exchange *exchange_new(struct conn *c);
void exchange_make_room(struct loop_timer *t); /* of a worker */
void exchange_free(struct exchange *x);                         /* also removes it from its connection's list */
int exchange_set_target(struct exchange *x, struct str target); /* splits without copying */
/* The head is complete: calls begin(). False if the request is answered already and its body must be discarded. */
bool exchange_begin(struct exchange *x);
/* Counts n bytes of this request in what the server buffers; -ENOBUFS if that is too much. */
int exchange_account(struct exchange *x, size_t n);
/* 0, or the status to answer with: 413, 503, 500; -1: on_body has answered. */
int exchange_body(struct exchange *x, const char *p, size_t n);
void exchange_dispatch(struct exchange *x); /* the request is complete */
/* Answers on behalf of the server, before a handler has seen the request. */
void exchange_refuse(struct exchange *x, int status, const char *text);
void exchange_cancel(struct exchange *x);  /* notifies the handler, once */
void exchange_abandon(struct exchange *x); /* the connection or stream is gone: frees it, or leaves it to the handler */
/* The next bytes of the response; *ret_end: there are none left. Bytes are missing without an end if they cannot be
 * read. */
struct str exchange_output(struct exchange *x, bool *ret_end);
uint64_t exchange_left(const struct exchange *x); /* bytes of the body that were not sent yet */
void exchange_sent(struct exchange *x, size_t n); /* consumes them */
bool exchange_has_body(const struct exchange *x);
uint64_t exchange_length(const struct exchange *x); /* of the response's body */
const char *worker_date(struct server_worker *w);

/* conn.c */
/* from: the peer that the connection is counted for, or NULL; ownership is taken. */
void conn_open(struct server_worker *w, int fd, const char *peer, struct peer *from);
/* Frees c: only from the top of a callback. Code inside a protocol calls conn_fail(), which closes it later in this
 * round. */
void conn_close(struct conn *c);
void conn_fail(struct conn *c);
void conn_schedule(struct conn *c);                       /* flush at the end of this round */
void conn_set_deadline(struct conn *c, int64_t after_ns); /* from now; 0: none */
int conn_hold(struct conn *c, size_t n); /* n bytes of input are kept now; -ENOBUFS if the server holds too much */
void conn_hold_output(struct conn *c, size_t n); /* n bytes of output wait now */
void conn_finish_output(struct conn *c); /* closes when the output is sent, such that the peer can still read it */
int64_t conn_body_deadline(const struct conn *c, const struct exchange *x);
void worker_maybe_stopped(struct server_worker *w);

extern const struct conn_protocol conn_http1, conn_http2;
int conn_http1_new(struct conn *c);
int conn_http2_new(struct conn *c);

#endif
