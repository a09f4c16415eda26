/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending half of OTLP, shared by the exporters `otlp` (gRPC) and `otlphttp`: one client on the sender's loop. It
 * frames and compresses requests, and translates responses into results that say whether to retry.
 */
#ifndef PIPELINE_OTLP_CLIENT_H
#define PIPELINE_OTLP_CLIENT_H

#include "base/compress.h"
#include "pipeline/delivery/sender.h"
#include "pipeline/graph/settings.h"

struct auth_api;
struct loop;

struct keepalive_config {
    int64_t time, timeout;
    bool permit_without_stream;
};

struct otlp_client_options {
    const char *id;
    enum signal signal;
    bool grpc, json;
    const char *endpoint; /* URL, or host:port */
    const char *path;     /* HTTP: where to POST; gRPC: NULL */
    enum compression compression;
    int level;
    bool references; /* attribute strings as references */
    const struct option_map *headers;
    const struct tls_config *tls;
    const struct keepalive_config *keepalive; /* NULL: off */
    struct instance *auth;
    const struct auth_api *auth_api;
};

struct otlp_client;

/* Reads certificates and checks the endpoint. The strings of o must outlive the client. */
int otlp_client_new(const struct otlp_client_options *o, struct otlp_client **ret, struct err *e);
void otlp_client_free(struct otlp_client *c);
/* For struct sender; arg is the struct otlp_client. */
extern const struct sender_ops otlp_client_ops;

/* Whether the peer takes OTLP the way this client sends it. */
enum otlp_fit {
    OTLP_FITS,    /* it responded as a receiver does, if only to ask for credentials or for a pause */
    OTLP_UNFIT,   /* it responded otherwise, or broke the connection off */
    OTLP_NO_PEER, /* nothing responded */
};

/* Sends an empty request, after ops.open and before ops.close. done is called once, on the loop thread; message says why
 * nothing responded. Returns a negative errno if the request cannot be sent; done is not called then. */
int otlp_client_ask(struct otlp_client *c, void (*done)(void *arg, enum otlp_fit fit, const char *message), void *arg,
                    struct err *e);
/* Whether a response to any request has arrived. */
bool otlp_client_responded(const struct otlp_client *c);
/* host:port of the peer, for messages. */
const char *otlp_client_peer(const struct otlp_client *c);

/* Reads the protobuf response of a successful export: rejected items and the peer's message. */
void otlp_read_partial(struct str m, struct ack_result *ret);

/* Checks an endpoint during validation. */
int otlp_endpoint_check(const char *endpoint, bool grpc, struct err *e);

#endif
