/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of OTLP traces for tests, and appending them to a span index until they are acknowledged. */
#ifndef TESTS_MADE_SPANS_H
#define TESTS_MADE_SPANS_H

#include <pthread.h>

#include "base/bytes.h"
#include "base/wire.h"
#include "span/span_index.h"

/* --- requests --- */

struct made_span {
    uint32_t trace, span, parent;
    const char *name;
    int64_t start, duration;
    int kind, status;
};

static inline void put_attribute(struct buf *b, const char *key, const char *value)
{
    size_t kv = wire_begin(b, 1, 0), v;

    wire_put_str(b, 1, str_from(key));
    v = wire_begin(b, 2, 0);
    wire_put_str(b, 1, str_from(value));
    wire_end(b, v);
    wire_end(b, kv);
}

static inline void put_span(struct buf *b, const struct made_span *s)
{
    uint8_t trace[16] = {1}, span[8] = {2}, parent[8] = {2};
    size_t at = wire_begin(b, 2, 0), status;

    store_u32(trace + 1, s->trace);
    store_u32(span + 1, s->span);
    store_u32(parent + 1, s->parent);
    wire_put_bytes(b, 1, trace, sizeof trace);
    wire_put_bytes(b, 2, span, sizeof span);
    if (s->parent)
        wire_put_bytes(b, 4, parent, sizeof parent);
    wire_put_str(b, 5, str_from(s->name));
    wire_put_uint(b, 6, (uint64_t) s->kind);
    wire_put_fixed64(b, 7, (uint64_t) s->start);
    wire_put_fixed64(b, 8, (uint64_t) (s->start + s->duration));
    status = wire_begin(b, 15, 0);
    wire_put_uint(b, 3, (uint64_t) s->status);
    wire_end(b, status);
    wire_end(b, at);
}

/* The resource comes last: an unusual order that is legal. */
static inline void put_request(struct buf *b, const char *service, const char *version, const struct made_span *v,
                               size_t n)
{
    size_t rs = wire_begin(b, 1, 0), ss = wire_begin(b, 2, 0), res;

    for (size_t i = 0; i < n; i++)
        put_span(b, &v[i]);
    wire_end(b, ss);
    res = wire_begin(b, 1, 0);
    put_attribute(b, "service.name", service);
    put_attribute(b, "service.version", version);
    wire_end(b, res);
    wire_end(b, rs);
}

/* --- acknowledgements --- */

struct waiting_ack {
    struct ack ack;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool done;
    struct ack_result result;
};

static inline void on_done(struct ack *a, const struct ack_result *r)
{
    struct waiting_ack *w = container_of(a, struct waiting_ack, ack);

    pthread_mutex_lock(&w->lock);
    w->result = *r;
    w->done = true;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
}

static inline struct ack_result append(struct span_index *x, const char *tenant, struct str message, bool json)
{
    struct waiting_ack w = {.ack = {on_done}, .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

    span_index_append(x, tenant, message, json, &w.ack);
    pthread_mutex_lock(&w.lock);
    while (!w.done)
        pthread_cond_wait(&w.cond, &w.lock);
    pthread_mutex_unlock(&w.lock);
    return w.result;
}

static inline struct ack_result append_spans(struct span_index *x, const char *tenant, const char *version,
                                             const struct made_span *v, size_t n)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    put_request(&b, "shop", version, v, n);
    return append(x, tenant, buf_str(&b), false);
}

#endif
