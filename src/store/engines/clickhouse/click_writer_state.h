/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state that click_writer.c (the thread that makes parcels) and click_insert.c (the thread that sends them) share.
 *
 * ack: quorum   request -> queue -> block -> parcel -> lane of at most LANE_MAX -> ClickHouse -> acknowledged
 * ack: spool    request -> queue -> block -> parcel -> qlog, synced -> acknowledged; qlog -> ClickHouse -> released
 */
#ifndef CLICKHOUSE_CLICK_WRITER_STATE_H
#define CLICKHOUSE_CLICK_WRITER_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/qlog.h"
#include "model/sink.h"
#include "store/engines/clickhouse/click.h"
#include "store/engines/clickhouse/click_block.h"

enum {
    LANE_MAX = 2, /* parcels that wait to be sent while the next one is made */
    RETRY_MIN_MS = 100,
    RETRY_MAX_MS = 5000,
    CLOSE_MS = 5000, /* how long closing tries to store the last parcels */
};

struct click_job {
    struct click_job *next;
    struct batch *batch;
    struct ack *ack;
    size_t size;
    int64_t received_ns;
    bool cumulative;
    struct ack_result result;
    char tenant[]; /* with a NUL */
};

struct click_parcel {
    struct click_parcel *next;
    struct buf data;
    struct click_job *group; /* NULL with a spool */
    uint64_t profiles, samples, duplicates;
};

struct click_writer {
    struct click *c;
    pthread_t thread, insert_thread;
    bool has_thread, has_insert_thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;            /* the queue has something, or stop */
    pthread_cond_t moved;           /* the lane or the spool changed, or stop */
    struct click_job *first, **end; /* the queue */
    size_t bytes, max_bytes;
    uint64_t samples; /* in the queue */
    struct click_parcel *lane, **lane_end;
    uint32_t n_lane;
    bool stop, made_all, away; /* made_all: the first thread has ended */
    int64_t stop_since;
    char problem[240]; /* with away */
    struct store_stats stats;
    struct qlog *spool; /* NULL: ack: quorum */
    /* of the first thread */
    struct click_block block;
    int64_t last_ns, next_retention;
    bool has_keys; /* of what was stored before */
    /* of both */
    atomic_bool ready;  /* the tables exist */
    atomic_bool forget; /* a parcel was refused for good: the dictionaries do not have what it had */
};

/* click_writer.c */
/* Completes the acks of a group with its results or, with a message, as failed; they are NULL afterwards. */
void click_complete(struct click_job *group, enum sink_status status, const char *message);
void click_free_group(struct click_job *group);
/* Records that ClickHouse does not accept data (or, with NULL, that it does), and reports the first time. */
void click_set_away(struct click_writer *w, const char *problem);
/* Refuses all that waits in the queue: it would wait for as long as the cluster is away. */
void click_refuse_queue(struct click_writer *w, const char *problem);
void click_pause_ms(int64_t ms);

/* click_insert.c */
void *click_insert_run(void *writer);
/* Hands a parcel over; waits while the lane is full. */
void click_insert_push(struct click_writer *w, struct click_parcel *p);
void click_parcel_free(struct click_parcel *p);
/* Opens the spool of the configuration, and reads the keys of what waits in it. */
int click_spool_open(struct click_writer *w, struct err *e);
/* Puts a parcel into the spool, synced, however long it takes. Returns false when it was given up. */
bool click_spool_put(struct click_writer *w, struct click_parcel *p);
bool click_spool_is_full(const struct click_writer *w);

#endif
