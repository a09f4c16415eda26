/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /api/v1/upload?name=FILE: a profile in any format that `wick convert` reads, as the web UI sends a file that is
 * dropped on its page. It is stored like any other: service.name is the name of the file, service.version distinguishes two
 * uploads of one name apart, and its time is now, so that it can be explored, and compared with anything. Its service.namespace
 * keeps it out of what is asked about all services. The answer is
 *
 *   {"service":"x.jfr","instance":"upload-18c2…","types":["cpu","wall"],"type":"cpu","from":ms,"to":ms}
 *
 * where `type` is the one to look at first. An error is {"error":{"message":"…"}}.
 */
#ifndef PIPELINE_UPLOAD_SERVICE_H
#define PIPELINE_UPLOAD_SERVICE_H

#include <stddef.h>

struct http_request;
struct sink;

#define UPLOAD_PATH "/api/v1/upload"

struct upload_service {
    struct sink *sink;
    const char *tenant;
    size_t max_inflated; /* 0: 64 MiB */
};

/* Handles a whole request, on any thread; finishes it now or later. */
void upload_service_handle(struct upload_service *s, struct http_request *q);

#endif
