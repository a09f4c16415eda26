/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The intake of profiles and traces: the pipeline's OTLP and Pyroscope services, preceded by the server's tokens and limits
 * and followed by the store or the span index. Each tenant that has sent something has services and a gate of its own.
 */
#ifndef SERVE_SERVE_INTAKE_H
#define SERVE_SERVE_INTAKE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct auth;
struct front;
struct http_request;
struct serve_intake;
struct serve_limits;
struct sink;

/* The caller owns sink, auth and hosts, which must outlive the intake; limits are read here and in
 * serve_intake_limits(). */
int serve_intake_new(struct sink *sink, struct auth *auth, const char *const *hosts, const struct serve_limits *limits,
                     struct serve_intake **ret, struct err *e);
void serve_intake_free(struct serve_intake *o);
DEFINE_CLEANUP(struct serve_intake *, serve_intake_free)
/* The labels of series (store.h), which are counted per tenant; before the first request. */
void serve_intake_labels(struct serve_intake *o, const char *const *labels);
/* Where requests of traces go; NULL: they are refused. Before the first request. */
void serve_intake_traces(struct serve_intake *o, struct sink *traces);
/* Applies new limits, from the reloaded configuration. They must stay valid until the next change. */
void serve_intake_limits(struct serve_intake *o, const struct serve_limits *limits);
/* Where pipelines of the configuration deliver to: the default tenant's gate. */
struct sink *serve_intake_sink(struct serve_intake *o);

/* For http_server_options.begin: refuses a request after its headers, before the body is read. */
bool serve_intake_begin(void *arg, struct http_request *q);
/* Handlers for http_server_options.handle. Large bodies are decoded on the intake's own threads. */
void serve_intake_grpc(void *arg, struct http_request *q);
void serve_intake_http(void *arg, struct http_request *q);
/* Mounts /ingest, push.v1.PusherService/Push and OTLP's paths of profiles and traces. */
int serve_intake_mount(struct serve_intake *o, struct front *f);
/* Lines for /metrics. */
void serve_intake_metrics(void *intake, struct buf *out);

#endif
