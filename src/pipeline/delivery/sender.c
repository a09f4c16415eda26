/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start and stop of a sender, its intake and its pump: see sender.h. Intake runs on any thread and passes parcels to
 * the queue; everything else runs on the loop's thread. The main thread moves the sender from state to state
 * (sender_state.h).
 */
#include "pipeline/delivery/sender.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/qlog.h"
#include "base/thread.h"
#include "model/batch.h"
#include "pipeline/delivery/sender_state.h"
#include "pipeline/graph/host.h"
#include "pipeline/graph/storage.h"

enum { UNQUEUED_MAX = 64, STOP_S = 30 };

/* --- intake, from any thread --- */

static uint32_t items_of(struct payload data)
{
    return data.batch ? data.batch->n_samples : data.blob->items;
}

static int64_t size_of(const struct sender *s, struct payload data)
{
    const struct batch *b = data.batch;

    if (s->sizer == 1)
        return items_of(data);
    if (s->sizer == 2)
        return b ? (int64_t) (b->input_size ? b->input_size : batch_memory(b)) : (int64_t) data.blob->n;
    return 1;
}

/* Batches wait in memory in encoded form (less than half of a batch's memory, and encoded while it is in the cache),
 * unless they must be merged or split later. */
static void keep_batch(struct sender *s, struct parcel *p, struct batch *b)
{
    if (!s->queue->persistent && !s->batcher && s->a.queue->enabled) {
        if (s->a.ops->encode(s->a.arg, b, &p->body, NULL) == 0 &&
            (!s->encoding.max_body || p->body.n <= s->encoding.max_body)) {
            p->json = s->a.json;
            return;
        }
        buf_done(&p->body);
    }
    p->work.batch = batch_ref(b);
}

static void refuse(struct sender *s, int r, uint32_t items, struct ack *ack)
{
    uint64_t held;

    metric_add(s->enqueue_failed, items);
    if (r == -ENOSPC && log_limited(&s->log_full, 10 * NS_PER_S, &held))
        log_warn("%s: sending queue is full: %lld", s->id, (long long) s->a.queue->queue_size);
    if (r == -EAGAIN)
        ack_fail(ack, SINK_UNAVAILABLE, NS_PER_S, "the sending queue is busy");
    else
        ack_fail(ack, SINK_UNAVAILABLE, 0, "%s",
                 r == -ENOSPC   ? "sending queue is full"
                 : r == -ENOMEM ? "out of memory"
                                : "shutting down");
}

static void consume(struct sink *sink, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    struct sender *s = container_of(sink, struct sender, sink);
    uint32_t items = items_of(data);
    struct parcel *p = NULL;
    int r = s->stopping ? -ESHUTDOWN : parcel_new(&p);

    if (r == 0) {
        p->work.ack = ack;
        p->work.blob = data.blob ? blob_ref(data.blob) : NULL;
        p->items = items;
        p->size = size_of(s, data);
        context_keep(&p->work.kept, ctx);
        if (data.batch)
            keep_batch(s, p, data.batch);
        r = s->queue->ops->put(s->queue, p);
    }
    if (r < 0) {
        parcel_free(p);
        refuse(s, r, items, ack);
    }
}

static void wake_loop(void *arg)
{
    struct sender *s = arg;

    if (s->loop && !atomic_exchange(&s->woken, true))
        loop_post(s->loop, &s->wake);
}

/* --- states --- */

