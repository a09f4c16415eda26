/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `batch`: collects batches and passes them on as larger ones with merged dictionaries, from a thread of its own. It
 * acknowledges a batch when it has accepted it, like the Collector (before a persistent queue it is left out: flow.h).
 * While the next component refuses with a retryable error, this waits, and senders wait for their acknowledgement.
 * Batches that cannot be merged are passed on one by one.
 */
#include "pipeline/processors/batch_processor.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/batch.h"
#include "pipeline/delivery/batcher.h"
#include "pipeline/graph/host.h"

enum { WAITING_MAX = 64 << 20 };

struct batch_config {
    struct batch_settings settings;
};

struct batch_processor {
    struct instance instance;
    struct worker worker;
    struct sink sink;
    struct sink *next;
    struct batcher *batcher;
    struct metric *sent_by_size, *sent_by_time, *dropped;
};

static const struct option options[] = {
    {"timeout", OPT_DURATION, offsetof(struct batch_config, settings.timeout), "200ms",
     "pass a batch on after this time, whatever its size; 0: immediately"},
    {"send_batch_size", OPT_INT, offsetof(struct batch_config, settings.send_batch_size), "8192",
     "pass a batch on when it has this many samples"},
    {"send_batch_max_size", OPT_INT, offsetof(struct batch_config, settings.send_batch_max_size), "0",
     "maximum number of samples in a batch; 0: no limit"},
    {"metadata_keys", OPT_IGNORED, 0, NULL, "batches are not partitioned by metadata"},
    {"metadata_cardinality_limit", OPT_IGNORED, 0, NULL, "see metadata_keys"},
    {0},
};

static void pause_ns(int64_t ns)
{
    struct timespec t = {ns / NS_PER_S, ns % NS_PER_S};

    while (nanosleep(&t, &t) < 0 && errno == EINTR)
        ;
}

/* Passes a batch on, repeatedly until it is accepted or refused permanently. While shutting down there is no second
 * attempt. */
static void hand_on(struct batch_processor *p, struct batch *x, const struct sink_context *ctx)
{
    int64_t wait = 50 * NS_PER_MS;

    for (;;) {
        struct ack_result r;

        sink_consume_wait(p->next, x, ctx, &r);
        if (r.status == SINK_OK)
            return;
        if (!sink_status_retryable(&r) || p->worker.stopping) {
            metric_add(p->dropped, x->n_samples);
            log_error("%s: dropped %u samples: %s", p->instance.id, x->n_samples, r.message);
            return;
        }
        pause_ns(wait);
        wait = MIN(wait * 2, 2 * NS_PER_S);
    }
}

static void flush(struct batch_processor *p, struct metric *why)
{
    struct work *list = batcher_take(p->batcher);
    struct batch **parts = NULL;
    uint32_t n = 0;
    struct err e = {0};
    int r;

    if (!list)
        return;
    metric_add(why, 1);
    r = batcher_merge(p->batcher, list, &parts, &n, &e);
    if (r < 0)
        log_warn("%s: passing batches on without merging them: %s", p->instance.id, err_message(&e, r));
    for (uint32_t i = 0; i < n; i++)
        hand_on(p, parts[i], &list->kept.ctx);
    while (list) {
        struct work *next = batcher_next(list);

        if (r < 0)
            hand_on(p, list->batch, &list->kept.ctx);
        work_free(list);
        list = next;
    }
    batcher_parts_free(parts, n);
}

static void handle(struct worker *wk, struct work *w, bool more)
{
    struct batch_processor *p = container_of(wk, struct batch_processor, worker);
    int64_t now = clock_mono();

    (void) more;
    if (batcher_must_flush(p->batcher, w))
        flush(p, p->sent_by_time);
    ack_ok(TAKE(w->ack));
    batcher_add(p->batcher, w, now);
    if (batcher_ready(p->batcher, now))
        flush(p, p->sent_by_size);
}

static int64_t timeout(struct worker *wk)
{
    struct batch_processor *p = container_of(wk, struct batch_processor, worker);
    int64_t at = batcher_deadline(p->batcher), left = at == INT64_MAX ? -1 : at - clock_mono();

    return at == INT64_MAX ? -1 : MAX(left, 0);
}

static void idle(struct worker *wk)
{
    struct batch_processor *p = container_of(wk, struct batch_processor, worker);

    if (batcher_ready(p->batcher, clock_mono()))
        flush(p, p->sent_by_time);
}

static void last(struct worker *wk)
{
    struct batch_processor *p = container_of(wk, struct batch_processor, worker);

    flush(p, p->sent_by_time);
}

static void consume(struct sink *s, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    struct batch_processor *p = container_of(s, struct batch_processor, sink);

    worker_submit(&p->worker, data, ctx, ack);
}

static int start(struct instance *i, struct err *e)
{
    return worker_start(&container_of(i, struct batch_processor, instance)->worker, e);
}

static void stop(struct instance *i)
{
    worker_stop(&container_of(i, struct batch_processor, instance)->worker);
}

static void free_instance(struct instance *i)
{
    struct batch_processor *p = container_of(i, struct batch_processor, instance);

    worker_done(&p->worker);
    batcher_free(p->batcher);
    mem_free(p);
}

static int create(const struct component_args *args, struct instance **ret, struct err *e)
{
    const struct batch_config *c = args->config;
    struct batch_processor *p = mem_zalloc(sizeof *p);
    struct metrics *m = args->host->metrics;
    int r;

    if (!p)
        return -ENOMEM;
    r = worker_init(&p->worker, "batch", WAITING_MAX);
    if (r < 0) {
        mem_free(p);
        return err_set(e, r, "cannot create a queue: %m");
    }
    p->worker.handle = handle;
    p->worker.timeout = timeout;
    p->worker.idle = idle;
    p->worker.last = last;
    p->sink.consume = consume;
    p->next = args->next[SIGNAL_PROFILES];
    p->instance =
        (struct instance){.id = args->id, .sink = &p->sink, .start = start, .stop = stop, .free = free_instance};
    p->sent_by_size = metrics_add(m, METRIC_COUNTER, "otelcol_processor_batch_batch_size_trigger_send",
                                  "Batches sent because of their size", "processor=\"%s\"", args->id);
    p->sent_by_time = metrics_add(m, METRIC_COUNTER, "otelcol_processor_batch_timeout_trigger_send",
                                  "Batches sent because of the timeout", "processor=\"%s\"", args->id);
    p->dropped = metrics_add(m, METRIC_COUNTER, "wick_processor_batch_dropped_samples",
                             "Samples refused by the next component", "processor=\"%s\"", args->id);
    r = batcher_new(&c->settings, &p->batcher);
    if (r < 0) {
        free_instance(&p->instance);
        return r;
    }
    *ret = &p->instance;
    return 0;
}

static int check(const void *config, const struct conf_node *node, struct err *e)
{
    const struct batch_config *c = config;

    if (c->settings.timeout < 0 || c->settings.send_batch_size < 0 || c->settings.send_batch_max_size < 0)
        return conf_error(node, -EINVAL, e, "timeout and sizes must not be negative");
    if (c->settings.send_batch_max_size && c->settings.send_batch_max_size < c->settings.send_batch_size)
        return conf_error(node, -EINVAL, e, "send_batch_max_size must be greater or equal to send_batch_size");
    return 0;
}

const struct component component_batch_processor = {
    .kind = COMPONENT_PROCESSOR,
    .name = "batch",
    .help = "collects profiles into larger batches with merged dictionaries",
    .signals = ONLY_PROFILES,
    .options = options,
    .config_size = sizeof(struct batch_config),
    .check = check,
    .create = create,
};
