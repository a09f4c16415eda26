/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer of engine `clickhouse`: one thread that inserts what was appended, in groups; see click.h for what is promised.
 *
 * The queue is bounded by the memory of its batches. While an insert is being repeated (`away`), append() refuses at
 * once, so that senders keep their data and try again.
 */
#include "store/engines/clickhouse/click_writer.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "model/batch.h"
#include "store/engines/clickhouse/click.h"
#include "store/engines/clickhouse/click_block.h"

enum {
    GROUP_SAMPLES = 400000, /* of one insert: below the size at which servers split a block */
    RETRY_MIN_MS = 100,
    RETRY_MAX_MS = 5000,
    LINGER_MS = 200,        /* at least this long between two small inserts: small parts are expensive for the server */
    LINGER_SAMPLES = 20000, /* more than this are inserted at once */
    CLOSE_MS = 5000,        /* how long closing tries to store the last group */
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

struct click_writer {
    struct click *c;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct click_job *first, **end; /* the queue */
    size_t bytes, max_bytes;
    uint64_t samples; /* in the queue */
    bool stop, away;
    char problem[240]; /* with away */
    struct store_stats stats;
    /* of the thread */
    struct click_block block;
    struct buf out;
    int64_t last_ns, next_retention;
};

static void pause_ms(int64_t ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * NS_PER_MS};

    nanosleep(&t, NULL);
}

/* --- the queue --- */

