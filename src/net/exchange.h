/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the server: workers (one per loop), connections, exchanges (a request and its answer). All of a connection lives
 * on its worker's loop; what other threads touch of an exchange is named here.
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
struct worker;

enum exchange_state { EXCHANGE_READING, EXCHANGE_HANDED, EXCHANGE_FINISHED };

struct exchange_piece { /* of a streamed answer, on its way from another thread or waiting to be sent */
    struct loop_call call;
    struct exchange *x;
    struct exchange_piece *next;
    size_t n, pos;
    char data[];
};

struct exchange {
    struct http_request q; /* first: the handler's pointer */
    struct conn *conn;     /* NULL once the connection is gone */
    struct worker *worker;
    struct peer *peer;            /* who pays for its bytes; NULL on unix sockets */
    struct exchange *prev, *next; /* of the connection */
    int32_t stream_id;            /* HTTP/2 */
    enum exchange_state state;
    int64_t started;    /* monotonic */
    int64_t touched;    /* when the answer last moved */
    size_t head_bytes;  /* so far, decoded */
    struct buf body;    /* so far */
    uint64_t body_seen; /* with what on_body took or what is thrown away */
    size_t accounted;   /* of worker->server->buffered */
    bool owns_peer;     /* has a reference of its own: the connection is gone */
    bool discard;       /* answered before its body was read */
    bool head_only;     /* HEAD */
    bool bad_head, told_cancel, was_full, head_sent, answer_sent;
    /* the answer on its way */
    size_t answer_pos;
    bool streaming;
    struct exchange_piece *pieces, **pieces_tail;
    struct loop_call start_call, finish_call;
    atomic_size_t waiting; /* any thread: bytes of pieces not yet sent */
    atomic_bool is_cancelled;
};

/* What a version of HTTP does with a connection. */
struct conn_protocol {
    void (*input)(struct conn *c, char *p, size_t n);
    void (*respond)(struct conn *c,
                    struct exchange *x);              /* the head of the answer may go, and the body if it is there */
    void (*more)(struct conn *c, struct exchange *x); /* a piece came, or the end of the stream */
    void (*flush)(struct conn *c);                    /* move output into the stream; then it is flushed */
    void (*timer)(struct conn *c, int64_t now);       /* deadlines of its requests */
    void (*drain)(struct conn *c);                    /* finish what is under way, then close */
    bool (*idle)(const struct conn *c);               /* nothing under way */
    void (*done)(struct conn *c);                     /* frees c->state; exchanges are dealt with by then */
};

struct conn {
    struct stream stream;
    struct worker *worker;
    struct conn *prev, *next;
    struct loop_timer timer;
    struct loop_call flush;
    const struct conn_protocol *protocol; /* NULL until the first bytes tell */
    void *state;
    struct exchange *exchanges;
    int64_t deadline;       /* of the state it is in; 0 none */
    int64_t write_deadline; /* set while output waits */
    size_t write_mark;      /* what waited when write_deadline was set */
    size_t held;            /* input kept for later, counted among what the server buffers */
    unsigned n_exchanges;
    uint8_t preface_n;
    bool failed; /* closes at the end of this round */
    bool draining, is_tls, peer_closed;
    bool closing;   /* no more requests; closes when the output is sent */
    bool lingering; /* our side is shut; input is thrown away until the peer closes */
    size_t lingered;
    int64_t linger_end;
    char preface[24]; /* first bytes, while they may be HTTP/2's */
    char peer[56];
    struct peer *from; /* NULL on unix sockets */
    char *subject;     /* of a client certificate, or NULL */
    bool identified;
    uid_t uid; /* of the peer, once identified; HTTP_NO_UID when it is not known */
};

enum worker_state { WORKER_RUNNING, WORKER_DRAINING, WORKER_STOPPED };

struct worker {
    struct http_server *server;
    struct loop *loop;
    struct conn *conns;
    unsigned n_conns, n_handed;
    enum worker_state state;
    struct loop_call stop_call;
    struct loop_timer grace;
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
    struct worker *workers;
    struct listener *listeners;
    struct peers peers;
    atomic_uint next, running;
    void (*done)(void *arg);
    void *done_arg;
    int64_t grace_ns;
    atomic_uint_least64_t connections, accepted, refused, requests, bad_requests, timeouts, floods, bytes_in, bytes_out,
        buffered;
};

/* exchange.c */
struct exchange *exchange_new(struct conn *c);
void exchange_free(struct exchange *x);                         /* out of its connection's list too */
int exchange_set_target(struct exchange *x, struct str target); /* splits; copies nothing */
/* The head is complete: asks begin(). False when the request is answered already and its body is to be thrown away. */
bool exchange_begin(struct exchange *x);
/* Counts n bytes of this request among what the server buffers; -ENOBUFS when that is too much. */
int exchange_account(struct exchange *x, size_t n);
/* 0, or the status to answer with: 413, 503, 500; -1: on_body answered itself. */
int exchange_body(struct exchange *x, const char *p, size_t n);
void exchange_dispatch(struct exchange *x); /* the request is complete */
/* Answers for the server itself, before any handler saw it. */
void exchange_refuse(struct exchange *x, int status, const char *text);
void exchange_cancel(struct exchange *x);  /* tells the handler, once */
void exchange_abandon(struct exchange *x); /* the connection or stream is gone: frees, or leaves to the handler */
/* Next bytes of the answer, empty when there are none for now; *ret_end: none will follow. */
struct str exchange_output(struct exchange *x, bool *ret_end);
void exchange_sent(struct exchange *x, size_t n); /* takes them off */
bool exchange_has_body(const struct exchange *x);
size_t exchange_length(const struct exchange *x); /* of an answer that is not a stream */
const char *worker_date(struct worker *w);

/* conn.c */
/* from: the connection counted for its peer, or NULL; taken over. */
void conn_open(struct worker *w, int fd, const char *peer, struct peer *from);
/* Frees: only from the top of a callback. What runs inside a protocol says conn_fail(), which closes a little later. */
void conn_close(struct conn *c);
void conn_fail(struct conn *c);
void conn_schedule(struct conn *c);                       /* flush at the end of this round */
void conn_set_deadline(struct conn *c, int64_t after_ns); /* from now; 0: none */
int conn_hold(struct conn *c, size_t n); /* n bytes of input are kept now; -ENOBUFS when the server holds too much */
void conn_finish_output(struct conn *c); /* closes once the output is sent, in a way the peer can read */
int64_t conn_body_deadline(const struct conn *c, const struct exchange *x);
void worker_maybe_stopped(struct worker *w);

extern const struct conn_protocol conn_http1, conn_http2;
int conn_http1_new(struct conn *c);
int conn_http2_new(struct conn *c);

#endif
