/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP client for one origin on one loop: HTTP/1.1 with a pool of connections, or HTTP/2 with one that carries many
 * requests. Connections are opened when needed, kept for the next request, and pinged if configured. Redirects are
 * reported, never followed; no proxy is used.
 *
 * All functions must be called on the loop's thread. Requests are the caller's objects, embedded in its own:
 *
 *     r->method = "POST"; r->target = …; r->body = …; r->done = my_done;
 *     client_start(c, r);
 *     …
 *     static void my_done(struct client_request *r)      // exactly once, never from inside client_start()
 *     {
 *         if (r->error) … r->err.message …  else … r->status, r->headers, r->answer …
 *         client_request_done(r);                        // frees the answer
 *     }
 */
#ifndef NET_CLIENT_H
#define NET_CLIENT_H

#include "net/http.h"
#include "net/loop.h"
#include "net/tls.h"

struct client;
struct client_conn;

enum client_protocol {
    CLIENT_HTTP1,
    CLIENT_HTTP2, /* prior knowledge; over TLS the peer must agree by ALPN */
    CLIENT_AUTO,  /* over TLS as ALPN selects, else HTTP/1.1 */
};

struct client_request {
    /* --- the request: set before client_start(), kept by the caller until done() --- */
    const char *method;
    struct str target;                 /* path and query; "" means "/" */
    const struct http_header *headers; /* names in lower case; the client adds host, content-length and user-agent */
    size_t n_headers;
    struct str body;
    int64_t timeout_ns; /* for the whole request; 0: none */
    size_t max_answer;  /* bytes of body; 0: 64 MiB. -EFBIG if there is more */
    void (*done)(struct client_request *r);
    int (*on_head)(struct client_request *r); /* optional: called after status and headers; negative ends it */
    int (*on_data)(struct client_request *r, struct str piece); /* optional: called instead of collecting the body;
                                                                 * negative ends it */
    void *user;

    /* --- the response: valid from done() to client_request_done() --- */
    int error; /* 0, or a negative errno: -ETIMEDOUT, -ECANCELED, -ECONNREFUSED, -EPROTO … */
    struct err err;
    bool was_sent; /* on error: the peer may have seen the request, so a repetition may execute it twice */
    int status;
    struct http_headers headers_in, trailers;
    struct str answer;
    const char *peer; /* address of the connection, "" if there was none yet */

    /* --- private --- */
    struct client *client;
    struct client_conn *conn;
    struct client_request *prev, *next;
    struct loop_timer timer;
    struct loop_call finish;
    struct arena arena;
    struct buf body_in;
    uint64_t seen;
    size_t sent;
    int32_t stream_id;
    bool retried, head_seen, ended;
    char peer_text[64];
};

struct client_options {
    struct loop *loop;
    const char *url; /* http://host:port, https://…, unix:///path; a path in it is ignored */
    enum client_protocol protocol;
    struct tls_context *tls;      /* for https: required, must outlive the client; its ALPN must match the protocol */
    const char *user_agent;       /* NULL: "wick/VERSION" */
    unsigned max_connections;     /* [8] of HTTP/1.1; HTTP/2 uses one */
    unsigned max_waiting;         /* [10000] requests without a connection; -EAGAIN if there are more */
    int64_t connect_timeout_ns;   /* [10 s] for name resolution, all addresses, and TLS */
    int64_t idle_timeout_ns;      /* [90 s] an unused connection is closed */
    int64_t keepalive_time_ns;    /* [0: off] HTTP/2: ping a silent connection after this */
    int64_t keepalive_timeout_ns; /* [10 s] … and close it if nothing is received for this long */
    bool keepalive_without_calls; /* ping also while no request is in progress */
    /* Called for each address before connecting to it; NULL: all are allowed. */
    bool (*allow)(const char *address);
};

int client_new(const struct client_options *o, struct client **ret, struct err *e);
/* Ends the requests in progress with -ECANCELED. Not from done(), on_head() or on_data(). */
void client_free(struct client *c);
DEFINE_CLEANUP(struct client *, client_free)
/* 0, or a negative errno if it cannot even be queued (then done() is not called). */
int client_start(struct client *c, struct client_request *r);
/* done() is called with -ECANCELED at the end of this round. A no-op if the request has ended already. */
void client_cancel(struct client_request *r);
/* Frees the response; the request may be used again after its fields are set anew. */
void client_request_done(struct client_request *r);

#endif
