/* SPDX-License-Identifier: Apache-2.0 */
/* Sends the spans of a demo service to the server, see demo_trace.h. */
#include "demo/demo_trace.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/thread.h"
#include "base/wire.h"
#include "model/semconv.h"
#include "net/fetch.h"

enum { SPANS_MAX = 4096, SPAN_KIND_SERVER_NUMBER = 2, STATUS_ERROR = 2 };

static struct {
    pthread_mutex_t lock;
    pthread_t thread;
    struct demo_span v[SPANS_MAX];
    uint32_t n;
    char url[200], service[40], version[40];
} trace = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void put_attribute(struct buf *b, const char *key, const char *value)
{
    size_t at = wire_begin(b, 1, 64), v;

    wire_put_str(b, 1, str_from(key));
    v = wire_begin(b, 2, 32);
    wire_put_str(b, 1, str_from(value));
    wire_end(b, v);
    wire_end(b, at);
}

static void put_span(struct buf *b, const struct demo_span *s)
{
    static const uint8_t none[8];
    size_t at = wire_begin(b, 2, 100), status;

    wire_put_bytes(b, 1, s->trace, sizeof s->trace);
    wire_put_bytes(b, 2, s->id, sizeof s->id);
    if (memcmp(s->parent, none, sizeof none) != 0)
        wire_put_bytes(b, 4, s->parent, sizeof s->parent);
    wire_put_str(b, 5, str_from(s->name));
    wire_put_uint(b, 6, SPAN_KIND_SERVER_NUMBER);
    wire_put_fixed64(b, 7, (uint64_t) s->start);
    wire_put_fixed64(b, 8, (uint64_t) s->end);
    if (s->failed) {
        status = wire_begin(b, 15, 2);
        wire_put_uint(b, 3, STATUS_ERROR);
        wire_end(b, status);
    }
    wire_end(b, at);
}

/* An ExportTraceServiceRequest of all spans that were collected. */
static void put_request(struct buf *b)
{
    size_t all = wire_begin(b, 1, 1 << 15), part = wire_begin(b, 1, 128);

    put_attribute(b, SEMCONV_SERVICE_NAME, trace.service);
    put_attribute(b, SEMCONV_SERVICE_VERSION, trace.version);
    wire_end(b, part);
    part = wire_begin(b, 2, 1 << 15);
    pthread_mutex_lock(&trace.lock);
    for (uint32_t i = 0; i < trace.n; i++)
        put_span(b, &trace.v[i]);
    trace.n = 0;
    pthread_mutex_unlock(&trace.lock);
    wire_end(b, part);
    wire_end(b, all);
}

static void *send_all(void *arg)
{
    (void) arg;
    for (;;) {
        _cleanup_(buf_done) struct buf b = BUF_INIT;
        _cleanup_(fetch_result_done) struct fetch_result res = {0};
        struct http_header type = {STR("content-type"), STR("application/x-protobuf")};
        struct fetch_options o = {
            .url = trace.url, .method = "POST", .headers = &type, .n_headers = 1, .timeout_ns = 5 * NS_PER_S};
        struct err e = {0};

        sleep(1);
        put_request(&b);
        o.body = buf_str(&b);
        if (!buf_error(&b))
            (void) fetch_url(&o, &res, &e);
    }
    return NULL;
}

void demo_trace_start(const char *url, const char *service, const char *version)
{
    snprintf(trace.url, sizeof trace.url, "%s/v1/traces", url);
    snprintf(trace.service, sizeof trace.service, "%s", service);
    snprintf(trace.version, sizeof trace.version, "%s", version);
    if (thread_start(&trace.thread, "traces", send_all, NULL, NULL) < 0)
        trace.url[0] = 0;
}

void demo_trace_add(const struct demo_span *s)
{
    if (!trace.url[0])
        return;
    pthread_mutex_lock(&trace.lock);
    if (trace.n < SPANS_MAX)
        trace.v[trace.n++] = *s;
    pthread_mutex_unlock(&trace.lock);
}
