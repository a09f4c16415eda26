/* SPDX-License-Identifier: Apache-2.0 */
/* The spans of a service of `wick demo`: collected, and sent as OTLP traces once a second by a thread of their own. A real
 * program leaves this to an OpenTelemetry SDK. */
#ifndef DEMO_DEMO_TRACE_H
#define DEMO_DEMO_TRACE_H

#include <stdbool.h>
#include <stdint.h>

struct demo_span {
    uint8_t trace[16], id[8], parent[8]; /* parent: zero if there is none */
    const char *name;
    int64_t start, end; /* wall clock, ns */
    bool failed;
};

/* url: of the server's API. Spans are dropped if the thread cannot be started or the server does not answer. */
void demo_trace_start(const char *url, const char *service, const char *version);
void demo_trace_add(const struct demo_span *s);

#endif
