/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OTLP service, to be mounted on any HTTP server: accepts gRPC and HTTP export requests of all signals, decodes
 * profiles, passes requests on, and answers when they are acknowledged, with the status codes that OTLP requires. A bad
 * request is answered with InvalidArgument and a reason, and does not affect others.
 *
 * The first wick receiver on the way gives profiles without an id one derived from their content (identity.h), so that
 * a repeated request can be recognized.
 */
#ifndef PIPELINE_OTLP_SERVICE_H
#define PIPELINE_OTLP_SERVICE_H

#include "base/err.h"
#include "base/metrics.h"
#include "model/sink.h"
#include "pipeline/delivery/blob.h"

struct auth_api;
struct http_request;
struct instance;

struct otlp_service {
    struct sink *next[SIGNALS]; /* NULL: this signal is not served */
    size_t max_message;         /* bytes of a request, decompressed */
    bool include_metadata;      /* pass the request's headers to processors */
    bool keep_empty_ids;        /* do not fill in profile ids */
    const char *tenant;         /* NULL: "" */
    struct instance *auth;      /* NULL: no authentication */
    const struct auth_api *auth_api;
    /* Custom paths of OTLP/HTTP, NULL: /v1/traces and so on. */
    const char *http_paths[SIGNALS];
    struct metric *accepted[SIGNALS], *refused[SIGNALS], *failed[SIGNALS];
};

void otlp_service_metrics(struct otlp_service *s, struct metrics *m, const char *receiver, const char *transport);
/* Handles a whole request, on the loop's thread; each finishes it, now or later. */
void otlp_service_grpc(struct otlp_service *s, struct http_request *q);
void otlp_service_http(struct otlp_service *s, struct http_request *q);

#endif
