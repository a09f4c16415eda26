/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of a sender, in memory (memory_queue.c) or on disk (log_queue.c). What its acknowledgement guarantees:
 *
 *   memory   the parcel is queued; or sent, with wait_for_result or without a queue
 *   log      the parcel is written; it is read again, also after a restart, until its sending has ended
 */
#ifndef PIPELINE_DELIVERY_QUEUE_H
#define PIPELINE_DELIVERY_QUEUE_H

#include "pipeline/delivery/parcel.h"

struct qlog;
struct delivery_queue;

struct delivery_queue_ops {
    int (*start)(struct delivery_queue *q, struct err *e);
    /* From any thread: takes the parcel and acknowledges it. -ENOSPC full, -EAGAIN busy, -ESHUTDOWN: the caller keeps
     * the parcel. */
    int (*put)(struct delivery_queue *q, struct parcel *p);
    /* Loop thread: returns 1 and the next parcel, 0 if there is none, or a negative errno: try again later. */
    int (*take)(struct delivery_queue *q, struct parcel **ret, struct err *e);
    /* Returns when everything that was put is in the queue; put fails from here on. */
    void (*close)(struct delivery_queue *q);
    /* Loop thread: the sender drains. A log returns no more parcels, and keeps those that fail with a retryable
     * error. */
    void (*drain)(struct delivery_queue *q);
    int64_t (*size)(struct delivery_queue *q); /* any thread; in units of the sizer, a log in records */
    void (*free)(struct delivery_queue *q);    /* fails what a memory queue still holds */
};

struct delivery_queue {
    const struct delivery_queue_ops *ops;
    bool persistent; /* what was not sent when it is freed is sent after the next start */
    /* From any thread, after a put: there is something to take. */
    void (*wake)(void *arg);
    void *arg;
};

int memory_queue_new(const struct queue_config *c, struct delivery_queue **ret);

struct log_queue_args {
    const struct queue_config *config;
    struct qlog *log; /* owned by the queue, on success */
    const struct sender_ops *ops;
    void *ops_arg;
    bool json; /* the encoding of ops.encode */
    const char *id;
    struct metric *enqueue_failed;
};

int log_queue_new(const struct log_queue_args *a, struct delivery_queue **ret);

#endif