static void set_state(struct sender *s, enum sender_state state)
{
    pthread_mutex_lock(&s->lock);
    s->state = state;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* Loop thread: leaves a state that the main thread waits for. */
static void leave_state(struct sender *s, enum sender_state from, enum sender_state to)
{
    pthread_mutex_lock(&s->lock);
    if (s->state == from) {
        s->state = to;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
}

/* Main thread: enters a state, runs its step on the loop, and waits until the loop leaves it. Returns the state
 * afterwards, which is still the same one if STOP_S seconds have passed. */
static enum sender_state step(struct sender *s, enum sender_state state, void (*run)(struct loop_call *c))
{
    int64_t until = clock_mono() + STOP_S * NS_PER_S;
    enum sender_state now;
    int r = 0;

    set_state(s, state);
    s->step = (struct loop_call){.run = run};
    loop_post(s->loop, &s->step);
    pthread_mutex_lock(&s->lock);
    while (s->state == state && r == 0)
        r = thread_wait(&s->changed, &s->lock, until);
    now = s->state;
    pthread_mutex_unlock(&s->lock);
    return now;
}

/* --- the pump --- */

/* Takes one parcel out of the queue and starts to send or collect it. False if there is none at present. */
static bool take_one(struct sender *s)
{
    struct parcel *p = NULL;
    struct err e = {0};
    uint64_t held;
    int r = s->queue->ops->take(s->queue, &p, &e);

    if (r < 0) {
        if (log_limited(&s->log_queue, 10 * NS_PER_S, &held))
            log_error("%s: %s", s->id, err_message(&e, r));
        loop_timer_set(s->loop, &s->pump_timer, clock_mono() + NS_PER_S);
    }
    if (r <= 0)
        return false;
    if (s->batcher)
        sender_collect(s, p);
    else
        sender_ship(s, p);
    return true;
}

static void maybe_drained(struct sender *s)
{
    if (s->draining && !s->n_active && (s->queue->persistent || !s->queue->ops->size(s->queue)))
        leave_state(s, SENDER_DRAINING, SENDER_DRAINED);
}

/* Not re-entrant: an attempt may end at once. */
void sender_pump(struct sender *s)
{
    s->again = true;
    if (s->pumping)
        return;
    s->pumping = true;
    while (s->again) {
        s->again = false;
        while (s->n_active < s->max_active && take_one(s))
            ;
        if (s->draining && s->batcher)
            sender_flush(s);
    }
    s->pumping = false;
    maybe_drained(s);
}

static void woken(struct loop_call *c)
{
    struct sender *s = container_of(c, struct sender, wake);

    s->woken = false;
    sender_pump(s);
}

static void pump_fire(struct loop_timer *t)
{
    sender_pump(container_of(t, struct sender, pump_timer));
}

/* --- steps on the loop --- */

static void open_on_loop(struct loop_call *c)
{
    struct sender *s = container_of(c, struct sender, step);
    int r = s->a.ops->open ? s->a.ops->open(s->a.arg, s->loop, &s->open_error) : 0;

    if (r < 0)
        err_set(&s->open_error, r, "%s", err_message(&s->open_error, r));
    leave_state(s, SENDER_OPENING, r < 0 ? SENDER_FAILED : SENDER_RUNNING);
    if (r == 0)
        sender_pump(s);
}

/* Returns collected parcels of a log to it: their records are still open. */
static void give_back_collected(struct sender *s)
{
    struct work *w = s->batcher ? batcher_take(s->batcher) : NULL;

    while (w) {
        struct work *next = batcher_next(w);

        sender_give_back(s, parcel_of(w), "shutting down");
        w = next;
    }
}

static void drain_on_loop(struct loop_call *c)
{
    struct sender *s = container_of(c, struct sender, step);

    s->draining = true;
    s->queue->ops->drain(s->queue);
    loop_timer_cancel(&s->flush_timer);
    if (s->queue->persistent)
        give_back_collected(s);
    sender_retry_now(s);
    sender_pump(s);
}

static void close_on_loop(struct loop_call *c)
{
    struct sender *s = container_of(c, struct sender, step);
    struct parcel *next;

    s->draining = true;
    s->queue->ops->drain(s->queue);
    for (struct parcel *p = s->active; p; p = next) {
        next = p->next;
        if (p->state != PARCEL_SENDING) /* the transport reports the result of these when it closes */
            sender_give_back(s, p, "shutting down");
    }
    loop_timer_cancel(&s->flush_timer);
    loop_timer_cancel(&s->pump_timer);
    s->max_active = 0;
    if (s->a.ops->close)
        s->a.ops->close(s->a.arg);
    loop_timer_cancel(&s->drop_timer);
    leave_state(s, SENDER_CLOSING, SENDER_CLOSED);
}

/* --- life --- */

int sender_start(struct sender *s, struct err *e)
{
    char name[16];
    int r;

    snprintf(name, sizeof name, "%s", s->id);
    r = loop_group_new(1, name, &s->group, e);
    if (r < 0)
        return r;
    s->loop = loop_group_at(s->group, 0);
    if (step(s, SENDER_OPENING, open_on_loop) != SENDER_RUNNING)
        return err_set(e, s->open_error.code ? s->open_error.code : -ETIMEDOUT, "cannot start: %s",
                       err_message(&s->open_error, -ETIMEDOUT));
    return s->queue->ops->start(s->queue, e);
}

void sender_stop(struct sender *s)
{
    if (!s->loop)
        return;
    s->stopping = true;
    s->queue->ops->close(s->queue);
    if (s->state == SENDER_RUNNING) {
        if (step(s, SENDER_DRAINING, drain_on_loop) == SENDER_DRAINING)
            log_warn("%s: the queue could not be drained within %d s; giving up", s->id, STOP_S);
        step(s, SENDER_CLOSING, close_on_loop);
    }
    loop_group_free(s->group);
    s->group = NULL;
    s->loop = NULL;
}

/* Counts and drops what a memory queue still holds. */
static void drop_queued(struct sender *s)
{
    struct parcel *p;

    give_back_collected(s);
    while (s->active)
        sender_give_back(s, s->active, "shutting down");
    while (!s->queue->persistent && s->queue->ops->take(s->queue, &p, NULL) == 1)
        sender_give_back(s, p, "shutting down");
}

void sender_free(struct sender *s)
{
    if (!s)
        return;
    sender_stop(s);
    s->queue_metric->read = NULL;
    if (s->queue) {
        s->queue->ops->drain(s->queue);
        drop_queued(s);
        s->queue->ops->free(s->queue);
    }
    sender_drop_fire(&s->drop_timer);
    batcher_free(s->batcher);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

static int64_t read_queue_size(struct metric *m)
{
    struct sender *s = m->arg;

    return s->queue ? s->queue->ops->size(s->queue) : 0;
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
        metrics_add(m, METRIC_COUNTER, enqueue[s->signal], "Items refused by the queue", "exporter=\"%s\"", s->id);
    s->lost = metrics_add(m, METRIC_COUNTER, "wick_exporter_queue_lost_records",
                          "Damaged or missing records of the queue's log", "exporter=\"%s\",data_type=\"%s\"", s->id,
                          signal_names[s->signal]);
    s->in_flight = metrics_add(m, METRIC_GAUGE, "otelcol_exporter_in_flight_requests", "Requests in flight",
                               "exporter=\"%s\",data_type=\"%s\"", s->id, signal_names[s->signal]);
    x = metrics_add(m, METRIC_GAUGE, "otelcol_exporter_queue_size", "Current size of the sending queue",
                    "exporter=\"%s\",data_type=\"%s\"", s->id, signal_names[s->signal]);
    x->arg = s;
    x->read = read_queue_size;
    s->queue_metric = x;
    x = metrics_add(m, METRIC_GAUGE, "otelcol_exporter_queue_capacity", "Capacity of the sending queue",
                    "exporter=\"%s\",data_type=\"%s\"", s->id, signal_names[s->signal]);
    metric_set(x, s->a.queue->enabled ? s->a.queue->queue_size : 0);
}

static int make_batcher(struct sender *s)
{
    const struct queue_batch_config *c = &s->a.queue->batch;
    struct batch_settings b = {.timeout = c->flush_timeout};

    if (!s->a.queue->has_batch && !s->a.component->batch)
        return 0;
    if (!s->a.queue->has_batch) {
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
    struct log_queue_args a = {.config = s->a.queue,
                               .ops = s->a.ops,
                               .ops_arg = s->a.arg,
                               .json = s->a.json,
                               .id = s->id,
                               .enqueue_failed = s->enqueue_failed};
    struct instance *ext;
    int r = host_extension(s->a.component->host, s->a.queue->storage, "storage", &ext, e);

    if (r == 0)
        r = storage_open_log(ext, s->id, s->signal, &watch, &a.log, e);
    if (r < 0)
        return r;
    r = log_queue_new(&a, &s->queue);
    if (r < 0)
        qlog_close(a.log);
    return r;
}

static int make_queue(struct sender *s, struct err *e)
{
    int r = s->a.queue->enabled && s->a.queue->storage ? open_log(s, e) : memory_queue_new(s->a.queue, &s->queue);

    if (r < 0)
        return r;
    s->queue->wake = wake_loop;
    s->queue->arg = s;
    s->max_elapsed_time = s->a.retry->max_elapsed_time;
    if (s->queue->persistent && !s->a.retry->has_max_elapsed_time)
        s->max_elapsed_time = 0;
    return 0;
}

static void init(struct sender *s, const struct sender_args *a)
{

    s->a = *a;
    s->id = a->component->id;
    s->signal = a->component->signal;
    s->sizer = a->queue->sizer;
    s->encoding = (struct parcel_encoding){.ops = a->ops,
                                           .arg = a->arg,
                                           .max_body = a->max_body,
                                           .json = a->json,
                                           .profiles = s->signal == SIGNAL_PROFILES};
    s->sink.consume = consume;
    s->flush_timer.fire = sender_flush_fire;
    s->pump_timer.fire = pump_fire;
    s->drop_timer.fire = sender_drop_fire;
    s->wake.run = woken;
    s->max_active = a->queue->enabled ? (unsigned) MIN(a->queue->num_consumers, 1000) : UNQUEUED_MAX;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
}

int sender_new(const struct sender_args *a, struct sender **ret, struct err *e)
{
    struct sender *s = mem_zalloc(sizeof *s);
    int r = 0;

    if (!s)
        return -ENOMEM;
    init(s, a);
    add_metrics(s);
    if (s->signal == SIGNAL_PROFILES)
        r = make_batcher(s);
    if (r == 0)
        r = make_queue(s, e);
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
