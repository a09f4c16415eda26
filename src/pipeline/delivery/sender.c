/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See sender.h. Everything below is on the loop's thread but consume(), which posts an entry to it (or to the log writer),
 * and the writer. A job is one unit of sending: one entry, or a batch of several; it holds its acknowledgements, its place
 * in the log, and the pieces it was cut into.
 */
#include "pipeline/delivery/sender.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "codec/otlp.h"
#include "model/batch.h"
#include "pipeline/delivery/job.h"
#include "pipeline/delivery/qlog.h"
#include "pipeline/delivery/sender_state.h"
#include "pipeline/graph/host.h"
#include "pipeline/graph/storage.h"

enum { WRITER_LIMIT = 64 << 20, WRITE_AT = 4 << 20, SYNC_JOBS = 64, STOP_S = 30 };

/* A batch on its way into the loop, waiting in the memory queue. */
struct entry {
    struct loop_call call;
    struct sender *s;
    struct entry *next;
    struct batch *batch;
    struct blob *blob;
    struct buf body; /* the batch, encoded: less than half of its memory, and made while it is in the cache */
    uint32_t items;
    struct ack *ack; /* NULL when it was acknowledged already */
    bool ack_on_start;
    int64_t size; /* by the queue's sizer */
    struct kept_context kept;
};

/* --- batching --- */

static void emit(void *arg, struct batch *x, const struct sink_context *ctx)
{
    struct sender *s = arg;
    struct job *j = TAKE(s->collecting);

    (void) ctx;
    if (!j && job_new(&j) < 0) /* a second part: its acknowledgements went with the first */
        return;
    j->first_seq = s->flush_seq; /* of each part: the log keeps the range until the last of them is sent */
    job_add_batch(j, x);
    sender_run_job(s, j);
}

static void flush_batch(struct sender *s)
{
    struct err e = {0};
    int r;

    loop_timer_cancel(&s->flush_timer);
    if (batcher_empty(s->batcher))
        return;
    s->flush_seq = s->collecting ? s->collecting->first_seq : 0;
    r = batcher_flush(s->batcher, emit, s, &e);
    if (r < 0 && s->collecting) {
        struct job *j = TAKE(s->collecting);

        job_ack(j, &(struct ack_result){.status = SINK_UNAVAILABLE});
        job_free(j);
        log_error("%s: a batch is lost: %s", s->id, err_message(&e, r));
    }
}

static void flush_fire(struct loop_timer *t)
{
    struct sender *s = container_of(t, struct sender, flush_timer);

    flush_batch(s);
    sender_pump(s);
}

static void collect(struct sender *s, struct batch *b, const struct sink_context *ctx, struct ack *ack, uint64_t seq)
{
    int64_t now = clock_mono();

    if (batcher_must_flush(s->batcher, ctx))
        flush_batch(s);
    if (!s->collecting && job_new(&s->collecting) < 0) {
        ack_fail(ack, SINK_UNAVAILABLE, 0, "no memory");
        return;
    }
    if (batcher_add(s->batcher, b, ctx, now) < 0) {
        ack_fail(ack, SINK_UNAVAILABLE, 0, "no memory");
        return;
    }
    if (job_add_ack(s->collecting, ack) < 0)
        ack_fail(ack, SINK_UNAVAILABLE, 0, "no memory");
    if (!s->collecting->first_seq)
        s->collecting->first_seq = seq;
    if (batcher_ready(s->batcher, now) || s->draining)
        flush_batch(s);
    else
        loop_timer_set(s->loop, &s->flush_timer, batcher_deadline(s->batcher));
}

/* --- the memory queue --- */

static void entry_free(struct entry *x)
{
    batch_unref(x->batch);
    blob_unref(x->blob);
    buf_done(&x->body);
    mem_free(x);
}

static void take_entry(struct sender *s)
{
    struct entry *x = s->first;
    struct job *j = NULL;

    s->first = x->next;
    if (!s->first)
        s->last = &s->first;
    atomic_fetch_sub(&s->queued, x->size);
    if (x->ack_on_start)
        ack_ok(TAKE(x->ack));
    if (s->batcher && x->batch) {
        collect(s, x->batch, &x->kept.ctx, x->ack, 0);
    } else if (job_new(&j) < 0 || job_add_ack(j, x->ack) < 0) {
        ack_fail(x->ack, SINK_UNAVAILABLE, 0, "no memory");
        job_free(j);
    } else {
        if (x->body.n)
            job_add_encoded(j, &x->body, s->a.json, x->items);
        else if (x->batch)
            job_add_batch(j, x->batch);
        else
            job_add_blob(j, x->blob);
        sender_run_job(s, j);
    }
    entry_free(x);
}

