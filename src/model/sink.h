/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one way to hand a batch on: receiver -> processor -> exporter or store, all are sinks.
 *
 *     sink_consume(sink, batch, ack)
 *
 * takes a reference of its own if it keeps the batch, never blocks, and sees to it that `ack` is completed exactly once,
 * sooner or later, from any thread. What completion promises is the sink's: a store has the batch on disk, an in-memory
 * queue has accepted it. A batch is immutable from here on; a processor that changes something makes a new one.
 *
 * ack_complete() is called with a status. Whoever made the ack decides how it comes home: `done` runs on the completing
 * thread and must only hand over (a queue push, an eventfd), never wait. An event loop never waits for a disk.
 *
 * Status is gRPC-shaped, so that it survives a hop: retryable ones carry a delay. Partial success (OTLP) is OK with
 * rejected > 0 and a message.
 */
#ifndef MODEL_SINK_H
#define MODEL_SINK_H

#include <assert.h>
#include <stdbool.h>

#include "base/macros.h"

struct batch;
struct kvs;

enum sink_status {
    SINK_OK = 0,
    SINK_INVALID = 3, /* never send it again */
    SINK_DEADLINE = 4,
    SINK_DENIED = 7,
    SINK_EXHAUSTED = 8,    /* over a limit or full: again after retry_ns when > 0, else not */
    SINK_INTERNAL = 13,    /* permanent */
    SINK_UNAVAILABLE = 14, /* again, later */
    SINK_UNAUTHENTICATED = 16,
};

struct ack_result {
    enum sink_status status;
    int64_t retry_ns;  /* > 0: not before this long */
    uint64_t rejected; /* profiles that were refused for good while the rest was taken */
    char message[256];
};

struct ack {
    void (*done)(struct ack *a, const struct ack_result *r); /* owns `a` from here; must not block */
};

static inline void ack_complete(struct ack *a, const struct ack_result *r)
{
    if (a)
        a->done(a, r);
}

static inline void ack_ok(struct ack *a)
{
    ack_complete(a, &(struct ack_result){.status = SINK_OK});
}

void ack_fail(struct ack *a, enum sink_status status, int64_t retry_ns, const char *fmt, ...) _printf_(4, 5);

static inline bool sink_status_retryable(const struct ack_result *r)
{
    return r->status == SINK_UNAVAILABLE || r->status == SINK_DEADLINE ||
           (r->status == SINK_EXHAUSTED && r->retry_ns > 0);
}

/* Who sends, as far as the front door knows. Valid only during consume; copy what is needed later. */
struct sink_context {
    const char *tenant;         /* never NULL; "" is the default tenant */
    const char *peer;           /* address, for messages; may be NULL */
    int64_t received_ns;        /* wall clock */
    bool cumulative;            /* a scrape of undelta'd endpoints: see types.h */
    const struct kvs *metadata; /* headers of the request, names in lower case, where the receiver tells; may be NULL */
};

struct sink {
    void (*consume)(struct sink *s, struct batch *b, const struct sink_context *ctx, struct ack *ack);
};

static inline void sink_consume(struct sink *s, struct batch *b, const struct sink_context *ctx, struct ack *ack)
{
    s->consume(s, b, ctx, ack);
}

#endif
