/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending queue in memory: a list under a mutex that is held for a few instructions. Without `wait_for_result` a
 * parcel is acknowledged when it is queued; its ack is removed from it before another thread can see it.
 */
#include <errno.h>
#include <pthread.h>

#include "base/mem.h"
#include "pipeline/delivery/delivery_queue.h"

struct memory_queue {
    struct delivery_queue base;
    pthread_mutex_t lock;
    struct queue_item *first, **last;
    int64_t queued, capacity; /* in units of the sizer */
    bool ack_when_queued, block, closed;
};

static struct memory_queue *self(struct delivery_queue *q)
{
    return container_of(q, struct memory_queue, base);
}

static int start(struct delivery_queue *base, struct err *e)
{
    (void) base;
    (void) e;
    return 0;
}

static int put(struct delivery_queue *base, struct parcel *p)
{
    struct memory_queue *q = self(base);
    struct ack *now = NULL;
    bool full;
    int r = 0;

    pthread_mutex_lock(&q->lock);
    full = p->size > q->capacity - q->queued;
    if (q->closed) {
        r = -ESHUTDOWN;
    } else if (full && !q->block) {
        r = -ENOSPC;
    } else {
        p->ack_on_take = full && q->ack_when_queued;
        if (q->ack_when_queued && !full)
            now = TAKE(p->work.ack);
        p->work.item.next = NULL;
        *q->last = &p->work.item;
        q->last = &p->work.item.next;
        q->queued += p->size;
    }
    pthread_mutex_unlock(&q->lock);
    if (r < 0)
        return r;
    ack_ok(now);
    base->wake(base->arg);
    return 0;
}

static int take(struct delivery_queue *base, struct parcel **ret, struct err *e)
{
    struct memory_queue *q = self(base);
    struct parcel *p;

    (void) e;
    pthread_mutex_lock(&q->lock);
    p = q->first ? parcel_of(container_of(q->first, struct work, item)) : NULL;
    if (p) {
        q->first = p->work.item.next;
        if (!q->first)
            q->last = &q->first;
        q->queued -= p->size;
    }
    pthread_mutex_unlock(&q->lock);
    if (!p)
        return 0;
    if (p->ack_on_take)
        ack_ok(TAKE(p->work.ack));
    *ret = p;
    return 1;
}

static void close_queue(struct delivery_queue *base)
{
    struct memory_queue *q = self(base);

    pthread_mutex_lock(&q->lock);
    q->closed = true;
    pthread_mutex_unlock(&q->lock);
}

static void drain(struct delivery_queue *base)
{
    (void) base;
}

static int64_t size(struct delivery_queue *base)
{
    struct memory_queue *q = self(base);
    int64_t n;

    pthread_mutex_lock(&q->lock);
    n = q->queued;
    pthread_mutex_unlock(&q->lock);
    return n;
}

static void free_queue(struct delivery_queue *base)
{
    struct memory_queue *q = self(base);
    struct parcel *p;

    while (take(base, &p, NULL) == 1) {
        ack_fail(p->work.ack, SINK_UNAVAILABLE, 0, "shutting down");
        parcel_free(p);
    }
    pthread_mutex_destroy(&q->lock);
    mem_free(q);
}

static const struct delivery_queue_ops ops = {start, put, take, close_queue, drain, size, free_queue};

int memory_queue_new(const struct queue_config *c, struct delivery_queue **ret)
{
    struct memory_queue *q = mem_zalloc(sizeof *q);

    if (!q)
        return -ENOMEM;
    q->base.ops = &ops;
    pthread_mutex_init(&q->lock, NULL);
    q->last = &q->first;
    q->capacity = c->enabled ? c->queue_size : INT64_MAX;
    q->ack_when_queued = c->enabled && !c->wait_for_result;
    q->block = c->block_on_overflow;
    *ret = &q->base;
    return 0;
}
