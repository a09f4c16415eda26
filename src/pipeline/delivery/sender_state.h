/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal to the sender, shared by its files: sender.c (start and stop, intake, the pump), sender_batch.c
 * (collecting), sender_send.c (attempts, retries, ends). Everything below runs on the loop's thread, unless stated
 * otherwise.
 */
#ifndef PIPELINE_SENDER_STATE_H
#define PIPELINE_SENDER_STATE_H

#include <pthread.h>

#include "base/log.h"
#include "net/loop.h"
#include "pipeline/delivery/delivery_queue.h"

/* The main thread requests a step by entering a state that ends in -ING, and the loop's thread leaves it. */
enum sender_state {
    SENDER_NEW,
    SENDER_OPENING,
    SENDER_FAILED, /* could not be opened */
    SENDER_RUNNING,
    SENDER_DRAINING, /* sends what it has, without pauses */
    SENDER_DRAINED,
    SENDER_CLOSING,
    SENDER_CLOSED,
};

struct sender {
    struct sender_args a;
    struct parcel_encoding encoding;
    struct sink sink;
    const char *id;
    enum signal signal;
    int sizer;
    int64_t max_elapsed_time; /* 0: no limit */
    struct loop_group *group;
    struct loop *loop;
    pthread_mutex_t lock; /* protects state */
    pthread_cond_t changed;
    enum sender_state state;
    struct err open_error;
    atomic_bool stopping, woken;
    struct delivery_queue *queue;
    struct loop_call wake, step;
    /* used by the loop's thread */
    bool draining, pumping, again;
    struct batcher *batcher;
    struct loop_timer flush_timer, pump_timer;
    struct parcel *active; /* sending or paused */
    unsigned n_active, max_active;
    uint64_t dropped;   /* items since the last message about drops */
    int64_t dropped_at; /* monotonic time of that message, 0: none yet */
    char drop_reason[512];
    struct loop_timer drop_timer;
    struct log_limit log_failed, log_full, log_queue;
    struct metric *sent, *failed, *enqueue_failed, *in_flight, *lost, *queue_metric;
};

/* Encodes the parcel, which the sender owns from here on, and sends it piece by piece until its end. */
void sender_ship(struct sender *s, struct parcel *p);
/* Starts the next attempt of all paused parcels now. */
void sender_retry_now(struct sender *s);
/* Completes the parcel's hold with r and frees it. */
void sender_end(struct sender *s, struct parcel *p, const struct ack_result *r);
/* The same for a parcel that this process will not send: a parcel of a memory queue is counted as failed. */
void sender_give_back(struct sender *s, struct parcel *p, const char *why);

/* Adds a parcel to the batch being collected, or ships it if it cannot be added. */
void sender_collect(struct sender *s, struct parcel *p);
/* Ships the collected parcels. */
void sender_flush(struct sender *s);
void sender_flush_fire(struct loop_timer *t);

/* Reports the drops that were not reported yet. */
void sender_drop_fire(struct loop_timer *t);

/* Takes parcels from the queue while more may be in progress. */
void sender_pump(struct sender *s);

#endif
