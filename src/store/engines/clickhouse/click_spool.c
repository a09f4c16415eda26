/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spool of engine `clickhouse`: a log on disk between the thread that makes parcels and those that send them. A parcel is acknowledged
 * when it is in the log, and released when ClickHouse has it and all before it. See click_writer_state.h.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "store/engines/clickhouse/click_parcel.h"
#include "store/engines/clickhouse/click_writer.h"
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

/* --- ages --- */

/* With the lock held. Of many times every second one is kept, so that the oldest stay. */
static void note_age(struct click_writer *w, uint64_t seq, int64_t time_ns)
{
    if (w->n_ages && time_ns - w->ages[w->n_ages - 1].time_ns < NS_PER_S)
        return;
    if (w->n_ages == SPOOL_AGES) {
        for (uint32_t i = 0; i < SPOOL_AGES / 2; i++)
            w->ages[i] = w->ages[2 * i];
        w->n_ages = SPOOL_AGES / 2;
    }
    w->ages[w->n_ages++] = (struct click_spool_age){seq, time_ns};
}

void click_spool_stats(struct click_writer *w, struct store_spool *ret)
{
    uint64_t first;
    uint32_t i = 0;

    *ret = (struct store_spool){.used = w->spool != NULL};
    if (!w->spool)
        return;
    ret->records = qlog_waiting(w->spool);
    ret->bytes = ret->records ? qlog_bytes(w->spool) : 0;
    first = qlog_committed(w->spool) - ret->records;
    pthread_mutex_lock(&w->lock);
    while (i + 1 < w->n_ages && w->ages[i + 1].seq <= first)
        i++;
    memmove(w->ages, w->ages + i, (w->n_ages - i) * sizeof *w->ages);
    w->n_ages -= i;
    if (ret->records && w->n_ages)
        ret->age_ns = MAX(clock_boot() - w->ages[0].time_ns, 0);
    pthread_mutex_unlock(&w->lock);
}

/* --- opening and writing --- */

/* When the oldest file of the log was written last: what waits in it is at least as old. */
static int64_t oldest_file(const char *dir)
{
    int64_t oldest = clock_wall();
    DIR *d = opendir(dir);

    for (struct dirent *x; d && (x = readdir(d));) {
        struct stat st;

        if (str_ends(str_from(x->d_name), STR(".log")) && fstatat(dirfd(d), x->d_name, &st, 0) == 0)
            oldest = MIN(oldest, (int64_t) st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec);
    }
    if (d)
        closedir(d);
    return oldest;
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
    if (r < 0)
        return err_prefix(e, r, "spool: ");
    if (qlog_waiting(w->spool))
        note_age(w, 0, clock_boot() - MAX(clock_wall() - oldest_file(w->c->config.spool), 0));
    return 0;
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
    note_age(w, qlog_committed(w->spool) - 1, clock_boot());
    w->stats.profiles += p->profiles;
    w->stats.samples += p->samples;
    w->stats.duplicates += p->duplicates;
    pthread_cond_broadcast(&w->moved);
    pthread_mutex_unlock(&w->lock);
    click_complete(p->group, SINK_OK, NULL);
    return true;
}

/* --- sending --- */

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
    bool stop;

    pthread_mutex_lock(&w->lock);
    if (!w->stop && (!full || w->n_lane >= LANE_MAX))
        thread_wait(&w->moved, &w->lock, clock_mono() + NS_PER_S);
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

    while (!click_should_stop(w)) {
        struct err e = {0};
        bool full;
        int r;

        release(w);
        pthread_mutex_lock(&w->lock);
        full = w->n_lane >= LANE_MAX;
        pthread_mutex_unlock(&w->lock);
        r = !full && click_make_ready(w) ? read_parcel(w, &p, &e) : 0;
        if (r > 0)
            break;
        if (r < 0 && w->c->config.report)
            w->c->config.report(w->c->config.report_ctx, e.message);
        if (!wait_moved(w, full))
            break;
    }
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
