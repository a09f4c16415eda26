/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes in: the pipeline's OTLP and Pyroscope services with the server's tokens and limits in front of them and the
 * store behind. Each tenant that has sent something has services and a gate of its own.
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

/* The sink, auth and hosts are the caller's and outlive it; limits are read here and at serve_intake_limits(). */
int serve_intake_new(struct sink *sink, struct auth *auth, const char *const *hosts, const struct serve_limits *limits,
                     struct serve_intake **ret, struct err *e);
void serve_intake_free(struct serve_intake *o);
DEFINE_CLEANUP(struct serve_intake *, serve_intake_free)
/* New limits, from the configuration that was read again. They must outlive the next change. */
void serve_intake_limits(struct serve_intake *o, const struct serve_limits *limits);
/* Where pipelines of the configuration hand to: the default tenant's gate. */
struct sink *serve_intake_sink(struct serve_intake *o);

/* For http_server_options.begin: refuses by the head alone, before a body is read. */
bool serve_intake_begin(void *arg, struct http_request *q);
/* Handlers for http_server_options.handle. Large bodies are decoded on threads of the intake's own. */
void serve_intake_grpc(void *arg, struct http_request *q);
void serve_intake_http(void *arg, struct http_request *q);
/* Mounts /ingest and push.v1.PusherService/Push. */
int serve_intake_mount(struct serve_intake *o, struct front *f);
/* Lines for /metrics. */
void serve_intake_metrics(void *intake, struct buf *out);

#endif