static void entry_arrives(struct loop_call *c)
{
    struct entry *x = container_of(c, struct entry, call);
    struct sender *s = x->s;

    x->next = NULL;
    *s->last = x;
    s->last = &x->next;
    sender_pump(s);
}

/* --- the log --- */

static int decode_record(struct sender *s, uint32_t kind, struct buf *record, struct batch **ret)
{
    struct err e = {0};
    int r = kind ? otlp_json_decode(record, NULL, ret, &e) : otlp_decode(record, NULL, ret, &e);

    if (r < 0)
        log_error("%s: a record of the queue's log cannot be read: %s", s->id, err_message(&e, r));
    return r;
}

/* One record out of the log into a job or the batcher. False when there is none. */
static bool take_record(struct sender *s)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    struct sink_context ctx = {.tenant = ""};
    struct job *j = NULL;
    struct err e = {0};
    struct qlog_entry rec;
    int r = qlog_read(s->log, &rec, &s->record, &e);

    if (r < 0)
        log_error("%s: %s", s->id, err_message(&e, r));
    if (r <= 0)
        return false;
    if (s->batcher && s->signal == SIGNAL_PROFILES) {
        if (decode_record(s, rec.json, &s->record, &b) == 0)
            collect(s, b, &ctx, NULL, rec.seq);
        return true;
    }
    if (job_new(&j) < 0)
        return false;
    j->first_seq = rec.seq;
    job_add_bytes(j, &s->record, rec.json, s->signal);
    sender_run_job(s, j);
    return true;
}

static void woken(struct loop_call *c)
{
    struct sender *s = container_of(c, struct sender, wake);

    s->woken = false;
    sender_pump(s);
}

static void wake_loop(struct sender *s)
{
    if (!atomic_exchange(&s->woken, true))
        loop_post(s->loop, &s->wake);
}

/* Writer's thread: everything put so far is written, then acknowledged. */
static void commit(struct sender *s)
{
    struct err e = {0};
    int r = qlog_commit(s->log, &e);

    if (r < 0)
        log_error("%s: %s", s->id, err_message(&e, r));
    while (s->unwritten) {
        struct work *w = s->unwritten;

        s->unwritten = w->item.next ? container_of(w->item.next, struct work, item) : NULL;
        if (r < 0)
            ack_fail(w->ack, SINK_UNAVAILABLE, 0, "%.200s", err_message(&e, r));
        else
            ack_ok(w->ack);
        work_free(w);
    }
    wake_loop(s);
}

static void write_work(struct worker *wk, struct work *w, bool more)
{
    struct sender *s = container_of(wk, struct sender, writer);
    _cleanup_(buf_done) struct buf body = BUF_INIT;
    struct err e = {0};
    int r = 0;

    if (w->batch)
        r = s->a.ops->encode(s->a.arg, w->batch, &body, &e);
    if (r == 0)
        r = w->batch ? qlog_put(s->log, s->a.json, w->batch->n_samples, body.p, body.n)
                     : qlog_put(s->log, w->blob->json, w->blob->items, w->blob->p, w->blob->n);
    if (r < 0) {
        metric_add(s->enqueue_failed, w->batch ? w->batch->n_samples : w->blob->items);
        if (r == -ENOSPC)
            ack_fail(w->ack, SINK_UNAVAILABLE, 5 * NS_PER_S, "the sending queue's storage is full");
        else
            ack_fail(w->ack, r == -EINVAL ? SINK_INVALID : SINK_UNAVAILABLE, 0, "cannot queue: %.180s",
                     err_message(&e, r));
        work_free(w);
    } else {
        w->item.next = s->unwritten ? &s->unwritten->item : NULL;
        s->unwritten = w;
    }
    if (!more || qlog_uncommitted(s->log) >= WRITE_AT)
        commit(s);
}

/* --- taking in, from any thread --- */

