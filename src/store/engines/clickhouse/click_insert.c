/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends parcels to ClickHouse, on a thread of its own, so that the next one is made meanwhile; and the spool, a log on disk
 * between the two threads. A parcel whose outcome is unknown is sent again, byte by byte the same, until it is stored: with a spool also
 * after a restart. See click_writer_state.h.
 */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/engines/clickhouse/click_parcel.h"
#include "store/engines/clickhouse/click_schema.h"
#include "store/engines/clickhouse/click_writer_state.h"

#define SPOOL_DEFAULT ((uint64_t) 1 << 30)

void click_parcel_free(struct click_parcel *p)
{
    if (!p)
        return;
    click_free_group(p->group);
    buf_done(&p->data);
    mem_free(p);
}

/* --- inserting --- */

static int insert(struct click_writer *w, enum click_table t, struct str block, int *ret_code, struct err *e)
{
    _cleanup_(buf_done) struct buf sql = BUF_INIT, settings = BUF_INIT;
    const struct click_url *u = &w->c->http.url;
    struct click_call call = {.data = block};
    int r;

    buf_printf(&sql, "INSERT INTO %s FORMAT Native", w->block.rows[t].def->name);
    if (*u->cluster)
        buf_printf(&settings, "insert_distributed_sync=1&insert_quorum=%u", u->quorum > 1 ? u->quorum : 0);
    r = buf_error(&settings) ? buf_error(&settings) : buf_error(&sql);
    if (r < 0)
        return err_set(e, r, "out of memory");
    call.settings = buf_cstr(&settings);
    r = click_send(&w->c->http, buf_str(&sql), &call, NULL, e);
    *ret_code = call.code;
    return r;
}

/* Whether the server will never accept the block: it cannot be parsed, or a table has other columns. */
static bool is_final(int r, int code)
{
    return r == -EREMOTEIO && ((code >= 6 && code <= 8) || code == 16 || (code >= 26 && code <= 28) || code == 33 ||
                               code == 53 || code == 62 || code == 117);
}

/* Whether the server is being closed and has tried for long enough. With a spool, it can be sent later. */
static bool should_stop(struct click_writer *w)
{
    bool stop;

    pthread_mutex_lock(&w->lock);
    stop = w->stop && (w->spool || clock_mono() - w->stop_since > CLOSE_MS * NS_PER_MS);
    pthread_mutex_unlock(&w->lock);
    return stop;
}

/* Fails the acks of everything that is on its way, so that its senders keep it and retry. The parcels are still sent. */
static void fail_all(struct click_writer *w, struct click_parcel *p, enum sink_status status, const char *message)
{
    struct click_parcel *waiting[LANE_MAX];
    uint32_t n = 0;

    click_set_away(w, message);
    click_complete(p->group, status, message);
    if (status != SINK_UNAVAILABLE || w->spool)
        return;
    pthread_mutex_lock(&w->lock);
    for (struct click_parcel *x = w->lane; x && n < LANE_MAX; x = x->next)
        waiting[n++] = x;
    pthread_mutex_unlock(&w->lock);
    for (uint32_t i = 0; i < n; i++) /* only this thread removes parcels from the lane */
        click_complete(waiting[i]->group, status, message);
    click_refuse_queue(w, message);
}

/* Inserts the blocks in order, each until it is stored. Returns a negative errno when it was given up. */
static int send_parcel(struct click_writer *w, struct click_parcel *p)
{
    struct click_parcel_reader reader;
    enum click_table table;
    struct str block;
    int wait = RETRY_MIN_MS, more, r = click_parcel_open(buf_str(&p->data), NULL, &reader);

    while (r == 0 && (more = click_parcel_next(&reader, &table, &block)) != 0) {
        struct err e = {0};
        int code = 0;

        if (more < 0)
            return more;
        while ((r = insert(w, table, block, &code, &e)) < 0) {
            bool final = is_final(r, code);

            fail_all(w, p, final ? SINK_INTERNAL : SINK_UNAVAILABLE, e.message);
            if (final || should_stop(w))
                return final ? -EINVAL : -ECANCELED;
            click_pause_ms(wait);
            wait = MIN(wait * 2, RETRY_MAX_MS);
        }
    }
    return r;
}

