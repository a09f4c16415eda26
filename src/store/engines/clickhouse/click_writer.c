/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer of engine `clickhouse`: one thread that makes parcels of what was appended, in groups, and others that send
 * them (click_insert.c); see click.h for what is promised.
 *
 * The queue is bounded by the memory of its batches. While an insert is being repeated (`n_failing`), append() refuses at
 * once, so that senders keep their data and try again; with a spool, when that is full.
 */
#include "store/engines/clickhouse/click_writer.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "model/batch.h"
#include "store/engines/clickhouse/click_parcel.h"
#include "store/engines/clickhouse/click_schema.h"
#include "store/engines/clickhouse/click_writer_state.h"

enum {
    GROUP_SAMPLES = 400000, /* of one insert: below the size at which servers split a block */
    SPOOL_SAMPLES = 100000, /* with a spool: of one record */
    LINGER_MS = 200,        /* at least this long between two small inserts: small parts are expensive for the server */
    LINGER_SAMPLES = 20000, /* more than this are inserted at once */
};

void click_pause_ms(int64_t ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * NS_PER_MS};

    nanosleep(&t, NULL);
}

/* --- the queue --- */

static void refuse(struct click_writer *w, struct ack *ack)
{
    char message[320];

    pthread_mutex_lock(&w->lock);
    snprintf(message, sizeof message, "%s%s",
             click_spool_is_full(w) ? "the spool is full, and ClickHouse does not accept data: " : "",
             w->n_failing ? w->problem : "too much is waiting to be written to ClickHouse");
    pthread_mutex_unlock(&w->lock);
    ack_fail(ack, SINK_UNAVAILABLE, 5 * NS_PER_S, "%s", message);
}

void click_writer_append(struct click_writer *w, struct batch *b, const struct sink_context *ctx, struct ack *ack)
{
    size_t n = strlen(ctx->tenant) + 1, size = batch_memory(b);
    struct click_job *j = mem_zalloc(sizeof *j + n);
    bool full;

    if (!j) {
        ack_fail(ack, SINK_UNAVAILABLE, NS_PER_S, "out of memory");
        return;
    }
    j->ack = ack;
    j->size = size;
    j->received_ns = ctx->received_ns;
    j->cumulative = ctx->cumulative;
    memcpy(j->tenant, ctx->tenant, n);
    pthread_mutex_lock(&w->lock);
    full = (w->spool ? click_spool_is_full(w) : w->n_failing > 0) || (w->bytes && w->bytes + size > w->max_bytes);
    if (!full) {
        j->batch = batch_ref(b);
        *w->end = j;
        w->end = &j->next;
        w->bytes += size;
        w->samples += b->n_samples;
        pthread_cond_signal(&w->wake);
    }
    pthread_mutex_unlock(&w->lock);
    if (full) {
        mem_free(j);
        refuse(w, ack);
    }
}

/* Waits for jobs, and then a moment for more of them. Takes as many as fit in one group; NULL at the
 * end, or after a minute without jobs. */
static struct click_job *take_group(struct click_writer *w)
{
    struct click_job *group, *last = NULL;
    uint64_t samples = 0, most = w->spool ? SPOOL_SAMPLES : GROUP_SAMPLES;

    pthread_mutex_lock(&w->lock);
    while (!w->first && !w->stop)
        if (thread_wait(&w->wake, &w->lock, clock_mono() + (atomic_load(&w->ready) ? 60 : 1) * NS_PER_S) < 0)
            break; /* retention may be due, or ClickHouse may be there */
    while (!w->stop && !w->c->config.manual && w->samples < LINGER_SAMPLES &&
           clock_mono() - w->last_ns < LINGER_MS * NS_PER_MS) {
        pthread_mutex_unlock(&w->lock);
        click_pause_ms(10);
        pthread_mutex_lock(&w->lock);
    }
    group = w->first;
    for (struct click_job *j = group; j && (!last || samples + j->batch->n_samples <= most); j = j->next) {
        samples += j->batch->n_samples;
        w->bytes -= j->size;
        w->samples -= j->batch->n_samples;
        last = j;
    }
    w->first = last ? last->next : NULL;
    if (!w->first)
        w->end = &w->first;
    if (last)
        last->next = NULL;
    pthread_mutex_unlock(&w->lock);
    return group;
}