static void refuse(struct click_writer *w, struct ack *ack)
{
    char message[256];

    pthread_mutex_lock(&w->lock);
    snprintf(message, sizeof message, "%s", w->away ? w->problem : "too much is waiting to be written to ClickHouse");
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
    full = w->away || (w->bytes && w->bytes + size > w->max_bytes);
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
    uint64_t samples = 0;

    pthread_mutex_lock(&w->lock);
    while (!w->first && !w->stop) {
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 60;
        if (pthread_cond_timedwait(&w->wake, &w->lock, &until) == ETIMEDOUT)
            break; /* retention may be due */
    }
    while (!w->stop && !w->c->config.manual && w->samples < LINGER_SAMPLES &&
           clock_mono() - w->last_ns < LINGER_MS * NS_PER_MS) {
        pthread_mutex_unlock(&w->lock);
        pause_ms(10);
        pthread_mutex_lock(&w->lock);
    }
    group = w->first;
    for (struct click_job *j = group; j && (!last || samples + j->batch->n_samples <= GROUP_SAMPLES); j = j->next) {
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

/* Completes the acks of a group with its results or, with a message, as failed; they are NULL afterwards. */
static void complete(struct click_job *group, enum sink_status status, const char *message)
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

static void free_group(struct click_job *group)
{
    while (group) {
        struct click_job *next = group->next;

        batch_unref(group->batch);
        mem_free(group);
        group = next;
    }
}

/* --- inserting --- */

static int insert(struct click_writer *w, struct click_rows *rows, int *ret_code, struct err *e)
{
    _cleanup_(buf_done) struct buf sql = BUF_INIT, settings = BUF_INIT;
    const struct click_url *u = &w->c->http.url;
    struct click_call call = {0};
    int r;

    buf_reset(&w->out);
    r = click_rows_encode(rows, &w->out);
    buf_printf(&sql, "INSERT INTO %s FORMAT Native", rows->def->name);
    if (*u->cluster)
        buf_printf(&settings, "insert_distributed_sync=1&insert_quorum=%u", u->quorum > 1 ? u->quorum : 0);
    if (r == 0)
        r = buf_error(&settings) ? buf_error(&settings) : buf_error(&sql);
    if (r < 0)
        return err_set(e, r, "out of memory");
    call.data = buf_str(&w->out);
    call.settings = buf_cstr(&settings);
    r = click_send(&w->c->http, buf_str(&sql), &call, NULL, e);
    *ret_code = call.code;
    return r;
}

/* Inserts the tables from *at on. */
static int insert_all(struct click_writer *w, int *at, int *ret_code, struct err *e)
{
    int r = 0;

    for (; *at < CLICK_TABLES; ++*at) {
        if (w->block.rows[*at].n)
            r = insert(w, &w->block.rows[*at], ret_code, e);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Whether the server will never accept the block: it cannot be parsed, or a table has other columns. */
static bool is_final(int r, int code)
{
    return r == -EREMOTEIO && ((code >= 6 && code <= 8) || code == 16 || (code >= 26 && code <= 28) || code == 33 ||
                               code == 53 || code == 62 || code == 117);
}

static void set_away(struct click_writer *w, const char *problem)
{
    pthread_mutex_lock(&w->lock);
    if (problem && !w->away && w->c->config.tell)
        w->c->config.tell(w->c->config.tell_ctx, problem);
    w->away = problem != NULL;
    snprintf(w->problem, sizeof w->problem, "%.200s", problem ? problem : "");
    pthread_mutex_unlock(&w->lock);
}

/* What waits in the queue is refused as well: it would wait for as long as the cluster is away. */
static void refuse_queue(struct click_writer *w, const char *problem)
{
    struct click_job *all;

    pthread_mutex_lock(&w->lock);
    all = w->first;
    w->first = NULL;
    w->end = &w->first;
    w->bytes = w->samples = 0;
    pthread_mutex_unlock(&w->lock);
    complete(all, SINK_UNAVAILABLE, problem);
    free_group(all);
}

static bool should_stop(struct click_writer *w, int64_t *since)
{
    bool stop;

    pthread_mutex_lock(&w->lock);
    stop = w->stop;
    pthread_mutex_unlock(&w->lock);
    if (!stop)
        return false;
    if (!*since)
        *since = clock_mono();
    return clock_mono() - *since > CLOSE_MS * NS_PER_MS;
}

/* Stores the block, however long it takes. */
static void store_group(struct click_writer *w, struct click_job *group)
{
    int at = 0, code = 0, wait = RETRY_MIN_MS;
    int64_t since = 0;
    struct err e = {0};
    int r;

    while ((r = insert_all(w, &at, &code, &e)) < 0) {
        set_away(w, e.message);
        if (is_final(r, code)) {
            complete(group, SINK_INTERNAL, e.message);
            click_block_forget(&w->block);
            break;
        }
        complete(group, SINK_UNAVAILABLE, e.message);
        refuse_queue(w, e.message);
        if (should_stop(w, &since))
            break;
        pause_ms(wait);
        wait = MIN(wait * 2, RETRY_MAX_MS);
        if (since)
            wait = RETRY_MIN_MS;
    }
    pthread_mutex_lock(&w->lock);
    if (r == 0) {
        w->stats.profiles += w->block.profiles;
        w->stats.samples += w->block.samples;
        w->stats.duplicates += w->block.duplicates;
        w->stats.flushes++;
    }
    for (struct click_job *j = group; j; j = j->next)
        w->stats.rejected += j->result.rejected;
    pthread_mutex_unlock(&w->lock);
    set_away(w, NULL);
    if (r == 0)
        complete(group, SINK_OK, NULL);
}

static int make_block(struct click_writer *w, struct click_job *group)
{
    int r = 0;

    for (struct click_job *j = group; r == 0 && j; j = j->next) {
        struct sink_context ctx = {.tenant = j->tenant, .received_ns = j->received_ns, .cumulative = j->cumulative};

        r = click_block_add(&w->block, j->batch, &ctx, click_now(w->c), &j->result);
    }
    return r;
}

static bool has_ended(struct click_writer *w)
{
    bool ended;

    pthread_mutex_lock(&w->lock);
    ended = w->stop && !w->first;
    pthread_mutex_unlock(&w->lock);
    return ended;
}

static void *run(void *arg)
{
    struct click_writer *w = arg;
    struct click_job *group;

    while ((group = take_group(w)) || !has_ended(w)) {
        if (!w->c->config.manual && clock_mono() > w->next_retention) {
            struct err e = {0};

            if (click_retain_now(w->c, false, &e) < 0 && w->c->config.tell)
                w->c->config.tell(w->c->config.tell_ctx, e.message);
            w->next_retention = clock_mono() + 3600 * NS_PER_S;
        }
        if (!group)
            continue;
        w->last_ns = clock_mono();
        if (make_block(w, group) < 0) { /* out of memory: nothing of the group is stored or remembered */
            click_block_done(&w->block);
            click_block_init(&w->block, &w->c->config, &w->c->limits);
            complete(group, SINK_UNAVAILABLE, "out of memory");
        } else {
            store_group(w, group);
            click_block_reset(&w->block);
        }
        free_group(group);
    }
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

int click_writer_new(struct click *c, struct click_writer **ret, struct err *e)
{
    struct click_writer *w = mem_zalloc(sizeof *w);
    int r;

    if (!w)
        return err_set(e, -ENOMEM, "out of memory");
    w->c = c;
    w->end = &w->first;
    w->max_bytes = c->config.memory ? c->config.memory : 64 << 20;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    click_block_init(&w->block, &c->config, &c->limits);
    r = load_keys(w, e);
    if (r == 0)
        r = thread_start(&w->thread, "clickhouse", run, w, e);
    if (r < 0) {
        click_block_done(&w->block);
        mem_free(w);
        return r;
    }
    *ret = w;
    return 0;
}

void click_writer_free(struct click_writer *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    click_block_done(&w->block);
    buf_done(&w->out);
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
    snprintf(ret->problem, sizeof ret->problem, "%s", w->problem);
    pthread_mutex_unlock(&w->lock);
}
