/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state that click_writer.c (the thread that makes parcels), click_insert.c (the threads that send them) and click_spool.c (the log
 * between them) share.
 *
 * ack: quorum   request -> queue -> block -> parcel -> lane of at most LANE_MAX -> ClickHouse -> acknowledged
 * ack: spool    request -> queue -> block -> parcel -> qlog, synced -> acknowledged; qlog -> lane -> ClickHouse -> released
 *
 * The parcels of the lane are sent by several threads. One inserts the rows of the dictionary tables, parcel by parcel in the order in which
 * they were made: a later parcel does not repeat the rows of an earlier one. Only then do the others insert its samples, links and profiles, so
 * that a query which finds a sample finds its stack, too; these inserts of several parcels run at the same time.
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
    LANE_MAX = 4, /* parcels that are being sent, or wait for it, while the next one is made */
    SENDERS_MAX = 2,
    RETRY_MIN_MS = 100,
    RETRY_MAX_MS = 5000,
    SPOOL_AGES = 128,
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

enum click_stage {
    PARCEL_MADE,
    PARCEL_DEFINING, /* the rows of the dictionary tables are being inserted */
    PARCEL_DEFINED,
    PARCEL_SENDING, /* the other rows are being inserted */
};

struct click_parcel {
    struct click_parcel *next;
    struct buf data;
    struct click_job *group; /* NULL with a spool; the thread that takes it from here, with the lock, completes it */
    enum click_stage stage;
    uint64_t seq; /* in the spool */
    uint64_t profiles, samples, duplicates;
};

/* From when the records of the spool from seq on are, down to the next entry. */
struct click_spool_age {
    uint64_t seq;
    int64_t time_ns;
};

struct click_writer {
    struct click *c;
    pthread_t thread, define_thread, send_threads[SENDERS_MAX];
    bool has_thread, has_define_thread;
    uint32_t n_senders;
    pthread_mutex_t lock;
    pthread_cond_t wake;            /* the queue has something, or stop */
    pthread_cond_t moved;           /* the lane or the spool changed, or stop */
    struct click_job *first, **end; /* the queue */
    size_t bytes, max_bytes;
    uint64_t samples; /* in the queue */
    struct click_parcel *lane;
    uint32_t n_lane;
    bool stop, made_all,
        defined_all;    /* made_all: no parcel will be added to the lane; defined_all: none will become defined */
    uint32_t n_failing; /* threads that repeat an insert */
    char problem[240];  /* with n_failing */
    struct store_stats stats;
    bool absent;         /* ClickHouse was away when the store was opened, and still is; of the thread that looks for it */
    struct qlog *spool;  /* NULL: ack: quorum */
    struct click_spool_age ages[SPOOL_AGES]; /* ascending, of the spool */
    uint32_t n_ages;
    uint64_t spool_next; /* the record of the spool that is read next */
    uint64_t spool_keep; /* the first record that was given up until the next start: nothing from it on is released */
    /* of the first thread */
    struct click_block block;
    int64_t last_ns, next_retention;
    bool has_keys; /* of what was stored before */
    /* of both */
    atomic_bool ready;  /* the tables exist */
    atomic_bool forget; /* a parcel was refused for good: the dictionaries do not have what it had */
};

/* click_writer.c */
/* Creates the tables if ClickHouse was away when the store was opened. False: it still is. */
bool click_make_ready(struct click_writer *w);
/* Completes the acks of a group with its results or, with a message, as failed; they are NULL afterwards. */
void click_complete(struct click_job *group, enum sink_status status, const char *message);
void click_free_group(struct click_job *group);
/* Refuses all that waits in the queue: it would wait for as long as the cluster is away. */
void click_refuse_queue(struct click_writer *w, const char *problem);
void click_pause_ms(int64_t ms);

/* click_insert.c */
int click_insert_start(struct click_writer *w, struct err *e);
void click_insert_join(struct click_writer *w);
/* Hands a parcel over; waits while the lane is full. */
void click_insert_push(struct click_writer *w, struct click_parcel *p);
void click_parcel_free(struct click_parcel *p);
/* Inserts the blocks of the tables from `first` to `last`, each until it is stored. Returns a negative errno when it was given up; then
 * the acks of the parcel are completed. */
int click_insert_tables(struct click_writer *w, struct click_parcel *p, enum click_table first, enum click_table last);
/* Records that this thread repeats what ClickHouse does not accept (or, with NULL, that it was accepted), and reports the first time. */
void click_set_failing(struct click_writer *w, bool *failing, const char *problem);
/* Whether what is not stored is given up, because the store is being closed. With a spool, it is sent after the next start. */
bool click_should_stop(struct click_writer *w);
/* Waits, but not much longer than until the store is being closed. */
void click_pause_unless_stopped(struct click_writer *w, int64_t ms);

/* click_spool.c */
/* Opens the spool of the configuration, and reads the keys of what waits in it. */
int click_spool_open(struct click_writer *w, struct err *e);
/* Puts a parcel into the spool, synced, however long it takes. Returns false when it was given up. */
bool click_spool_put(struct click_writer *w, struct click_parcel *p);
bool click_spool_is_full(const struct click_writer *w);
/* Reads the next parcel and adds it to the lane, as PARCEL_DEFINING; NULL at the end. Releases what was stored meanwhile. */
struct click_parcel *click_spool_next(struct click_writer *w);
/* At the end: waits until the lane is empty, and releases what was stored. */
void click_spool_finish(struct click_writer *w);
/* Reports that records were lost. */
void click_spool_damage(void *writer, uint64_t records, const char *message);

#endif