/* Creates the tables if ClickHouse was away when the store was opened. */
static bool make_ready(struct click_writer *w)
{
    struct err e = {0};

    if (atomic_load(&w->ready))
        return true;
    if (click_schema_ensure(&w->c->http, true, &e) < 0) {
        click_set_away(w, e.message);
        return false;
    }
    atomic_store(&w->ready, true);
    return true;
}

static void end_parcel(struct click_writer *w, struct click_parcel *p, int r)
{
    if (r == -EINVAL)
        atomic_store(&w->forget, true);
    if (r == -ECANCELED)
        return;
    click_set_away(w, NULL);
    if (r < 0)
        return;
    pthread_mutex_lock(&w->lock);
    if (!w->spool) {
        w->stats.profiles += p->profiles;
        w->stats.samples += p->samples;
        w->stats.duplicates += p->duplicates;
    }
    w->stats.flushes++;
    pthread_mutex_unlock(&w->lock);
    click_complete(p->group, SINK_OK, NULL);
}

/* --- the lane --- */

void click_insert_push(struct click_writer *w, struct click_parcel *p)
{
    pthread_mutex_lock(&w->lock);
    while (w->n_lane >= LANE_MAX)
        pthread_cond_wait(&w->moved, &w->lock);
    *w->lane_end = p;
    w->lane_end = &p->next;
    w->n_lane++;
    pthread_cond_broadcast(&w->moved);
    pthread_mutex_unlock(&w->lock);
}

/* Waits for the next parcel; NULL at the end. It stays in the lane until it is stored, so that at most LANE_MAX are made. */
static struct click_parcel *wait_parcel(struct click_writer *w)
{
    struct click_parcel *p;

    pthread_mutex_lock(&w->lock);
    while (!w->lane && !w->made_all)
        pthread_cond_wait(&w->moved, &w->lock);
    p = w->lane;
    pthread_mutex_unlock(&w->lock);
    return p;
}

static void drop_parcel(struct click_writer *w, struct click_parcel *p)
{
    pthread_mutex_lock(&w->lock);
    w->lane = p->next;
    if (!w->lane)
        w->lane_end = &w->lane;
    w->n_lane--;
    pthread_cond_broadcast(&w->moved);
    pthread_mutex_unlock(&w->lock);
    click_parcel_free(p);
}

/* --- the spool --- */

static void on_damage(void *arg, uint64_t records, const char *message)
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
    struct qlog_options o = {.fsync = true, .on_damage = on_damage, .arg = w};
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
            r = send_parcel(w, p);
        else
            err_set(&e, r, "spool: %m");
        if (r == -ECANCELED || r == -EINVAL) /* its acks are completed */
            return false;
        if (r == 0)
            break;
        click_complete(p->group, SINK_UNAVAILABLE, e.message);
        if (should_stop(w))
            return false;
        click_pause_ms(wait);
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

/* Waits until something may be in the spool. Returns false at the end. */
static bool wait_spool(struct click_writer *w)
{
    struct timespec until;
    bool stop;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    pthread_mutex_lock(&w->lock);
    if (!w->stop)
        pthread_cond_timedwait(&w->moved, &w->lock, &until);
    stop = w->stop;
    pthread_mutex_unlock(&w->lock);
    return !stop;
}

static void run_spool(struct click_writer *w)
{
    struct click_parcel p = {0};
    bool on = true;

    while (on) {
        struct qlog_entry entry;
        struct err e = {0};
        int r = make_ready(w) ? qlog_read(w->spool, &entry, &p.data, &e) : 0;

        if (r < 0 && w->c->config.report)
            w->c->config.report(w->c->config.report_ctx, e.message);
        if (r <= 0) {
            on = wait_spool(w);
            continue;
        }
        r = send_parcel(w, &p);
        end_parcel(w, &p, r);
        if (r == -ECANCELED)
            break;
        if (r < 0) /* it is damaged, or the server will never accept it */
            on_damage(w, 1, r == -EBADMSG ? "a record cannot be read" : w->problem);
        qlog_release(w->spool, entry.seq + 1);
        on = !should_stop(w);
    }
    buf_done(&p.data);
}

void *click_insert_run(void *arg)
{
    struct click_writer *w = arg;
    struct click_parcel *p;

    if (w->spool) {
        run_spool(w);
        return NULL;
    }
    while ((p = wait_parcel(w))) {
        end_parcel(w, p, send_parcel(w, p));
        drop_parcel(w, p);
    }
    return NULL;
}