static int64_t size_of(const struct sender *s, const struct batch *b, const struct blob *blob)
{
    if (s->queue.sizer == 1)
        return b ? b->n_samples : blob->items;
    if (s->queue.sizer == 2)
        return b ? (int64_t) (b->input_size ? b->input_size : batch_memory(b)) : (int64_t) blob->n;
    return 1;
}

static void refuse_full(struct sender *s, uint32_t items, struct ack *ack)
{
    uint64_t held;

    metric_add(s->enqueue_failed, items);
    if (log_limited(&s->log_full, 10 * NS_PER_S, &held))
        log_warn("%s: sending queue is full: %lld", s->id, (long long) s->queue.queue_size);
    ack_fail(ack, SINK_UNAVAILABLE, 0, "sending queue is full");
}

/* What waits in a queue waits as bytes, unless batches of it are still to be joined or cut. */
static void keep_batch(struct sender *s, struct entry *x, struct batch *b)
{
    x->items = b->n_samples;
    if (s->batcher || !s->queue.enabled || s->a.ops->encode(s->a.arg, b, &x->body, NULL) < 0 ||
        (s->a.max_body && x->body.n > s->a.max_body)) {
        buf_done(&x->body);
        x->batch = batch_ref(b);
    }
}

static void take_in(struct sender *s, struct batch *b, struct blob *blob, const struct sink_context *ctx,
                    struct ack *ack)
{
    uint32_t items = b ? b->n_samples : blob->items;
    int64_t size = size_of(s, b, blob);
    bool full = s->queue.enabled && !s->log && s->queued + size > s->queue.queue_size;
    struct entry *x;

    if (s->stopping) {
        ack_fail(ack, SINK_UNAVAILABLE, 0, "shutting down");
        return;
    }
    if ((full && !s->queue.block_on_overflow) ||
        (s->log && qlog_waiting(s->log) >= (uint64_t) s->queue.queue_size && s->queue.sizer == 0)) {
        refuse_full(s, items, ack);
        return;
    }
    if (s->log) {
        worker_submit(&s->writer, b, blob, ctx, ack);
        return;
    }
    x = mem_zalloc(sizeof *x);
    if (!x) {
        ack_fail(ack, SINK_UNAVAILABLE, 0, "no memory");
        return;
    }
    x->call.run = entry_arrives;
    x->s = s;
    if (b)
        keep_batch(s, x, b);
    x->blob = blob ? blob_ref(blob) : NULL;
    x->size = size;
    x->ack = ack;
    x->ack_on_start = full && !s->queue.wait_for_result;
    context_keep(&x->kept, ctx);
    atomic_fetch_add(&s->queued, size);
    if (s->queue.enabled && !full && !s->queue.wait_for_result)
        ack_ok(TAKE(x->ack));
    if (loop_post(s->loop, &x->call) < 0) {
        ack_fail(x->ack, SINK_UNAVAILABLE, 0, "shutting down");
        entry_free(x);
    }
}

static void consume(struct sink *sink, struct batch *b, const struct sink_context *ctx, struct ack *ack)
{
    take_in(container_of(sink, struct sender, sink), b, NULL, ctx, ack);
}

static void consume_blob(struct blob_sink *sink, struct blob *b, const struct sink_context *ctx, struct ack *ack)
{
    take_in(container_of(sink, struct sender, blobs), NULL, b, ctx, ack);
}

/* --- the engine --- */

static void maybe_stopped(struct sender *s)
{
    if (!s->draining || s->told_stopped || s->n_jobs || s->first)
        return;
    s->told_stopped = true;
    sem_post(&s->stopped);
}

static bool take_one(struct sender *s)
{
    if (s->log)
        return !s->draining && take_record(s);
    if (!s->first)
        return false;
    take_entry(s);
    return true;
}

/* Starts jobs while there is something to send and room for more. Not re-entrant: an attempt may end at once. */
void sender_pump(struct sender *s)
{
    s->again = true;
    if (s->pumping)
        return;
    s->pumping = true;
    while (s->again) {
        s->again = false;
        while (s->n_jobs < s->max_jobs && take_one(s))
            ;
    }
    if (s->draining && s->batcher && !s->log)
        flush_batch(s);
    s->pumping = false;
    maybe_stopped(s);
}

