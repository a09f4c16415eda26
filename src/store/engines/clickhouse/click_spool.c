/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spool of engine `clickhouse`: a log on disk between the thread that makes parcels and those that send them. A parcel is acknowledged
 * when it is in the log, and released when ClickHouse has it and all before it. See click_writer_state.h.
 */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/mem.h"
#include "store/engines/clickhouse/click_parcel.h"
#include "store/engines/clickhouse/click_schema.h"
#include "store/engines/clickhouse/click_writer_state.h"

#define SPOOL_DEFAULT ((uint64_t) 1 << 30)

void click_spool_damage(void *arg, uint64_t records, const char *message)
{
    struct click_writer *w = arg;
    char line[300];

    snprintf(line, sizeof line, "spool: %llu groups of profiles were lost: %.200s", (unsigned long long) records,
             message);
    if (w->c->config.report)
        w->c->config.report(w->c->config.report_ctx, line);
}

/* Reads the keys of what waits, so that profiles are recognised when they are sent again. */
static int read_keys(struct click_writer *w, struct err *e)
{
    _cleanup_(buf_done) struct buf data = BUF_INIT;
    struct click_parcel_reader reader;
    struct qlog_entry entry;
    int r;

    while ((r = qlog_read(w->spool, &entry, &data, e)) > 0)
        if (click_parcel_open(buf_str(&data), &w->block, &reader) == -ENOMEM)
            return err_set(e, -ENOMEM, "out of memory");
    return r;
}

int click_spool_open(struct click_writer *w, struct err *e)
{
    struct qlog_options o = {.fsync = true, .on_damage = click_spool_damage, .arg = w};
    int r = qlog_open(w->c->config.spool, &o, &w->spool, e);

    if (r == 0)
        r = read_keys(w, e);
    if (r < 0)
        return err_prefix(e, r, "spool: ");
    qlog_close(w->spool); /* what was read is not released: it is read again */
    w->spool = NULL;
    o.on_damage = NULL; /* it has been reported */
    r = qlog_open(w->c->config.spool, &o, &w->spool, e);
    return r < 0 ? err_prefix(e, r, "spool: ") : 0;
}

bool click_spool_is_full(const struct click_writer *w)
{
    uint64_t max = w->c->config.spool_bytes ? w->c->config.spool_bytes : SPOOL_DEFAULT;

    return w->spool && qlog_bytes(w->spool) >= max && qlog_waiting(w->spool);
}

bool click_spool_put(struct click_writer *w, struct click_parcel *p)
{
    int wait = RETRY_MIN_MS;

    for (;;) {
        struct err e = {0};
        int r = qlog_put(w->spool, false, 0, p->data.p, p->data.n);

        if (r == 0)
            r = qlog_commit(w->spool, &e);
        else if (r == -E2BIG) /* one enormous request: it is acknowledged when ClickHouse has it */
            r = click_insert_tables(w, p, 0, CLICK_TABLES);
        else
            err_set(&e, r, "spool: %m");
        if (r == -ECANCELED || r == -EINVAL) /* its acks are completed */
            return false;
        if (r == 0)
            break;
        click_complete(p->group, SINK_UNAVAILABLE, e.message);
        if (click_should_stop(w))
            return false;
        click_pause_unless_stopped(w, wait);
        wait = MIN(wait * 2, RETRY_MAX_MS);
    }
    pthread_mutex_lock(&w->lock);
    w->stats.profiles += p->profiles;
    w->stats.samples += p->samples;
    w->stats.duplicates += p->duplicates;
    pthread_cond_broadcast(&w->moved);
    pthread_mutex_unlock(&w->lock);
    click_complete(p->group, SINK_OK, NULL);
    return true;
}

/* --- sending --- */

/* Creates the tables if ClickHouse was away when the store was opened. */
static bool make_ready(struct click_writer *w, bool *failing)
{
    struct err e = {0};

    if (atomic_load(&w->ready))
        return true;
    if (click_schema_ensure(&w->c->http, true, &e) < 0) {
        click_set_failing(w, failing, e.message);
        return false;
    }
    click_set_failing(w, failing, NULL);
    atomic_store(&w->ready, true);
    return true;
}

/* Parcels are stored in any order, and released in that of the log. */
static void release(struct click_writer *w)
{
    uint64_t seq;

    pthread_mutex_lock(&w->lock);
    seq = MIN(w->lane ? w->lane->seq : w->spool_next, w->spool_keep);
    pthread_mutex_unlock(&w->lock);
    if (seq)
        qlog_release(w->spool, seq);
}

/* Waits until there may be something to do: in a full lane, for room in it. Returns false at the end. */
static bool wait_moved(struct click_writer *w, bool full)
{
    struct timespec until;
    bool stop;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    pthread_mutex_lock(&w->lock);
    if (!w->stop && (!full || w->n_lane >= LANE_MAX))
        pthread_cond_timedwait(&w->moved, &w->lock, &until);
    stop = w->stop;
    pthread_mutex_unlock(&w->lock);
    return !stop;
}

/* Reads a record into a parcel: 1, 0 if there is none now, or -errno. */
static int read_parcel(struct click_writer *w, struct click_parcel **ret, struct err *e)
{
    struct click_parcel *p = mem_zalloc(sizeof *p);
    struct qlog_entry entry;
    int r;

    if (!p)
        return err_set(e, -ENOMEM, "out of memory");
    r = qlog_read(w->spool, &entry, &p->data, e);
    if (r <= 0) {
        click_parcel_free(p);
        return r;
    }
    p->seq = entry.seq;
    *ret = p;
    return 1;
}

struct click_parcel *click_spool_next(struct click_writer *w)
{
    struct click_parcel *p = NULL;
    bool failing = false;

    while (!click_should_stop(w)) {
        struct err e = {0};
        bool full;
        int r;

        release(w);
        pthread_mutex_lock(&w->lock);
        full = w->n_lane >= LANE_MAX;
        pthread_mutex_unlock(&w->lock);
        r = !full && make_ready(w, &failing) ? read_parcel(w, &p, &e) : 0;
        if (r > 0)
            break;
        if (r < 0 && w->c->config.report)
            w->c->config.report(w->c->config.report_ctx, e.message);
        if (!wait_moved(w, full))
            break;
    }
    click_set_failing(w, &failing, NULL);
    if (!p)
        return NULL;
    p->stage = PARCEL_DEFINING;
    pthread_mutex_lock(&w->lock);
    w->spool_next = p->seq + 1;
    pthread_mutex_unlock(&w->lock);
    click_insert_push(w, p);
    return p;
}

void click_spool_finish(struct click_writer *w)
{
    pthread_mutex_lock(&w->lock);
    while (w->lane)
        pthread_cond_wait(&w->moved, &w->lock);
    pthread_mutex_unlock(&w->lock);
    release(w);
}
