/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends parcels to ClickHouse, on threads of their own, so that the next one is made meanwhile; see click_writer_state.h for their order.
 * A block whose outcome is unknown is sent again, byte by byte the same, until it is stored: with a spool also after a restart.
 */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "store/engines/clickhouse/click_parcel.h"
#include "store/engines/clickhouse/click_writer_state.h"

void click_parcel_free(struct click_parcel *p)
{
    if (!p)
        return;
    click_free_group(p->group);
    buf_done(&p->data);
    mem_free(p);
}

/* --- state --- */

void click_set_failing(struct click_writer *w, bool *failing, const char *problem)
{
    pthread_mutex_lock(&w->lock);
    if (problem && !w->n_failing && w->c->config.report)
        w->c->config.report(w->c->config.report_ctx, problem);
    if (problem && !*failing)
        w->n_failing++;
    else if (!problem && *failing)
        w->n_failing--;
    *failing = problem != NULL;
    if (problem || !w->n_failing)
        snprintf(w->problem, sizeof w->problem, "%.200s", problem ? problem : "");
    pthread_mutex_unlock(&w->lock);
}

bool click_should_stop(struct click_writer *w)
{
    bool stop;

    pthread_mutex_lock(&w->lock);
    stop = w->stop && w->spool;
    pthread_mutex_unlock(&w->lock);
    return stop || click_http_stopped(&w->c->http);
}

void click_pause_unless_stopped(struct click_writer *w, int64_t ms)
{
    int64_t until = clock_mono() + ms * NS_PER_MS;
    bool stop = false;

    while (!stop && clock_mono() < until) {
        click_pause_ms(MIN(ms, 50));
        pthread_mutex_lock(&w->lock);
        stop = w->stop;
        pthread_mutex_unlock(&w->lock);
        stop |= click_http_stopped(&w->c->http);
    }
}

/* --- inserting --- */

