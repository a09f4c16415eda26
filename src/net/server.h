/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP server: HTTP/1.1 and HTTP/2 (by ALPN or prior knowledge) on TCP and unix sockets, plain or TLS, with one
 * interface for both. One loop accepts connections and distributes them round-robin over the given loops.
 *
 * A handler gets a whole request and answers it now or later, from any thread:
 *
 *     static void handle(void *arg, struct http_request *q)          // on the loop's thread: never block
 *     {
 *         if (!str_is(q->path, "/x"))
 *             http_reply(q, 404, "text/plain", STR("not here\n"));   // finished
 *         else
 *             hand_to_a_worker(q);                                    // which calls http_reply() or http_finish()
 *     }
 *
 * From handle() until http_finish() the handler owns the request, whatever happens to the connection: if the peer
 * disconnects, q->cancelled reports it, and the handler finishes as usual. Exactly one finish per request. After it, q must not be accessed except in q->released.
 */
#ifndef NET_SERVER_H
#define NET_SERVER_H

#include <stdatomic.h>

#include "net/http.h"
#include "net/loop.h"
#include "net/tls.h"

#define HTTP_NO_UID ((uid_t) -1)

/* The memory of responses that are sent on behalf of one user, however many connections they go to. Outlives them. */
struct http_share {
    atomic_size_t held;
    size_t limit; /* a response is refused while this much is held; 0: no limit */
};

struct http_request {
    /* --- the request; all strings live as long as the request --- */
    struct str method, target, path, query, scheme,
        authority; /* path as sent, still percent-encoded; query without '?' */
    struct http_headers headers;
    struct str body; /* complete, as sent (see net/encoding.h for content-encoding); empty if on_body processed it */
    int version;     /* 10, 11 or 20 */
    bool tls;
    const char *peer;         /* "127.0.0.1:1234"; for logs and limits */
    const char *peer_subject; /* of the verified client certificate, "" without one */
    uid_t peer_uid;           /* of a peer on this machine, with http_server_options.identify_peers; else HTTP_NO_UID */
    void *server_arg;         /* of http_server_options */
    struct arena arena;       /* for data that lives as long as the request; used only by the thread that holds the
                               * request */

    /* --- what a begin() hook may change, before the body is read --- */
    size_t max_body;
    /* Receives the body in pieces as they arrive, on the loop's thread; negative: answer 500, unless it has answered
     * itself. The limit still applies. handle() follows when the body is complete. */
    int (*on_body)(struct http_request *q, struct str piece);

    /* --- owned by the handler; set in begin() or handle(), called on the loop's thread --- */
    void *user;
    void (*cancelled)(struct http_request *q); /* the peer disconnected before the response was sent; at most once */
    void (*released)(struct http_request *q);  /* the last call: free `user` here */

    /* --- the response --- */
    int status; /* 200 unless set */
    struct http_headers answer_headers, trailers;
    struct buf answer;       /* body to send; ownership is taken */
    struct str answer_const; /* instead: bytes that outlive the request (assets), neither copied nor freed */
    /* instead: a file, sent in pieces as the peer reads them. http_answer_file() sets both; the server closes it. */
    int answer_fd; /* -1: none */
    uint64_t answer_size;
    struct http_share *share; /* what the response is counted for, in addition to the peer; may be NULL. Must be valid
                               * until released() */
};

/* --- answering: any thread, one at a time --- */
/* Copies the strings. -EINVAL for bytes that a header may not hold. The server adds content-length, date and
 * connection. */
int http_add_header(struct http_request *q, const char *name, struct str value);
int http_add_trailer(struct http_request *q, const char *name, struct str value);
/* The response's body will be this file from its start to size; takes ownership of fd. */
void http_answer_file(struct http_request *q, int fd, uint64_t size);
/* Sends status, headers, body (answer, answer_const or answer_fd), trailers. A response that does not fit into what the
 * server may hold for peers that have not read theirs yet is replaced by 503. */
