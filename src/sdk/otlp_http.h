/* SPDX-License-Identifier: Apache-2.0 */
/* One OTLP/HTTP export: a POST request over HTTP/1.1 and its response, each on a new connection. */
#ifndef SDK_OTLP_HTTP_H
#define SDK_OTLP_HTTP_H

#include "base/buf.h"
#include "sdk/sdk_settings.h"

/* body is the (compressed) request. Returns 0; -EAGAIN if it may be sent again later (429, 502, 503, 504); other errors
 * with an error message. *ret_status is the status of the response: 0 if there was none, -EPROTO if the peer was reached
 * and does not speak HTTP/1. */
int otlp_http_post(const struct settings *s, const struct buf *body, int64_t deadline, void (*pump)(void),
                   int *ret_status, struct err *e);

#endif
