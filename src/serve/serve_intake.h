/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The intake of profiles and traces: the pipeline's OTLP and Pyroscope services, preceded by the server's tokens and followed
 * by the limits of the tenant and the store, or by the span index.
 */
#ifndef SERVE_SERVE_INTAKE_H
#define SERVE_SERVE_INTAKE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct agent_feed;
struct auth;
struct front;
struct http_request;
struct senders;
struct serve_intake;
struct serve_limits;
struct sink;

/* All of them must outlive the intake. limits are also read by serve_intake_limits(). */
struct serve_intake_options {
    struct auth *auth;
    const char *const *hosts;
    const struct serve_limits *limits;
    struct agent_feed *agent; /* names the processes of local senders; NULL: nothing does */
};
/* Where it leads to. */
struct serve_intake_ends {
    struct sink *store;
    const char *const *labels; /* of series (store.h), which are counted per tenant; NULL: the default ones */
    struct sink *traces;       /* NULL: traces are refused */
};

int serve_intake_new(const struct serve_intake_options *o, struct serve_intake **ret);
/* Before the first batch. */
void serve_intake_open(struct serve_intake *o, const struct serve_intake_ends *ends);
/* Threads for large bodies and for questions to the agent. When they stop, nothing may be received any more. */
int serve_intake_start(struct serve_intake *o, struct err *e);
void serve_intake_stop(struct serve_intake *o);
/* Every batch must have been acknowledged. */
void serve_intake_free(struct serve_intake *o);
DEFINE_CLEANUP(struct serve_intake *, serve_intake_free)
/* Applies new limits, from the reloaded configuration. They must stay valid until the next change. */
void serve_intake_limits(struct serve_intake *o, const struct serve_limits *limits);
/* Where batches of a tenant that are decoded already are delivered to; "" is the default tenant. NULL without memory. */
struct sink *serve_intake_sink(struct serve_intake *o, const char *tenant);
struct senders *serve_intake_senders(const struct serve_intake *o);

/* For http_server_options.begin: refuses a request after its headers, before the body is read. */
bool serve_intake_begin(void *arg, struct http_request *q);
/* Handlers for http_server_options.handle. Large bodies are decoded on the intake's own threads. */
void serve_intake_grpc(void *arg, struct http_request *q);
void serve_intake_http(void *arg, struct http_request *q);
/* Mounts /ingest, push.v1.PusherService/Push and OTLP's paths of profiles and traces. */
int serve_intake_mount(struct serve_intake *o, struct front *f);
/* Lines for /metrics. */
void serve_intake_metrics(struct serve_intake *o, struct buf *out);

#endif