void click_complete(struct click_job *group, enum sink_status status, const char *message)
{
    for (struct click_job *j = group; j; j = j->next) {
        struct ack *ack = j->ack;

        j->ack = NULL;
        if (!ack)
            continue;
        if (status != SINK_OK)
            ack_fail(ack, status, status == SINK_UNAVAILABLE ? 5 * NS_PER_S : 0, "%s", message);
        else
            ack_complete(ack, &j->result);
    }
}

void click_free_group(struct click_job *group)
{
    while (group) {
        struct click_job *next = group->next;

        batch_unref(group->batch);
        mem_free(group);
        group = next;
    }
}

void click_refuse_queue(struct click_writer *w, const char *problem)
{
    struct click_job *all;

    pthread_mutex_lock(&w->lock);
    all = w->first;
    w->first = NULL;
    w->end = &w->first;
    w->bytes = w->samples = 0;
    pthread_mutex_unlock(&w->lock);
    click_complete(all, SINK_UNAVAILABLE, problem);
    click_free_group(all);
}

bool click_make_ready(struct click_writer *w)
{
    struct err e = {0};

    if (atomic_load(&w->ready))
        return true;
    if (click_schema_ensure(&w->c->http, true, &e) < 0) {
        click_set_failing(w, &w->absent, e.message);
        return false;
    }
    click_set_failing(w, &w->absent, NULL);
    atomic_store(&w->ready, true);
    return true;
}

/* --- making parcels --- */

static int make_block(struct click_writer *w, struct click_job *group)
{
    int r = 0;

    for (struct click_job *j = group; r == 0 && j; j = j->next) {
        struct sink_context ctx = {.tenant = j->tenant, .received_ns = j->received_ns, .cumulative = j->cumulative};

        r = click_block_add(&w->block, j->batch, &ctx, click_now(w->c), &j->result);
    }
    return r;
}

/* Encodes the block. NULL: out of memory. */
static struct click_parcel *make_parcel(struct click_writer *w, struct click_job *group)
{
    struct click_parcel *p = mem_zalloc(sizeof *p);

    if (!p || click_parcel_encode(&w->block, &p->data) < 0) {
        click_parcel_free(p);
        return NULL;
    }
    p->group = group;
    p->profiles = w->block.profiles;
    p->samples = w->block.samples;
    p->duplicates = w->block.duplicates;
    return p;
}

static bool has_ended(struct click_writer *w)
{
    bool ended;

    pthread_mutex_lock(&w->lock);
    ended = w->stop && !w->first;
    pthread_mutex_unlock(&w->lock);
    return ended;
}

/* Makes the group a parcel and hands it over, to the thread that sends or to the spool. */
static void process(struct click_writer *w, struct click_job *group)
{
    struct click_parcel *p = NULL;

    if (atomic_exchange(&w->forget, false))
        click_block_forget(&w->block);
    if (make_block(w, group) == 0)
        p = make_parcel(w, group);
    if (!p) { /* out of memory: nothing of the group is stored or remembered */
        click_block_done(&w->block);
        click_block_init(&w->block, &w->c->config, &w->c->limits);
        click_complete(group, SINK_UNAVAILABLE, "out of memory");
        click_free_group(group);
        return;
    }
    pthread_mutex_lock(&w->lock);
    for (struct click_job *j = group; j; j = j->next)
        w->stats.rejected += j->result.rejected;
    pthread_mutex_unlock(&w->lock);
    click_block_reset(&w->block);
    if (!w->spool) {
        click_insert_push(w, p);
    } else {
        click_spool_put(w, p);
        click_parcel_free(p);
    }
}

static void retain_if_due(struct click_writer *w)
{
    struct err e = {0};

    if (w->c->config.manual || clock_mono() <= w->next_retention || !atomic_load(&w->ready))
        return;
    if (click_retain_now(w->c, false, &e) < 0 && w->c->config.report)
        w->c->config.report(w->c->config.report_ctx, e.message);
    w->next_retention = clock_mono() + 3600 * NS_PER_S;
}

static int load_keys(struct click_writer *w, struct err *e);