static int insert(struct click_writer *w, enum click_table t, struct str block, int *ret_code, struct err *e)
{
    _cleanup_(buf_done) struct buf sql = BUF_INIT, settings = BUF_INIT;
    const struct click_url *u = &w->c->http.url;
    struct click_call call = {.data = block};
    int r;

    buf_printf(&sql, "INSERT INTO %s FORMAT Native", click_tables[t].name);
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

static struct click_job *take_acks(struct click_writer *w, struct click_parcel *p)
{
    struct click_job *group;

    pthread_mutex_lock(&w->lock);
    group = p->group;
    p->group = NULL;
    pthread_mutex_unlock(&w->lock);
    return group;
}

static void fail(struct click_job *group, enum sink_status status, const char *message)
{
    click_complete(group, status, message);
    click_free_group(group);
}

/* Fails the acks of what is on its way, so that its senders keep it and retry. The parcels are still sent. Those that another thread is
 * sending get their own answer. */
static void fail_all(struct click_writer *w, struct click_parcel *p, enum sink_status status, const char *message)
{
    struct click_job *waiting[LANE_MAX];
    uint32_t n = 0;

    fail(take_acks(w, p), status, message);
    if (status != SINK_UNAVAILABLE || w->spool)
        return;
    pthread_mutex_lock(&w->lock);
    for (struct click_parcel *x = w->lane; x && n < LANE_MAX; x = x->next) {
        if (x->stage == PARCEL_DEFINING || x->stage == PARCEL_SENDING)
            continue;
        waiting[n++] = x->group;
        x->group = NULL;
    }
    pthread_mutex_unlock(&w->lock);
    for (uint32_t i = 0; i < n; i++)
        fail(waiting[i], status, message);
    click_refuse_queue(w, message);
}

/* Inserts one block until it is stored. */
static int insert_surely(struct click_writer *w, struct click_parcel *p, enum click_table table, struct str block)
{
    int wait = RETRY_MIN_MS, code = 0, r;
    bool failing = false;
    struct err e = {0};

    while ((r = insert(w, table, block, &code, &e)) < 0) {
        bool final = is_final(r, code);

        click_set_failing(w, &failing, e.message);
        fail_all(w, p, final ? SINK_INTERNAL : SINK_UNAVAILABLE, e.message);
        if (final || click_should_stop(w)) {
            r = final ? -EINVAL : -ECANCELED;
            break;
        }
        click_pause_unless_stopped(w, wait);
        wait = MIN(wait * 2, RETRY_MAX_MS);
    }
    if (r != -ECANCELED)
        click_set_failing(w, &failing, NULL);
    if (r == 0)
        click_http_moved(&w->c->http);
    return r;
}

int click_insert_tables(struct click_writer *w, struct click_parcel *p, enum click_table first, enum click_table last)
{
    struct click_parcel_reader reader;
    enum click_table table;
    struct str block;
    int more, r = click_parcel_open(buf_str(&p->data), NULL, &reader);

    while (r == 0 && (more = click_parcel_next(&reader, &table, &block)) != 0) {
        if (more < 0)
            return more;
        if (table >= first && table <= last)
            r = insert_surely(w, p, table, block);
    }
    return r;
}

/* --- the lane --- */

static void add_to_lane(struct click_writer *w, struct click_parcel *p)
{
    struct click_parcel **end = &w->lane;

    while (*end)
        end = &(*end)->next;
    *end = p;
    w->n_lane++;
    pthread_cond_broadcast(&w->moved);
}

void click_insert_push(struct click_writer *w, struct click_parcel *p)
{
    pthread_mutex_lock(&w->lock);
    while (w->n_lane >= LANE_MAX)
        pthread_cond_wait(&w->moved, &w->lock);
    add_to_lane(w, p);
    pthread_mutex_unlock(&w->lock);
}

/* Waits for the first parcel of a stage and moves it on to the next stage; NULL when there will be none. It stays in the lane until it is
 * stored. */
static struct click_parcel *wait_parcel(struct click_writer *w, enum click_stage stage, const bool *ended)
{
    struct click_parcel *p;

    pthread_mutex_lock(&w->lock);
    for (;;) {
        for (p = w->lane; p && p->stage != stage; p = p->next)
            ;
        if (p || *ended)
            break;
        pthread_cond_wait(&w->moved, &w->lock);
    }
    if (p)
        p->stage = stage + 1;
    pthread_mutex_unlock(&w->lock);
    return p;
}

static void set_defined(struct click_writer *w, struct click_parcel *p)
{
    pthread_mutex_lock(&w->lock);
    p->stage = PARCEL_DEFINED;
    pthread_cond_broadcast(&w->moved);
    pthread_mutex_unlock(&w->lock);
}

/* Removes a parcel that is stored (0) or was given up, and completes its acks. */
static void end_parcel(struct click_writer *w, struct click_parcel *p, int r)
{
    struct click_parcel **at = &w->lane;
    char problem[sizeof w->problem];
    struct click_job *group;

    if (r == -EINVAL)
        atomic_store(&w->forget, true);
    pthread_mutex_lock(&w->lock);
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    w->n_lane--;
    group = p->group;
    p->group = NULL;
    if (r == 0 && !w->spool) {
        w->stats.profiles += p->profiles;
        w->stats.samples += p->samples;
        w->stats.duplicates += p->duplicates;
    }
    w->stats.flushes += r == 0;
    if (r == -ECANCELED)
        w->spool_keep = MIN(w->spool_keep, p->seq);
    snprintf(problem, sizeof problem, "%s", *w->problem ? w->problem : "the request cannot be stored");
    pthread_cond_broadcast(&w->moved);
    pthread_mutex_unlock(&w->lock);
    if (r < 0 && r != -ECANCELED && w->spool) /* it is damaged, or the server will never accept it */
        click_spool_damage(w, 1, r == -EBADMSG ? "a record cannot be read" : problem);
    click_complete(group, r == 0 ? SINK_OK : SINK_UNAVAILABLE, problem);
    click_free_group(group);
    click_parcel_free(p);
}

/* --- the threads --- */

static void *define_run(void *arg)
{
    struct click_writer *w = arg;
    struct click_parcel *p;

    while ((p = w->spool ? click_spool_next(w) : wait_parcel(w, PARCEL_MADE, &w->made_all))) {
        int r = click_insert_tables(w, p, CLICK_SERIES, CLICK_ATTRS);

        if (r == 0)
            set_defined(w, p);
        else
            end_parcel(w, p, r);
    }
    pthread_mutex_lock(&w->lock);
    w->defined_all = true;
    pthread_cond_broadcast(&w->moved);
    pthread_mutex_unlock(&w->lock);
    if (w->spool)
        click_spool_finish(w);
    return NULL;
}

static void *send_run(void *arg)
{
    struct click_writer *w = arg;
    struct click_parcel *p;

    while ((p = wait_parcel(w, PARCEL_DEFINED, &w->defined_all)))
        end_parcel(w, p, click_insert_tables(w, p, CLICK_SAMPLES, CLICK_PROFILES));
    return NULL;
}

int click_insert_start(struct click_writer *w, struct err *e)
{
    /* Replicated tables of old servers accept one insert with a quorum at a time. */
    uint32_t senders = *w->c->http.url.cluster ? 1 : SENDERS_MAX;
    int r = thread_start(&w->define_thread, "clickhouse-dict", define_run, w, e);

    w->has_define_thread = r == 0;
    while (r == 0 && w->n_senders < senders) {
        r = thread_start(&w->send_threads[w->n_senders], "clickhouse-send", send_run, w, e);
        w->n_senders += r == 0;
    }
    return r;
}

void click_insert_join(struct click_writer *w)
{
    if (w->has_define_thread)
        pthread_join(w->define_thread, NULL);
    for (uint32_t i = 0; i < w->n_senders; i++)
        pthread_join(w->send_threads[i], NULL);
    while (w->lane) { /* a thread could not be started */
        w->lane->stage = PARCEL_SENDING;
        end_parcel(w, w->lane, -ECANCELED);
    }
}
