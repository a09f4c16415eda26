/* SPDX-License-Identifier: Apache-2.0 */
/* OTLP into the store: the pipeline's front door with the server's tokens in front of it. */
#ifndef CLI_SERVE_OTLP_H
#define CLI_SERVE_OTLP_H

#include "base/err.h"

struct auth;
struct http_request;
struct sink;
struct serve_otlp;

/* The sink and auth are the caller's and outlive it. max_message: inflated bytes of one request. */
int serve_otlp_new(struct sink *sink, struct auth *auth, const char *const *hosts, size_t max_message,
                   struct serve_otlp **ret, struct err *e);
void serve_otlp_free(struct serve_otlp *o);
DEFINE_CLEANUP(struct serve_otlp *, serve_otlp_free)

/* Handlers for http_server_options.handle. */
void serve_otlp_grpc(void *arg, struct http_request *q);
void serve_otlp_http(void *arg, struct http_request *q);

#endif
