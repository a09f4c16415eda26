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

/* Reads the protobuf response of a successful export: rejected items and the peer's message. */
void otlp_read_partial(struct str m, struct ack_result *ret);

/* Checks an endpoint during validation. */
int otlp_endpoint_check(const char *endpoint, bool grpc, struct err *e);

#endif
