/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread with a queue of batches, for components that compute or wait for a disk: batch, symbolize, file, the writer
 * of a sending queue. Submitting never blocks. The acknowledgement provides back pressure: the thread completes it when
 * it has accepted the batch, so a sender with a bounded number of requests in flight cannot run ahead of it; above the
 * limit a sender is asked to try again later.
 */
#ifndef PIPELINE_WORKER_H
#define PIPELINE_WORKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/err.h"
#include "base/queue.h"
#include "model/sink.h"

struct batch;
struct blob;

/* A copy of a sink_context that outlives the call. */
struct kept_context {
    struct sink_context ctx;
    char tenant[64], peer[128];
};

void context_keep(struct kept_context *k, const struct sink_context *ctx);

struct work {
    struct queue_item item;
    struct batch *batch; /* a reference; or blob */
    struct blob *blob;
    struct ack *ack;
    struct kept_context kept;
    size_t bytes;
};

struct worker {
    struct queue queue;
    pthread_t thread;
    bool running;
    _Atomic size_t bytes; /* of the waiting work */
    size_t limit;
    const char *name;
    /* Called on the thread. handle owns w and completes its ack; more: further work is waiting. idle is called when
     * timeout() ns have passed without work (timeout < 0: never); both may be NULL. */
    void (*handle)(struct worker *wk, struct work *w, bool more);
    int64_t (*timeout)(struct worker *wk);
    void (*idle)(struct worker *wk);
    atomic_bool stopping;
    void (*last)(struct worker *wk);                    /* after the last work, before the thread ends; may be NULL */
    void (*discard)(struct worker *wk, struct work *w); /* frees work that was never handled; NULL: work_free() */
};

/* name must live as long as wk; limit: bytes of batches that may wait. The caller sets the functions before start. */
int worker_init(struct worker *wk, const char *name, size_t limit);
int worker_start(struct worker *wk, struct err *e);
void worker_stop(struct worker *wk); /* handles the queued work, joins the thread */
void worker_done(struct worker *wk);
/* From any thread. If the work is refused, it completes the ack itself. */
void worker_submit(struct worker *wk, struct payload data, const struct sink_context *ctx, struct ack *ack);
/* The same for work that the caller has filled in; the worker owns it on success. -EAGAIN over the limit,
 * -ESHUTDOWN. */
int worker_push(struct worker *wk, struct work *w);
/* Passes a batch on and waits for the acknowledgement. For threads that may block, never for an event loop. */
void sink_consume_wait(struct sink *s, struct batch *b, const struct sink_context *ctx, struct ack_result *ret);
void work_free(struct work *w); /* drops the references; the ack must be completed already */

#endif
