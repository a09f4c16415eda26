/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal to the client: its connections. A request is in one of three places: the client's waiting list, a
 * connection's list, or ended (its finish call is deferred, and done() follows).
 */
#ifndef NET_CLIENT_CONN_H
#define NET_CLIENT_CONN_H

#include "net/client.h"
#include "net/resolve.h"
#include "net/stream.h"

enum client_state { CONN_RESOLVING, CONN_CONNECTING, CONN_OPENING, CONN_OPEN };

struct client_wire {
    int (*start)(struct client_conn *c, struct client_request *r); /* the request is in the list already */
    void (*input)(struct client_conn *c, char *p, size_t n);
    void (*eof)(struct client_conn *c); /* may end requests whose response lasts until the connection closes */
    void (*flush)(struct client_conn *c);
    void (*abort)(struct client_conn *c, struct client_request *r); /* the request ended early and has left the list */
    unsigned (*room)(const struct client_conn *c);                  /* number of requests it can take now */
    void (*ping)(struct client_conn *c);
    void (*done)(struct client_conn *c);
};

struct client_conn {
    struct client *client;
    struct client_conn *prev, *next;
    enum client_state state;
    struct resolve *resolve;
    struct address list[RESOLVE_MAX];
    int n_list, at;
    struct loop_io connecting;
    struct stream stream;
    bool has_stream, failed, no_more; /* no_more: finishes its current requests only (GOAWAY, connection: close) */
    int error;
    struct err err;
    const struct client_wire *wire;
    void *state_of_wire;
    struct client_request *requests;
    unsigned n_requests;
    uint64_t served;
    struct loop_timer timer;
    struct loop_call flush;
    int64_t opened_at, last_input, last_used, ping_sent, attempt_until;
    char peer[64];
};

struct client {
    struct client_options o;
    struct loop *loop;
    struct http_url url;
    char *url_text, *user_agent;
    struct address_parts parts;
    struct client_conn *conns;
    unsigned n_conns, n_waiting;
    struct client_request *waiting, *waiting_last;
    /* Connections in a row that ended without a response, the last one's reason, and when the next one may be opened. */
    unsigned failures;
    struct err failure;
    int64_t pause, open_at;
    struct loop_timer reopen;
    bool freeing;
};

/* client.c */
void client_dispatch(struct client *c);        /* assigns waiting requests to connections, opens connections */
void client_requeue(struct client_request *r); /* moves it from its connection to the front of the waiting list */
void client_end(struct client_request *r, int error, const struct err *e); /* off its list; done() is called later */
/* A connection has ended without a response: pauses before the next one, or gives up on the requests that wait. */
void client_failed(struct client *c, bool was_open, const struct err *e);
/* Handle an incoming response. Negative: the request has ended. */
int client_take_head(struct client_request *r);
int client_take_data(struct client_request *r, struct str piece);

/* client_conn.c */
int client_conn_new(struct client *c);
void client_conn_close(struct client_conn *c); /* only from the top of a callback */
void client_conn_fail(struct client_conn *c, int error, const char *fmt, ...)
    _printf_(3, 4); /* closes it later in this round */
void client_conn_schedule(struct client_conn *c);
bool client_conn_usable(const struct client_conn *c);

extern const struct client_wire client_http1, client_http2;
int client_http1_new(struct client_conn *c);
int client_http2_new(struct client_conn *c);

#endif
