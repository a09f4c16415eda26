/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One OTLP/gRPC export: an HTTP/2 connection with one stream, written by hand because libnghttp2 cannot be linked into
 * a shared object here. It sends literal headers, respects the peer's windows, and reads just enough of the response to
 * find grpc-status.
 */
#ifndef SDK_OTLP_GRPC_H
#define SDK_OTLP_GRPC_H

#include "base/buf.h"
#include "sdk/sdk_settings.h"

/* body is the (compressed) message without its frame. Errors as in otlp_http_post(); -EAGAIN for UNAVAILABLE and
 * RESOURCE_EXHAUSTED. */
int otlp_grpc_call(const struct settings *s, const struct buf *body, int64_t deadline, void (*pump)(void),
                   struct err *e);

#endif
