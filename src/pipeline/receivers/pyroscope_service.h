/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The endpoints for Pyroscope's clients, to be mounted on any HTTP server:
 *
 *   POST /ingest?name=app.cpu{k=v}&from=&until=&sampleRate=&units=&aggregationType=&format=
 *        folded stacks ("folded", "lines", or none given), pprof (format=pprof, raw or as the form field "profile"),
 *        Java Flight Recorder (format=jfr, raw or as the form field "jfr", with the field "labels" beside it)
 *   POST /push.v1.PusherService/Push
 *        Connect (application/proto, application/json) and gRPC: series of labels with pprof profiles
 *
 * Labels become resource attributes: service_name is service.name; the last part of the name, which older clients use
 * for the type (app.cpu), becomes the type. trie, tree and speedscope are refused with an error message that names
 * them.
 */
#ifndef PIPELINE_PYROSCOPE_SERVICE_H
#define PIPELINE_PYROSCOPE_SERVICE_H

#include <stdbool.h>

#include "base/str.h"

struct http_request;
struct metric;
struct sink;

struct pyroscope_service {
    struct sink *sink;
    const char *tenant;                /* NULL: "" */
    size_t max_inflated;               /* per profile; 0: 64 MiB */
    struct metric *accepted, *refused; /* samples; may be NULL */
};

bool pyroscope_service_has_path(struct str path);
/* Handles a whole request, on the loop's thread; finishes it now or later. */
void pyroscope_service_handle(struct pyroscope_service *s, struct http_request *q);

#endif
