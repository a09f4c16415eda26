/* SPDX-License-Identifier: Apache-2.0 */
/* A unary gRPC call over an HTTP/2 client. Everything runs on the client's loop; see client.h for ownership. */
#ifndef NET_GRPC_CLIENT_H
#define NET_GRPC_CLIENT_H

#include "net/client.h"
#include "net/grpc.h"

struct grpc_call {
    /* --- the request: owned by the caller until done() --- */
    struct str path;    /* "/package.Service/Method" */
    struct str message; /* framed and compressed here, on the loop … */
    struct str framed;  /* … or framed beforehand by grpc_frame(), on a thread that has the time */
    enum compression compression;
    int level;
    const struct http_header *headers;
    size_t n_headers;
    int64_t timeout_ns;                /* also sent to the peer; 0: none */
    size_t max_answer;                 /* [4 MiB] decompressed */
    void (*done)(struct grpc_call *c); /* exactly once, never from inside grpc_call_start() */
    void *user;

    /* --- the response: valid from done() to grpc_call_done() --- */
    struct grpc_status status; /* from the peer, or derived from the error of the connection */
    bool from_peer;            /* the status was sent by the peer */
    struct str answer;

    /* --- private --- */
    struct client_request request;
    struct buf frame, inflated;
    struct http_header *all;
    char timeout_text[24];
};

/* 0, or a negative errno if it cannot be started (then done() is not called, and c->status has the error message). */
int grpc_call_start(struct client *client, struct grpc_call *c);
void grpc_call_cancel(struct grpc_call *c);
void grpc_call_done(struct grpc_call *c); /* frees the response */

#endif
