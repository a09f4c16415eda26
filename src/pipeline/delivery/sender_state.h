/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the sender, shared by its two files: sender.c takes in, queues and batches, sender_jobs.c sends. Both are on
 * the loop's thread here.
 */
#ifndef PIPELINE_SENDER_STATE_H
#define PIPELINE_SENDER_STATE_H

#include <semaphore.h>
#include <stdatomic.h>

#include "base/log.h"
#include "net/loop.h"
#include "pipeline/delivery/sender.h"
#include "pipeline/delivery/worker.h"

struct entry;
struct job;
struct qlog;

struct sender {
    struct sender_args a;
    struct queue_config queue;
    struct sink sink;
    struct blob_sink blobs;
    const char *id;
    enum signal signal;
    struct loop_group *group;
    struct loop *loop;
    bool opened;
    atomic_bool stopping;
    /* memory queue */
    struct entry *first, **last;
    _Atomic int64_t queued;
    /* log */
    struct qlog *log;
    struct worker writer;
    bool has_writer;
    struct work *unwritten; /* of the writer's thread: put, not committed */
    atomic_bool woken;
    struct loop_call wake;
    struct buf record;
    /* batching */
    struct batcher *batcher;
    struct loop_timer flush_timer;
    struct job *collecting; /* acks and log range of what is in the batcher */
    uint64_t flush_seq;     /* of what is being flushed */
    uint64_t keep_seq;      /* given up while draining: stays in the log from here on; 0 none */
    /* jobs */
    struct job *jobs; /* under way */
    unsigned n_jobs, max_jobs;
    bool draining, pumping, again;
    struct loop_call stop_call;
    sem_t stopped;
    bool told_stopped;
    struct log_limit log_failed, log_full;
    struct metric *sent, *failed, *enqueue_failed, *in_flight, *lost;
};

/* Encodes the job, which is the sender's from here on, and sends it piece by piece. Its end is told to its acks and to
 * the log. */
void sender_run_job(struct sender *s, struct job *j);
/* Jobs that wait for a retry get it now, which is their last when the sender drains. */
void sender_retry_now(struct sender *s);
/* Ends a job, sent or not: its acks are told r. With keep_in_log it is sent again after the next start. Frees it. */
void sender_end_job(struct sender *s, struct job *j, const struct ack_result *r, bool keep_in_log);
/* Starts jobs while there is something to send and room for one. */
void sender_pump(struct sender *s);

#endif