static void *run(void *arg)
{
    struct click_writer *w = arg;
    struct click_job *group;

    while ((group = take_group(w)) || !has_ended(w)) {
        retain_if_due(w);
        if (!w->spool)
            click_make_ready(w);
        if (!w->has_keys && atomic_load(&w->ready)) /* ClickHouse was away when the store was opened */
            w->has_keys = load_keys(w, NULL) == 0;
        if (!group)
            continue;
        w->last_ns = clock_mono();
        process(w, group);
    }
    pthread_mutex_lock(&w->lock);
    w->made_all = true;
    pthread_cond_broadcast(&w->moved);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* --- opening --- */

/* Reads what was stored in the last hours, by any ingester, so that it is recognised when it is sent again. */
static int load_keys(struct click_writer *w, struct err *e)
{
    _cleanup_(buf_done) struct buf sql = BUF_INIT, answer = BUF_INIT;
    struct click_call call = {0};
    int64_t since = click_now(w->c) - w->block.dedup.window;
    struct cursor r;
    int rc;

    buf_printf(&sql,
               "SELECT tenant, type, time, series, meta, seq, key_start, key, received FROM profiles WHERE received >= "
               "%lld ORDER BY received DESC LIMIT %u FORMAT RowBinary",
               (long long) since, w->block.dedup.max);
    rc = click_send(&w->c->http, buf_str(&sql), &call, &answer, e);
    r = cursor_of(answer.p, answer.n);
    while (rc == 0 && r.p < r.end) {
        struct str tenant = get_bytes(&r), type = get_bytes(&r);
        int64_t time = (int64_t) get_u64(&r), received;
        uint64_t series = get_u64(&r), meta = get_u64(&r);
        const unsigned char *seq = get_raw(&r, 2);
        struct id128 key = {get_u64(&r), 0};
        char name[256];

        key.lo = get_u64(&r);
        received = (int64_t) get_u64(&r);
        if (r.bad)
            return err_set(e, -EPROTO, "ClickHouse's answer about profiles is damaged");
        snprintf(name, sizeof name, "%.*s", STR_FMT(tenant));
        rc = dedup_add(&w->block.places, click_place_key(name, type, series, meta, time, load_u16(seq)), received);
        if (rc == 0 && key.lo)
            rc = dedup_add(&w->block.dedup, key, received);
    }
    return rc;
}

/* Reads what is known, and starts the threads. */
static int start(struct click_writer *w, struct err *e)
{
    int r = w->c->config.spool ? click_spool_open(w, e) : 0;

    if (r == 0 && atomic_load(&w->ready)) {
        r = load_keys(w, e);
        w->has_keys = r == 0;
    }
    w->c->http.ending = NULL; /* the threads do not ask it */
    if (r == 0)
        r = click_insert_start(w, e);
    if (r == 0) {
        r = thread_start(&w->thread, "clickhouse", run, w, e);
        w->has_thread = r == 0;
    }
    return r;
}

int click_writer_new(struct click *c, const char *problem, struct click_writer **ret, struct err *e)
{
    struct click_writer *w = mem_zalloc(sizeof *w);
    int r;

    if (!w)
        return err_set(e, -ENOMEM, "out of memory");
    w->c = c;
    w->end = &w->first;
    w->spool_keep = UINT64_MAX;
    atomic_store(&w->ready, !problem);
    w->max_bytes = c->config.memory ? c->config.memory : 64 << 20;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    pthread_cond_init(&w->moved, NULL);
    click_block_init(&w->block, &c->config, &c->limits);
    if (problem)
        click_set_failing(w, &w->absent, problem);
    r = start(w, e);
    if (r < 0) {
        click_writer_free(w);
        return r;
    }
    *ret = w;
    return 0;
}

void click_writer_free(struct click_writer *w)
{
    if (!w)
        return;
    click_http_stop(&w->c->http);
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    w->made_all |= !w->has_thread;
    pthread_cond_signal(&w->wake);
    pthread_cond_broadcast(&w->moved);
    pthread_mutex_unlock(&w->lock);
    if (w->has_thread)
        pthread_join(w->thread, NULL);
    click_insert_join(w);
    qlog_close(w->spool);
    click_block_done(&w->block);
    pthread_cond_destroy(&w->moved);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    mem_free(w);
}

void click_writer_stats(struct click_writer *w, struct store_stats *ret)
{
    pthread_mutex_lock(&w->lock);
    ret->profiles = w->stats.profiles;
    ret->samples = w->stats.samples;
    ret->duplicates = w->stats.duplicates;
    ret->rejected = w->stats.rejected;
    ret->flushes = w->stats.flushes;
    ret->memory_bytes += w->bytes;
    if (!w->spool || click_spool_is_full(w))
        snprintf(ret->problem, sizeof ret->problem, "%s", w->problem);
    pthread_mutex_unlock(&w->lock);
    click_spool_stats(w, &ret->spool);
    ret->log_bytes = ret->spool.bytes;
}
