/* SPDX-License-Identifier: Apache-2.0 */
/* A unary gRPC call over an HTTP/2 client, for tests and benchmarks. Everything runs on the client's loop; see client.h for ownership. */
#ifndef TESTS_GRPC_CLIENT_H
#define TESTS_GRPC_CLIENT_H

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
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

enum { ANSWER_MAX = 4 << 20, OWN_HEADERS = 5 };

static enum grpc_code code_of_error(int error)
{
    switch (error) {
    case -ETIMEDOUT:
        return GRPC_DEADLINE_EXCEEDED;
    case -ECANCELED:
        return GRPC_CANCELLED;
    case -EFBIG:
        return GRPC_RESOURCE_EXHAUSTED;
    case -EINVAL:
        return GRPC_INTERNAL;
    default:
        return GRPC_UNAVAILABLE;
    }
}

static void request_done(struct client_request *r)
{
    struct grpc_call *c = container_of(r, struct grpc_call, request);

    if (r->error) {
        grpc_status_set(&c->status, code_of_error(r->error), "%.500s", err_message(&r->err, r->error));
    } else {
        size_t max = c->max_answer ? c->max_answer : ANSWER_MAX;

        c->from_peer = http_headers_has(&r->headers_in, "grpc-status") || http_headers_has(&r->trailers, "grpc-status");
        grpc_answer(&(struct grpc_response){r->status, &r->headers_in, &r->trailers, r->answer}, max, &c->inflated,
                    &c->answer, &c->status);
    }
    c->done(c);
}

/* At most 8 digits and a unit. */
static void format_timeout(int64_t ns, char *out, size_t n)
{
    if (ns < 100000000 * NS_PER_US)
        snprintf(out, n, "%lldu", (long long) MAX(ns / NS_PER_US, 1));
    else if (ns < 100000000 * NS_PER_MS)
        snprintf(out, n, "%lldm", (long long) (ns / NS_PER_MS));
    else
        snprintf(out, n, "%lldS", (long long) MIN(ns / NS_PER_S, 99999999));
}

static int build_headers(struct grpc_call *c)
{
    size_t n = 0;

    c->all = mem_zalloc_array(c->n_headers + OWN_HEADERS, sizeof *c->all);
    if (!c->all)
        return -ENOMEM;
    c->all[n++] = (struct http_header){STR("te"), STR("trailers")};
    c->all[n++] = (struct http_header){STR("content-type"), STR("application/grpc")};
    c->all[n++] = (struct http_header){STR("grpc-accept-encoding"), STR("gzip,zstd,deflate,identity")};
    if (c->compression != COMPRESS_NONE)
        c->all[n++] = (struct http_header){STR("grpc-encoding"), str_from(compress_name(c->compression))};
    if (c->timeout_ns > 0) {
        format_timeout(c->timeout_ns, c->timeout_text, sizeof c->timeout_text);
        c->all[n++] = (struct http_header){STR("grpc-timeout"), str_from(c->timeout_text)};
    }
    if (c->n_headers)
        memcpy(c->all + n, c->headers, c->n_headers * sizeof *c->headers);
    c->request.headers = c->all;
    c->request.n_headers = n + c->n_headers;
    return 0;
}

/* Frees the response. */
static inline void grpc_call_done(struct grpc_call *c)
{
    client_request_done(&c->request);
    buf_done(&c->frame);
    buf_done(&c->inflated);
    mem_free(c->all);
    c->all = NULL;
    c->answer = (struct str){0};
}

/* 0, or a negative errno if it cannot be started (then done() is not called, and c->status has the error message). */
static inline int grpc_call_start(struct client *client, struct grpc_call *c)
{
    struct client_request *r = &c->request;
    struct err e = {0};
    int code = build_headers(c);

    if (code == 0 && !c->framed.p)
        code = grpc_frame(&c->frame, c->message, c->compression, c->level, &e);
    if (code == 0) {
        r->method = "POST";
        r->target = c->path;
        r->body = c->framed.p ? c->framed : buf_str(&c->frame);
        r->timeout_ns = c->timeout_ns;
        r->max_answer = c->max_answer ? c->max_answer + 5 : 0;
        r->done = request_done;
        code = client_start(client, r);
        if (code < 0)
            e = r->err;
    }
    if (code < 0) {
        grpc_status_set(&c->status, code_of_error(code), "%.500s", err_message(&e, code));
        grpc_call_done(c);
    }
    return code;
}

#endif