static void drain(struct loop_call *c)
{
    struct sender *s = container_of(c, struct sender, stop_call);

    s->draining = true;
    sender_retry_now(s);
    sender_pump(s);
}

static void open_on_loop(struct loop_call *c)
{
    struct sender *s = container_of(c, struct sender, stop_call);
    struct err e = {0};
    int r = s->a.ops->open ? s->a.ops->open(s->a.arg, s->loop, &e) : 0;

    if (r < 0)
        log_error("%s: %s", s->id, err_message(&e, r));
    s->opened = r == 0;
    sem_post(&s->stopped);
    sender_pump(s);
}

static void close_on_loop(struct loop_call *c)
{
    struct sender *s = container_of(c, struct sender, stop_call);

    while (s->jobs) {
        struct ack_result r = {.status = SINK_UNAVAILABLE, .message = "shutting down"};

        if (s->jobs->sending)
            break; /* the transport answers these when it closes */
        sender_end_job(s, s->jobs, &r, true);
    }
    loop_timer_cancel(&s->flush_timer);
    if (s->opened && s->a.ops->close)
        s->a.ops->close(s->a.arg);
    sem_post(&s->stopped);
}

static bool wait_for(sem_t *sem, int seconds)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += seconds;
    while (sem_timedwait(sem, &t) < 0)
        if (errno != EINTR)
            return false;
    return true;
}

static int run_on_loop(struct sender *s, void (*run)(struct loop_call *c))
{
    s->stop_call = (struct loop_call){.run = run};
    return loop_post(s->loop, &s->stop_call);
}

int sender_start(struct sender *s, struct err *e)
{
    char name[16];
    int r;

    snprintf(name, sizeof name, "%s", s->id);
    r = loop_group_new(1, name, &s->group, e);
    if (r < 0)
        return r;
    s->loop = loop_group_at(s->group, 0);
    run_on_loop(s, open_on_loop);
    wait_for(&s->stopped, STOP_S);
    if (!s->opened)
        return err_set(e, -EIO, "cannot start; see the message before");
    return s->log ? worker_start(&s->writer, e) : 0;
}

void sender_stop(struct sender *s)
{
    if (!s->loop)
        return;
    s->stopping = true;
    if (s->has_writer)
        worker_stop(&s->writer);
    run_on_loop(s, drain);
    if (!wait_for(&s->stopped, STOP_S))
        log_warn("%s: gave up sending what is left after %d s", s->id, STOP_S);
    run_on_loop(s, close_on_loop);
    wait_for(&s->stopped, STOP_S);
    loop_group_free(s->group);
    s->group = NULL;
    s->loop = NULL;
}

void sender_free(struct sender *s)
{
    if (!s)
        return;
    sender_stop(s);
    while (s->first) {
        struct entry *x = s->first;

        s->first = x->next;
        ack_fail(x->ack, SINK_UNAVAILABLE, 0, "shutting down");
        entry_free(x);
    }
    while (s->jobs)
        sender_end_job(s, s->jobs, &(struct ack_result){.status = SINK_UNAVAILABLE, .message = "shutting down"}, true);
    job_free(s->collecting);
    batcher_free(s->batcher);
    if (s->has_writer)
        worker_done(&s->writer);
    qlog_close(s->log);
    buf_done(&s->record);
    sem_destroy(&s->stopped);
    mem_free(s);
}

static int64_t read_queue_size(struct metric *m)
{
    struct sender *s = m->arg;

    return s->log ? (int64_t) qlog_waiting(s->log) : s->queued;
}