void http_finish(struct http_request *q);
/* Short form: sends a copied body with its type (NULL: no body) and finishes. */
void http_reply(struct http_request *q, int status, const char *content_type, struct str body);
/* Plain text with printf, for errors. */
void http_reply_text(struct http_request *q, int status, const char *fmt, ...) _printf_(3, 4);
/* Transfers the body's memory to an owner that keeps it longer than the request; q->body points into it from then
 * on. */
void http_take_body(struct http_request *q, struct buf *ret);

/* --- the server --- */
struct http_server;

struct http_server_options {
    struct loop *
        *loops; /* at least one; all must run (on their own threads or the caller's) until the server has stopped */
    unsigned n_loops;
    struct tls_context *tls; /* NULL: plain. Must outlive the server */
    bool identify_peers;     /* look up the user of each loopback connection once (net/peer_uid.h) */
    void *arg;
    void (*handle)(void *arg, struct http_request *q);
    /* Optional: called after the head, before the body. May set max_body, on_body, user; may answer at once (true: it
     * has answered or will, handle() is not called; the rest of the body is discarded). */
    bool (*begin)(void *arg, struct http_request *q);

    /* Limits; 0 means the default in brackets. */
    unsigned max_connections;      /* [20000] further ones are closed at once */
    unsigned max_peer_connections; /* [a quarter of max_connections, at least 16] per address, or /64 of IPv6; further
                                    * ones are closed */
    size_t max_head;               /* [64 KiB] bytes of a head, or of a decoded header list in HTTP/2 */
    unsigned max_headers;          /* [200] */
    size_t max_body;               /* [64 MiB] per request -> 413 */
    size_t max_buffered;           /* [512 MiB] bodies of all requests in memory -> 503 */
    size_t max_peer_buffered;      /* [a quarter of max_buffered, at least two bodies] the same per address -> 503 */
    size_t max_answers;            /* [max_buffered] responses in memory that were not read yet. Above it, those that
                                    * are read most slowly are dropped, then new ones are refused -> 503 */
    size_t max_peer_answers;       /* [half of max_answers] the same per address */
    unsigned max_requests;         /* [10000] held by handlers at the same time, per loop -> 503 */
    unsigned max_streams;          /* [100] concurrent, per HTTP/2 connection */
    int64_t handshake_timeout_ns;  /* [10 s] */
    int64_t head_timeout_ns;       /* [10 s] from a request's first byte to the end of its head */
    int64_t body_timeout_ns;       /* [30 s] for the body, plus the time its bytes take at min_rate */
    int64_t body_deadline_ns;      /* [5 min] for the whole body at any rate, unless on_body processes it */
    size_t min_rate;               /* [16 KiB/s] */
    int64_t write_timeout_ns;      /* [60 s] for a peer that reads nothing */
    int64_t idle_timeout_ns;       /* [10 min] between requests */
};

struct http_server_stats {
    uint64_t connections, accepted, refused, requests, bad_requests, timeouts, floods, bytes_in, bytes_out, buffered,
        answers, unread; /* unread: responses dropped or refused because too much was waiting to be read */
};

int http_server_new(const struct http_server_options *o, struct http_server **ret, struct err *e);
/* "127.0.0.1:4317", ":4317", "localhost:0", "unix:/run/x.sock"; may be called several times. ret_port (may be NULL) is
 * the port bound. If a port is in use, the error message names its holder. */
int http_server_listen(struct http_server *s, const char *address, int *ret_port, struct err *e);
/* Accepts no new connections; requests in progress are finished until grace_ns have passed, then the remaining
 * connections are closed. done (may be NULL) runs on a loop's thread when every connection and every request is gone.
 * Any thread, once. */
void http_server_stop(struct http_server *s, int64_t grace_ns, void (*done)(void *arg), void *arg);
/* The same, but waits. Not from a loop's thread. */
void http_server_stop_wait(struct http_server *s, int64_t grace_ns);
/* Call it after the server has stopped (or if it never listened). */
void http_server_free(struct http_server *s);
void http_server_stats(struct http_server *s, struct http_server_stats *ret); /* any thread */

#endif
