/* SPDX-License-Identifier: Apache-2.0 */
/* A thread with a bounded queue of work, and waiting for an acknowledgement. See worker.h. */
#include "pipeline/delivery/worker.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "model/batch.h"
#include "pipeline/delivery/blob.h"

void context_keep(struct kept_context *k, const struct sink_context *ctx)
{
    k->ctx = *ctx;
    snprintf(k->tenant, sizeof k->tenant, "%s", ctx->tenant ? ctx->tenant : "");
    snprintf(k->peer, sizeof k->peer, "%s", ctx->peer ? ctx->peer : "");
    k->ctx.tenant = k->tenant;
    k->ctx.peer = k->peer;
    k->ctx.metadata = NULL;
}

void work_free(struct work *w)
{
    if (!w)
        return;
    batch_unref(w->batch);
    blob_unref(w->blob);
    mem_free(w);
}

int worker_init(struct worker *wk, const char *name, size_t limit)
{
    *wk = (struct worker){.name = name, .limit = limit};
    return queue_init(&wk->queue, 0);
}

static void take(struct worker *wk, struct queue_item *i)
{
    while (i) {
        struct work *w = container_of(i, struct work, item);

        i = i->next;
        atomic_fetch_sub(&wk->bytes, w->bytes);
        wk->handle(wk, w, i != NULL);
    }
}

static void *run(void *arg)
{
    struct worker *wk = arg;

    for (;;) {
        int64_t wait = wk->timeout ? wk->timeout(wk) : -1;
        int ms = wait < 0 ? -1 : (int) MIN((wait + NS_PER_MS - 1) / NS_PER_MS, (int64_t) 60000);
        struct queue_item *i = queue_wait(&wk->queue, ms);
        bool closed;

        if (i) {
            take(wk, i);
            continue;
        }
        pthread_mutex_lock(&wk->queue.lock);
        closed = wk->queue.closed && !wk->queue.head;
        pthread_mutex_unlock(&wk->queue.lock);
        if (closed)
            break;
        if (wk->idle)
            wk->idle(wk);
    }
    if (wk->last)
        wk->last(wk);
    return NULL;
}

int worker_start(struct worker *wk, struct err *e)
{
    int r = thread_start(&wk->thread, wk->name, run, wk, e);

    if (r == 0)
        wk->running = true;
    return r;
}

void worker_stop(struct worker *wk)
{
    if (!wk->running)
        return;
    wk->stopping = true;
    queue_close(&wk->queue);
    pthread_join(wk->thread, NULL);
    wk->running = false;
}

void worker_done(struct worker *wk)
{
    struct queue_item *i;

    worker_stop(wk);
    i = queue_take_all(&wk->queue);
    while (i) {
        struct work *w = container_of(i, struct work, item);

        i = i->next;
        ack_fail(w->ack, SINK_UNAVAILABLE, 0, "shutting down");
        if (wk->discard)
            wk->discard(wk, w);
        else
            work_free(w);
    }
    queue_done(&wk->queue);
}

int worker_push(struct worker *wk, struct work *w)
{
    size_t before;
    int r;

    w->bytes = w->batch ? batch_memory(w->batch) : w->blob ? w->blob->n : 0;
    before = atomic_fetch_add(&wk->bytes, w->bytes);
    r = before && before + w->bytes > wk->limit ? -EAGAIN : queue_push(&wk->queue, &w->item);
    if (r < 0)
        atomic_fetch_sub(&wk->bytes, w->bytes);
    return r;
}

void worker_submit(struct worker *wk, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    struct work *w = mem_zalloc(sizeof *w);
    int r;

    if (!w) {
        ack_fail(ack, SINK_UNAVAILABLE, NS_PER_S, "out of memory");
        return;
    }
    w->batch = data.batch ? batch_ref(data.batch) : NULL;
    w->blob = data.blob ? blob_ref(data.blob) : NULL;
    w->ack = ack;
    context_keep(&w->kept, ctx);
    r = worker_push(wk, w);
    if (r == -EAGAIN)
        ack_fail(ack, SINK_UNAVAILABLE, NS_PER_S, "%s is busy: %zu MiB are already waiting", wk->name,
                 (size_t) wk->bytes >> 20);
    else if (r < 0)
        ack_fail(ack, SINK_UNAVAILABLE, 0, "shutting down");
    if (r < 0)
        work_free(w);
}

struct waiting_ack {
    struct ack ack;
    sem_t done;
    struct ack_result result;
};

static void waiting_done(struct ack *a, const struct ack_result *r)
{
    struct waiting_ack *w = container_of(a, struct waiting_ack, ack);

    w->result = *r;
    sem_post(&w->done);
}

void sink_consume_wait(struct sink *s, struct batch *b, const struct sink_context *ctx, struct ack_result *ret)
{
    struct waiting_ack w = {.ack = {waiting_done}};

    sem_init(&w.done, 0, 0);
    sink_consume(s, b, ctx, &w.ack);
    while (sem_wait(&w.done) < 0)
        ;
    sem_destroy(&w.done);
    *ret = w.result;
}