static void add_metrics(struct sender *s)
{
    static const char *const sent[SIGNALS] = {"otelcol_exporter_sent_profile_samples", "otelcol_exporter_sent_spans",
                                              "otelcol_exporter_sent_metric_points",
                                              "otelcol_exporter_sent_log_records"};
    static const char *const failed[SIGNALS] = {
        "otelcol_exporter_send_failed_profile_samples", "otelcol_exporter_send_failed_spans",
        "otelcol_exporter_send_failed_metric_points", "otelcol_exporter_send_failed_log_records"};
    static const char *const enqueue[SIGNALS] = {
        "otelcol_exporter_enqueue_failed_profile_samples", "otelcol_exporter_enqueue_failed_spans",
        "otelcol_exporter_enqueue_failed_metric_points", "otelcol_exporter_enqueue_failed_log_records"};
    struct metrics *m = s->a.component->host->metrics;
    struct metric *x;

    s->sent = metrics_add(m, METRIC_COUNTER, sent[s->signal], "Items sent", "exporter=\"%s\"", s->id);
    s->failed =
        metrics_add(m, METRIC_COUNTER, failed[s->signal], "Items that could not be sent", "exporter=\"%s\"", s->id);
    s->enqueue_failed =
        metrics_add(m, METRIC_COUNTER, enqueue[s->signal], "Items that the queue refused", "exporter=\"%s\"", s->id);
    s->lost = metrics_add(m, METRIC_COUNTER, "wick_exporter_queue_lost_records",
                          "Records of the queue's log that were damaged or missing", "exporter=\"%s\",data_type=\"%s\"",
                          s->id, signal_names[s->signal]);
    s->in_flight = metrics_add(m, METRIC_GAUGE, "otelcol_exporter_in_flight_requests", "Requests under way",
                               "exporter=\"%s\",data_type=\"%s\"", s->id, signal_names[s->signal]);
    x = metrics_add(m, METRIC_GAUGE, "otelcol_exporter_queue_size", "What waits in the sending queue",
                    "exporter=\"%s\",data_type=\"%s\"", s->id, signal_names[s->signal]);
    x->arg = s;
    x->read = read_queue_size;
    x = metrics_add(m, METRIC_GAUGE, "otelcol_exporter_queue_capacity", "What may wait",
                    "exporter=\"%s\",data_type=\"%s\"", s->id, signal_names[s->signal]);
    metric_set(x, s->queue.enabled ? s->queue.queue_size : 0);
}

static int make_batcher(struct sender *s)
{
    const struct queue_batch_config *c = &s->queue.batch;
    struct batch_settings b = {.timeout = c->flush_timeout};

    if (!s->queue.has_batch && !s->a.component->batch)
        return 0;
    if (!s->queue.has_batch) {
        b = *s->a.component->batch;
    } else if (c->sizer == 1) {
        b.max_bytes = MAX(c->min_size, 1);
    } else {
        b.send_batch_size = c->min_size;
        b.send_batch_max_size = c->max_size;
    }
    return batcher_new(&b, &s->batcher);
}

static void on_damage(void *arg, uint64_t records, const char *message)
{
    struct sender *s = arg;

    metric_add(s->lost, (int64_t) records);
    log_warn("%s: %s", s->id, message);
}

static int open_log(struct sender *s, struct err *e)
{
    struct storage_watch watch = {on_damage, s};
    struct instance *ext;
    int r;

    if (!s->queue.enabled || !s->queue.storage)
        return 0;
    r = host_extension(s->a.component->host, s->queue.storage, "storage", &ext, e);
    if (r == 0)
        r = storage_open_log(ext, s->id, s->signal, &watch, &s->log, e);
    if (r == 0)
        r = worker_init(&s->writer, "queue-writer", WRITER_LIMIT);
    s->has_writer = r == 0;
    s->writer.handle = write_work;
    return r;
}

int sender_new(const struct sender_args *a, struct sender **ret, struct err *e)
{
    struct sender *s = mem_zalloc(sizeof *s);
    int r;

    if (!s)
        return -ENOMEM;
    s->a = *a;
    s->queue = *a->queue;
    s->id = a->component->id;
    s->signal = a->component->signal;
    s->sink.consume = consume;
    s->blobs.consume = consume_blob;
    s->last = &s->first;
    s->flush_timer.fire = flush_fire;
    s->wake.run = woken;
    s->max_jobs = s->queue.enabled ? (unsigned) MIN(s->queue.num_consumers, 1000) : SYNC_JOBS;
    sem_init(&s->stopped, 0, 0);
    add_metrics(s);
    r = make_batcher(s);
    if (r == 0)
        r = open_log(s, e);
    if (r < 0) {
        sender_free(s);
        return r;
    }
    s->a.component = NULL;
    *ret = s;
    return 0;
}

struct sink *sender_sink(struct sender *s)
{
    return &s->sink;
}

struct blob_sink *sender_blobs(struct sender *s)
{
    return &s->blobs;
}
