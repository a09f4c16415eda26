/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OTLP's front door, to be mounted on any HTTP server: takes gRPC and HTTP export requests of all signals, decodes
 * profiles, hands on, and answers when it is acknowledged, with the statuses that OTLP asks for. A bad request fails
 * alone, with InvalidArgument and a reason.
 *
 * wick's first receiver gives profiles without an id one made of their content (identity.h), so that a request that is
 * sent again can be told.
 */
#ifndef PIPELINE_OTLP_SERVICE_H
#define PIPELINE_OTLP_SERVICE_H

#include "base/err.h"
#include "pipeline/delivery/blob.h"
#include "pipeline/graph/metrics.h"

struct auth_api;
struct http_request;
struct instance;

struct otlp_service {
    struct sink *profiles;            /* NULL: this signal is not served */
    struct blob_sink *blobs[SIGNALS]; /* the same */
    size_t max_message;               /* inflated bytes of a request */
    bool include_metadata;            /* tell processors the request's headers */
    bool keep_empty_ids;              /* do not fill in profile ids */
    const char *tenant;               /* NULL: "" */
    struct instance *auth;            /* NULL: anybody */
    const struct auth_api *auth_api;
    /* Own paths of OTLP/HTTP, NULL: /v1/traces and so on. */
    const char *http_paths[SIGNALS];
    struct metric *accepted[SIGNALS], *refused[SIGNALS], *failed[SIGNALS];
};

void otlp_service_metrics(struct otlp_service *s, struct metrics *m, const char *receiver, const char *transport);
/* A whole request, on the loop's thread; each finishes it, now or later. */
void otlp_service_grpc(struct otlp_service *s, struct http_request *q);
void otlp_service_http(struct otlp_service *s, struct http_request *q);
/* Whether an HTTP path is one of OTLP's (to choose between this and others). */
bool otlp_service_has_path(const struct otlp_service *s, struct str path);

#endif
