/* SPDX-License-Identifier: Apache-2.0 */
/* A unary gRPC call over a client of HTTP/2. All on the client's loop; see client.h for who owns what. */
#ifndef NET_GRPC_CLIENT_H
#define NET_GRPC_CLIENT_H

#include "net/client.h"
#include "net/grpc.h"

struct grpc_call {
    /* --- the question: the caller's until done() --- */
    struct str path;    /* "/package.Service/Method" */
    struct str message; /* framed and compressed here, on the loop … */
    struct str framed;  /* … or given ready, by grpc_frame(), on a thread that has the time */
    enum compression compression;
    int level;
    const struct http_header *headers;
    size_t n_headers;
    int64_t timeout_ns;                /* also told to the peer; 0: none */
    size_t max_answer;                 /* [4 MiB] inflated */
    void (*done)(struct grpc_call *c); /* exactly once, never from inside grpc_call_start() */
    void *user;

    /* --- the answer: valid from done() to grpc_call_done() --- */
    struct grpc_status status; /* of the peer, or made from what went wrong on the way */
    bool from_peer;            /* the status is the peer's own word */
    struct str answer;

    /* --- private --- */
    struct client_request request;
    struct buf frame, inflated;
    struct http_header *all;
    char timeout_text[24];
};

/* 0, or a negative errno when it cannot be started (then there is no done(), and the words are in c->status). */
int grpc_call_start(struct client *client, struct grpc_call *c);
void grpc_call_cancel(struct grpc_call *c);
void grpc_call_done(struct grpc_call *c); /* frees the answer */

#endif
