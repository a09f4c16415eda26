/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending queue on disk. A writer thread encodes parcels, appends a group of them to the log with one write, and
 * then acknowledges all of them. The sender's loop reads records in order; each becomes a parcel whose acknowledgement
 * belongs to the record. A record stays on the list of open records until it is completed, and the log is released up
 * to the oldest open one. While the sender drains, a record whose parcel, or any part of it, failed with a retryable
 * error stays open: it is read again after the next start.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/qlog.h"
#include "model/batch.h"
#include "pipeline/delivery/delivery_queue.h"

enum { WRITER_LIMIT = 64 << 20, WRITE_AT = 4 << 20 };

struct queue_record {
    struct ack ack;
    struct log_queue *q;
    struct queue_record *next, **prev; /* list of open records, in the order of seq */
    uint64_t seq;
    uint32_t items;
};

struct log_queue {
    struct delivery_queue base;
    struct log_queue_args a;
    struct qlog *log;
    struct worker writer;
    struct work *unwritten; /* the writer's: put, but not committed */
    /* used by the loop's thread */
    struct queue_record *open, **last;
    uint64_t first_seq; /* of this run; older records are not counted in items */
    bool draining;
    _Atomic int64_t items; /* written but not completed, for the sizer "items" */
    struct log_limit limit;
};

static struct log_queue *self(struct delivery_queue *q)
{
    return container_of(q, struct log_queue, base);
}

/* --- the writer's thread --- */

static void refuse(struct log_queue *q, struct parcel *p, int r, const struct err *e)
{
    uint64_t held;

    metric_add(q->a.enqueue_failed, p->items);
    if (log_limited(&q->limit, 10 * NS_PER_S, &held))
        log_error("%s: cannot queue: %s", q->a.id, err_message(e, r));
    if (r == -ENOSPC || r == -EDQUOT)
        ack_fail(p->work.ack, SINK_UNAVAILABLE, 5 * NS_PER_S, "the storage of the sending queue is full");
    else if (r == -EINVAL || r == -E2BIG)
        ack_fail(p->work.ack, SINK_INVALID, 0, "cannot queue: %.180s", err_message(e, r));
    else
        ack_fail(p->work.ack, SINK_UNAVAILABLE, 0, "cannot queue: %.180s", err_message(e, r));
    parcel_free(p);
}

/* Writes everything that was put so far, then acknowledges it. */
static void commit(struct log_queue *q)
{
    struct err e = {0};
    int r = qlog_commit(q->log, &e);

    while (q->unwritten) {
        struct work *w = q->unwritten;
        struct parcel *p = parcel_of(w);

        q->unwritten = batcher_next(w);
        if (r < 0) {
            refuse(q, p, r, &e);
            continue;
        }
        atomic_fetch_add(&q->items, p->items);
        ack_ok(w->ack);
        parcel_free(p);
    }
    q->base.wake(q->base.arg);
}

static void handle(struct worker *wk, struct work *w, bool more)
{
    struct log_queue *q = container_of(wk, struct log_queue, writer);
    struct parcel *p = parcel_of(w);
    struct err e = {0};
    int r = 0;

    if (w->batch)
        r = q->a.ops->encode(q->a.ops_arg, w->batch, &p->body, &e);
    if (r == 0)
        r = w->batch ? qlog_put(q->log, q->a.json, p->items, p->body.p, p->body.n)
                     : qlog_put(q->log, w->blob->json, p->items, w->blob->p, w->blob->n);
    buf_done(&p->body);
    if (r < 0) {
        refuse(q, p, r, &e);
    } else {
        w->item.next = q->unwritten ? &q->unwritten->item : NULL;
        q->unwritten = w;
    }
    if (!more || qlog_uncommitted(q->log) >= WRITE_AT)
        commit(q);
}

static void discard(struct worker *wk, struct work *w)
{
    (void) wk;
    parcel_free(parcel_of(w));
}

/* --- any thread --- */

static int start(struct delivery_queue *base, struct err *e)
{
    return worker_start(&self(base)->writer, e);
}

static int put(struct delivery_queue *base, struct parcel *p)
{
    struct log_queue *q = self(base);
    int64_t max = q->a.config->queue_size, size = q->a.config->sizer == 1   ? (int64_t) q->items
                                                  : q->a.config->sizer == 2 ? (int64_t) qlog_bytes(q->log)
                                                                            : (int64_t) qlog_waiting(q->log);

    if (size > max - p->size)
        return -ENOSPC;
    return worker_push(&q->writer, &p->work);
}

static void close_queue(struct delivery_queue *base)
{
    worker_stop(&self(base)->writer);
}

static int64_t size(struct delivery_queue *base)
{
    return (int64_t) qlog_waiting(self(base)->log);
}

/* --- the loop's thread --- */

static void unlink_record(struct queue_record *x)
{
    *x->prev = x->next;
    if (x->next)
        x->next->prev = x->prev;
    else
        x->q->last = x->prev;
}

static void record_done(struct ack *a, const struct ack_result *r)
{
    struct queue_record *x = container_of(a, struct queue_record, ack);
    struct log_queue *q = x->q;
    bool oldest = x == q->open;

    if (q->draining && (r->again || sink_status_retryable(r)))
        return; /* stays open: it is sent after the next start */
    unlink_record(x);
    if (x->seq >= q->first_seq)
        atomic_fetch_sub(&q->items, x->items);
    mem_free(x);
    if (oldest)
        qlog_release(q->log, q->open ? q->open->seq : qlog_read_seq(q->log));
}

static int take(struct delivery_queue *base, struct parcel **ret, struct err *e)
{
    struct log_queue *q = self(base);
    _cleanup_(parcel_freep) struct parcel *p = NULL;
    _cleanup_(mem_freep) struct queue_record *x = NULL;
    struct qlog_entry found;
    int r;

    if (q->draining)
        return 0;
    x = mem_zalloc(sizeof *x);
    r = x ? parcel_new(&p) : -ENOMEM;
    if (r == 0)
        r = qlog_read(q->log, &found, &p->body, e);
    if (r <= 0)
        return r;
    *x = (struct queue_record){.ack = {record_done}, .q = q, .prev = q->last, .seq = found.seq, .items = found.items};
    *q->last = x;
    q->last = &x->next;
    p->json = found.json;
    p->items = found.items;
    p->work.ack = &TAKE(x)->ack;
    p->work.kept.ctx.tenant = p->work.kept.tenant;
    *ret = TAKE(p);
    return 1;
}

static void drain(struct delivery_queue *base)
{
    self(base)->draining = true;
}

static void free_queue(struct delivery_queue *base)
{
    struct log_queue *q = self(base);

    worker_done(&q->writer);
    while (q->open) {
        struct queue_record *x = q->open;

        unlink_record(x);
        mem_free(x);
    }
    qlog_close(q->log);
    mem_free(q);
}

static const struct delivery_queue_ops ops = {start, put, take, close_queue, drain, size, free_queue};

int log_queue_new(const struct log_queue_args *a, struct delivery_queue **ret)
{
    struct log_queue *q = mem_zalloc(sizeof *q);
    int r;

    if (!q)
        return -ENOMEM;
    r = worker_init(&q->writer, "queue-writer", WRITER_LIMIT);
    if (r < 0) {
        mem_free(q);
        return r;
    }
    q->base.ops = &ops;
    q->base.persistent = true;
    q->a = *a;
    q->log = a->log;
    q->last = &q->open;
    q->first_seq = qlog_committed(q->log);
    q->writer.handle = handle;
    q->writer.discard = discard;
    *ret = &q->base;
    return 0;
}
