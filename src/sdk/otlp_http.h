/* SPDX-License-Identifier: Apache-2.0 */
/* One OTLP/HTTP export: a POST and its answer, HTTP/1.1, a connection each. */
#ifndef SDK_OTLP_HTTP_H
#define SDK_OTLP_HTTP_H

#include "base/buf.h"
#include "sdk/sdk_settings.h"

/* body is the (compressed) request. 0; -EAGAIN when it may be sent again later (429, 502, 503, 504); other errors with
 * words. */
int otlp_http_post(const struct settings *s, const struct buf *body, int64_t deadline, void (*pump)(void),
                   struct err *e);

#endif
