/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one way to hand data on: receivers, processors, exporters and stores are all sinks.
 *
 *     sink_consume(sink, batch, ctx, ack)
 *
 * What is handed on is a payload: a batch of profiles, or an undecoded request of another signal, which only the
 * components of the Collector pipeline receive. What follows about batches applies to both.
 *
 * The sink takes a reference if it keeps the batch, never blocks, and completes `ack` exactly once, immediately or
 * later, from any thread. The sink defines what a completion promises: a store has the batch on disk, an in-memory
 * queue has accepted it. A batch is immutable once it has been handed on; a processor that changes something makes a
 * new one.
 *
 * An acknowledgement is a counted join. A new ack has one hold. A sink that hands its work to several parties (branches
 * of a pipeline, parts of a split batch, records of a log) takes one more hold for each with ack_hold() before it hands
 * out the first, and each party completes its own hold. The creator of the ack gets the result once, when the last hold
 * is completed; the worst result wins (see ack_complete()). So no party can acknowledge on behalf of another.
 *
 * `done` runs on the thread that completes last. It must only hand over (a queue push, an eventfd) and never wait: an
 * event loop never waits for a disk.
 *
 * Statuses are those of gRPC, so that they survive a hop; retryable ones carry a delay. A partial success (OTLP) is OK
 * with rejected > 0 and a message.
 */
#ifndef MODEL_SINK_H
#define MODEL_SINK_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/macros.h"

struct batch;
struct blob;
struct kvs;

enum sink_status {
    SINK_OK = 0,
    SINK_INVALID = 3, /* must not be sent again */
    SINK_DEADLINE = 4,
    SINK_DENIED = 7,
    SINK_EXHAUSTED = 8,    /* over a limit or full: retry after retry_ns when > 0, else do not retry */
    SINK_INTERNAL = 13,    /* permanent */
    SINK_UNAVAILABLE = 14, /* retry later */
    SINK_UNAUTHENTICATED = 16,
};

struct ack_result {
    enum sink_status status;
    int64_t retry_ns;  /* > 0: do not retry before this delay */
    uint64_t rejected; /* profiles that were permanently refused while the rest was accepted */
    bool again;        /* for a join: at least one party failed with a retryable error */
    char message[256];
};

enum ack_rank { ACK_NOTED, ACK_RETRYABLE, ACK_PERMANENT, ACK_RANKS }; /* of results other than a plain OK */

/* Initialise it as {done}; the other fields are zero and belong to ack_hold() and ack_complete(). */
struct ack {
    void (*done)(struct ack *a, const struct ack_result *r); /* owns `a` from here; must not block */
    _Atomic uint32_t holds;                                  /* in addition to the first one */
    _Atomic uint32_t noted;                                  /* bit 1 << rank: results[rank] is in use */
    _Atomic uint64_t rejected;
    bool joined;
    struct ack_result results[ACK_RANKS]; /* the first result of each rank */
};

void ack_complete_joined(struct ack *a, const struct ack_result *r);

/* Adds n holds. Only the owner of a hold that is not completed yet may call it. NULL is allowed. */
void ack_hold(struct ack *a, uint32_t n);

/*
 * Completes one hold. The last one calls done() with the worst result: a permanent failure wins over a retryable one (a
 * sender that tried again would double what the other parties accepted), which wins over success; rejected counts add
 * up. NULL is allowed: no one needs the result.
 */
static inline void ack_complete(struct ack *a, const struct ack_result *r)
{
    if (!a)
        return;
    if (a->joined)
        ack_complete_joined(a, r);
    else
        a->done(a, r);
}

static inline void ack_ok(struct ack *a)
{
    ack_complete(a, &(struct ack_result){.status = SINK_OK});
}

/* Combines two results by the rules of ack_complete(). */
void ack_result_join(struct ack_result *worst, const struct ack_result *r);

void ack_fail(struct ack *a, enum sink_status status, int64_t retry_ns, const char *fmt, ...) _printf_(4, 5);

static inline bool sink_status_retryable(const struct ack_result *r)
{
    return r->status == SINK_UNAVAILABLE || r->status == SINK_DEADLINE ||
           (r->status == SINK_EXHAUSTED && r->retry_ns > 0);
}

/* The sender, as far as the receiver knows. Valid only during consume; copy what is needed later. */
struct sink_context {
    const char *tenant;  /* never NULL; "" is the default tenant */
    const char *peer;    /* address, for messages; may be NULL */
    int64_t received_ns; /* wall clock */
    bool cumulative;     /* a scrape of endpoints that count up: see types.h */
    const struct kvs
        *metadata; /* headers of the request, names in lower case, if the receiver passes them on; may be NULL */
};

/* One of the two is set. A sink that is only in pipelines of profiles receives only batches. */
struct payload {
    struct batch *batch;
    struct blob *blob; /* pipeline/delivery/blob.h */
};

struct sink {
    void (*consume)(struct sink *s, struct payload data, const struct sink_context *ctx, struct ack *ack);
};

static inline void sink_pass(struct sink *s, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    s->consume(s, data, ctx, ack);
}

static inline void sink_consume(struct sink *s, struct batch *b, const struct sink_context *ctx, struct ack *ack)
{
    sink_pass(s, (struct payload){.batch = b}, ctx, ack);
}

#endif
