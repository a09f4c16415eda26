/* SPDX-License-Identifier: Apache-2.0 */
/* See sink.h. */
#include "model/sink.h"

#include <stdarg.h>
#include <stdio.h>

void ack_fail(struct ack *a, enum sink_status status, int64_t retry_ns, const char *fmt, ...)
{
    struct ack_result r = {.status = status, .retry_ns = retry_ns};
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(r.message, sizeof r.message, fmt, ap);
    va_end(ap);
    ack_complete(a, &r);
}
