/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every network exporter shares: a sending queue in memory or on disk, batching after it, splitting to a peer's
 * limit, retries with growing pauses, and a drain at the end. The exporter provides two functions: how to encode and
 * how to send one request. There is one sender per exporter and signal, on an event loop thread of its own.
 *
 *   intake ──> queue: memory ──────────────┐
 *                     log on disk ──ack────┴──> [batch] ──> up to num_consumers parcels ──> send, retry
 *
 * An acknowledgement is completed when the memory queue has taken the batch (or when it is sent, with wait_for_result),
 * when the log is written, or, without a queue, when the batch is sent. See docs/internals/sending-queue.md.
 */
#ifndef PIPELINE_SENDER_H
#define PIPELINE_SENDER_H

#include "conf/option.h"
#include "pipeline/delivery/batcher.h"
#include "pipeline/graph/component.h"

struct loop;
struct loop_timer;

struct retry_config {
    bool enabled, has_max_elapsed_time;
    int64_t initial_interval, max_interval, max_elapsed_time; /* ns; max_elapsed_time 0: no limit */
    double multiplier, randomization_factor;
};

struct queue_batch_config {
    int64_t flush_timeout, min_size, max_size;
    int sizer;
};

struct queue_config {
    bool enabled, block_on_overflow, wait_for_result, has_batch;
    int64_t num_consumers, queue_size;
    int sizer;
    const char *storage;
    struct queue_batch_config batch;
};

/* For the exporters' tables: {"retry_on_failure", OPT_TABLE, ..., .table = retry_options} */
extern const struct option retry_options[], queue_options[];
int sender_check(const struct retry_config *r, const struct queue_config *q, const struct conf_node *node,
                 struct err *e);

struct sender;

/* One attempt, from ops.send until sender_sent(). */
struct send_request {
    struct str body; /* encoded, not compressed; valid until sender_sent() */
    bool json;
    uint32_t items;
    int64_t timeout; /* ns */
    void *user;      /* owned by the exporter */
};

struct sender_ops {
    /* Any thread: encodes profiles as the body of a request. */
    int (*encode)(void *arg, const struct batch *b, struct buf *out, struct err *e);
    /* Loop thread: starts sending. Must result in exactly one sender_sent() on the loop thread, at once or later. */
    void (*send)(void *arg, struct send_request *rq);
    /* Loop thread, before the first and after the last send; either may be NULL. */
    int (*open)(void *arg, struct loop *l, struct err *e);
    void (*close)(void *arg);
};

struct sender_args {
    const struct component_args *component;
    const struct retry_config *retry;
    const struct queue_config *queue;
    int64_t timeout;
    size_t max_body; /* split requests above this; 0: never */
    bool json;       /* the encoding of encode */
    const struct sender_ops *ops;
    void *arg;
};

int sender_new(const struct sender_args *a, struct sender **ret, struct err *e);
int sender_start(struct sender *s, struct err *e);
/* Accepts nothing new, sends what it can (a memory queue completely, without waiting for retries), and gives up after a
 * while. */
void sender_stop(struct sender *s);
void sender_free(struct sender *s);
struct sink *sender_sink(struct sender *s);
void sender_sent(struct send_request *rq, const struct ack_result *result);

#endif
