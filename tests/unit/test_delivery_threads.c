/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delivery as a whole, with a fake transport: two exporters, two signals, two threads that send. Every allocation, write,
 * sync and open fails in turn, and what was acknowledged must have been sent to both exporters, or be readable in their
 * logs after reopening. Under ThreadSanitizer too. WICK_DELIVERY_STEP=1 makes every call fail; by default every 13th does.
 */
#include <dirent.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/qlog.h"
#include "codec/otlp.h"
#include "model/builder.h"
#include "net/loop.h"
#include "pipeline/delivery/sender.h"
#include "pipeline/graph/fanout.h"
#include "pipeline/graph/host.h"
#include "tap.h"

enum { EXPORTERS = 2, FEEDERS = 2, ROUNDS = 3, SAMPLES = 4, IDS = FEEDERS * ROUNDS * SAMPLES };

/* --- the fake transport --- */

enum answer { ANSWER_OK, ANSWER_LATER_FIRST, ANSWER_NEVER_SECOND, ANSWER_AWAY };

struct transport {
    pthread_mutex_t lock;
    bool seen[2][IDS]; /* by signal: acknowledged to the sender */
    unsigned attempts;
    enum answer answer;
    struct loop *loop;
    struct loop_timer timer;
    struct send_request *waiting;
};

static int id_of(uint64_t value)
{
    return value >= 1 && value <= IDS ? (int) value - 1 : -1;
}

/* Marks the samples of a body; false when it cannot be read. */
static bool mark(bool seen[IDS], struct str body, bool blob)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;

    if (blob) {
        if (body.n == 1 && id_of((uint64_t) *body.p) >= 0)
            seen[id_of((uint64_t) *body.p)] = true;
        return true;
    }
    if (otlp_decode_borrowed(body.p, body.n, NULL, &b, NULL) < 0)
        return false;
    for (uint32_t i = 0; i < b->n_samples; i++)
        if (id_of((uint64_t) b->values[b->samples[i].values.off]) >= 0)
            seen[id_of((uint64_t) b->values[b->samples[i].values.off])] = true;
    return true;
}

static void answer(struct transport *t, struct send_request *rq)
{
    struct ack_result r = {.status = SINK_OK};
    bool blob = rq->body.n == 1;

    pthread_mutex_lock(&t->lock);
    t->attempts++;
    if (t->answer == ANSWER_AWAY || (t->answer == ANSWER_LATER_FIRST && t->attempts % 2))
        r.status = SINK_UNAVAILABLE;
    else if (t->answer == ANSWER_NEVER_SECOND && t->attempts == 2)
        r.status = SINK_INVALID;
    else if (!mark(t->seen[blob], rq->body, blob))
        r.status = SINK_UNAVAILABLE;
    pthread_mutex_unlock(&t->lock);
    sender_sent(rq, &r);
}

static void answer_later(struct loop_timer *timer)
{
    struct transport *t = container_of(timer, struct transport, timer);

    answer(t, TAKE(t->waiting));
}

/* Every other answer comes at once, the others a moment later. */
static void fake_send(void *arg, struct send_request *rq)
{
    struct transport *t = arg;

    if (t->waiting || t->attempts % 3 == 0) {
        answer(t, rq);
        return;
    }
    t->waiting = rq;
    t->timer.fire = answer_later;
    loop_timer_set(t->loop, &t->timer, clock_mono() + NS_PER_MS / 10);
}

static int fake_encode(void *arg, const struct batch *b, struct buf *out, struct err *e)
{
    (void) arg;
    return otlp_encode(b, NULL, out, e);
}

static int fake_open(void *arg, struct loop *l, struct err *e)
{
    (void) e;
    ((struct transport *) arg)->loop = l;
    return 0;
}

static void fake_close(void *arg)
{
    struct transport *t = arg;

    loop_timer_cancel(&t->timer);
    if (t->waiting)
        sender_sent(TAKE(t->waiting), &(struct ack_result){.status = SINK_UNAVAILABLE, .message = "closed"});
}

static const struct sender_ops fake_ops = {fake_encode, fake_send, fake_open, fake_close};

/* --- the world: a host with a storage extension, two exporters with a sender for each signal --- */

struct setup {
    const char *name;
    bool log, wait, batch, split, pieces;
    enum answer answer;
};

struct world {
    const struct setup *setup;
    struct host host;
    struct conf conf;
    struct instance *storage, *extensions[1];
    uint64_t config[64]; /* of file_storage */
    struct retry_config retry;
    struct queue_config queue;
    struct transport transport[EXPORTERS][2];
    struct sender *sender[EXPORTERS][2];
    struct fanout *profiles, *traces;
};

static char dir[64];

static void remove_tree(const char *path, int depth)
{
    DIR *d = opendir(path);
    char sub[400];

    for (struct dirent *f; d && (f = readdir(d));) {
        if (f->d_name[0] == '.' && (!f->d_name[1] || f->d_name[1] == '.'))
            continue;
        snprintf(sub, sizeof sub, "%s/%.100s", path, f->d_name);
        if (unlink(sub) < 0 && depth > 0)
            remove_tree(sub, depth - 1);
    }
    if (d)
        closedir(d);
    rmdir(path);
}

static int open_storage(struct world *w)
{
    const struct component *type = component_find(COMPONENT_EXTENSION, STR("file_storage"));
    struct component_args args = {.host = &w->host, .type = type, .id = "file_storage", .config = w->config};
    struct conf_node *node;
    char text[100];
    int r;

    conf_init(&w->conf);
    snprintf(text, sizeof text, "{directory: %s, fsync: true}", dir);
    ok(type->config_size <= sizeof w->config);
    r = conf_parse(&w->conf, str_from(text), "test", &node, NULL);
    if (r == 0)
        r = option_parse(&w->conf, type->options, node, w->config, NULL);
    if (r == 0)
        r = type->create(&args, &w->storage, NULL);
    if (r < 0)
        return r;
    instance_init(w->storage, &args);
    w->extensions[0] = w->storage;
    w->host.extensions = w->extensions;
    w->host.n_extensions = 1;
    return 0;
}

static int open_sender(struct world *w, int i, int k)
{
    static const char *const ids[EXPORTERS] = {"otlp/a", "otlp/b"};
    struct component_args c = {
        .host = &w->host, .id = ids[i], .signal = k ? SIGNAL_TRACES : SIGNAL_PROFILES, .pipeline = "p"};
    struct sender_args a = {.component = &c,
                            .retry = &w->retry,
                            .queue = &w->queue,
                            .timeout = NS_PER_S,
                            .max_body = w->setup->pieces ? 150 : 0,
                            .ops = &fake_ops,
                            .arg = &w->transport[i][k]};
    int r;

    pthread_mutex_init(&w->transport[i][k].lock, NULL);
    w->transport[i][k].answer = w->setup->answer;
    r = sender_new(&a, &w->sender[i][k], NULL);
    return r < 0 ? r : sender_start(w->sender[i][k], NULL);
}

static int world_open(struct world *w, const struct setup *s)
{
    struct sink *sinks[EXPORTERS];
    struct sink *blobs[EXPORTERS];
    int r;

    *w = (struct world){.setup = s};
    w->retry = (struct retry_config){.enabled = true,
                                     .initial_interval = NS_PER_MS,
                                     .max_interval = 5 * NS_PER_MS,
                                     .multiplier = 1.5,
                                     .randomization_factor = 0.5,
                                     .max_elapsed_time = s->log ? 1 : 0}; /* by default not applied to a log */
    w->queue = (struct queue_config){.enabled = true,
                                     .num_consumers = 3,
                                     .queue_size = 1000,
                                     .wait_for_result = s->wait,
                                     .storage = s->log ? "file_storage" : NULL,
                                     .has_batch = s->batch};
    w->queue.batch =
        (struct queue_batch_config){.flush_timeout = 2 * NS_PER_MS, .min_size = 6, .max_size = s->split ? 3 : 0};
    r = metrics_new(&w->host.metrics);
    if (r == 0)
        r = open_storage(w);
    for (int i = 0; i < EXPORTERS; i++)
        for (int k = 0; r == 0 && k < 2; k++)
            r = open_sender(w, i, k);
    for (int i = 0; r == 0 && i < EXPORTERS; i++) {
        sinks[i] = sender_sink(w->sender[i][0]);
        blobs[i] = sender_sink(w->sender[i][1]);
    }
    if (r == 0)
        r = fanout_new(sinks, EXPORTERS, &w->profiles);
    if (r == 0)
        r = fanout_new(blobs, EXPORTERS, &w->traces);
    return r;
}

static void world_close(struct world *w)
{
    for (int i = 0; i < EXPORTERS; i++)
        for (int k = 0; k < 2; k++)
            sender_free(w->sender[i][k]);
    fanout_free(w->profiles);
    fanout_free(w->traces);
    if (w->storage)
        w->storage->free(w->storage);
    conf_done(&w->conf);
    metrics_free(w->host.metrics);
}

/* --- feeding --- */

struct sent {
    struct ack ack;
    struct world *w;
    int first, n;
    bool blob;
    atomic_int calls;
    enum sink_status status;
};

static void on_ack(struct ack *a, const struct ack_result *r)
{
    struct sent *x = container_of(a, struct sent, ack);

    x->status = r->status;
    atomic_fetch_add(&x->calls, 1);
}

static int make_batch(int first, struct batch **ret)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    struct value_type type;
    int r = builder_new(NULL, &b);

    if (r < 0)
        return r;
    builder_resource(b);
    builder_resource_attr_str(b, STR("service.name"), STR("checkout"));
    type = (struct value_type){builder_string(b, STR("cpu")), builder_string(b, STR("nanoseconds"))};
    builder_profile(b, &type, 1);
    for (int i = 0; i < SAMPLES; i++) {
        char name[16];
        uint32_t fn, loc;

        snprintf(name, sizeof name, "work %d", i);
        fn = builder_function(b, &(struct function){.name = builder_string(b, str_from(name))});
        loc = builder_location(
            b, &(struct builder_location){.lines = &(struct line){.function = fn, .line = 1}, .n_lines = 1});
        builder_sample(b, &(struct builder_sample){
                              .stack = builder_stack(b, &loc, 1), .values = &(int64_t){first + i + 1}, .n_values = 1});
    }
    return builder_finish(b, ret, NULL);
}

struct feeder {
    struct world *w;
    pthread_t thread;
    int number;
    struct sent sent[ROUNDS * (1 + SAMPLES)];
    int n;
};

static struct sent *next_sent(struct feeder *f, int first, int n, bool blob)
{
    struct sent *x = &f->sent[f->n++];

    *x = (struct sent){.ack = {on_ack}, .w = f->w, .first = first, .n = n, .blob = blob};
    return x;
}

static void *feed(void *arg)
{
    struct feeder *f = arg;
    struct sink_context ctx = {.tenant = f->number ? "b" : ""};

    for (int i = 0; i < ROUNDS; i++) {
        int first = (f->number * ROUNDS + i) * SAMPLES;
        struct batch *b = NULL;

        if (make_batch(first, &b) == 0)
            sink_consume(fanout_sink(f->w->profiles), b, &ctx, &next_sent(f, first, SAMPLES, false)->ack);
        batch_unref(b);
        for (int k = 0; k < SAMPLES; k++) {
            _cleanup_(buf_done) struct buf bytes = BUF_INIT;
            struct blob *blob = NULL;

            buf_putc(&bytes, (char) (first + k + 1));
            if (!buf_error(&bytes) && blob_new(SIGNAL_TRACES, false, &bytes, &blob) == 0) {
                blob->items = 1;
                sink_pass(fanout_sink(f->w->traces), (struct payload){.blob = blob}, &ctx,
                          &next_sent(f, first + k, 1, true)->ack);
            }
            blob_unref(blob);
        }
    }
    return NULL;
}

static void wait_acks(const struct feeder *f)
{
    int64_t end = clock_mono() + 20 * NS_PER_S;

    for (int i = 0; i < f->n; i++) {
        while (!f->sent[i].calls && clock_mono() < end)
            usleep(200);
        if (f->sent[i].calls != 1)
            tap_fail("%s: acknowledged %d times", f->w->setup->name, f->sent[i].calls);
    }
}

/* --- checking --- */

static bool arrived(struct world *w, int i, int k, int id)
{
    bool seen;

    pthread_mutex_lock(&w->transport[i][k].lock);
    seen = w->transport[i][k].seen[k][id];
    pthread_mutex_unlock(&w->transport[i][k].lock);
    return seen;
}

/* A memory queue still works while the sender runs: waits until all that was acknowledged has arrived. */
static void wait_sent(struct world *w, const struct feeder *f)
{
    int64_t end = clock_mono() + 10 * NS_PER_S;

    for (int j = 0; j < f->n; j++)
        for (int id = f->sent[j].first; f->sent[j].status == SINK_OK && id < f->sent[j].first + f->sent[j].n; id++)
            for (int i = 0; i < EXPORTERS; i++)
                while (!arrived(w, i, f->sent[j].blob, id) && clock_mono() < end)
                    usleep(200);
}

/* What the logs still hold counts as arrived. */
static void read_log(struct world *w, int i, int k)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct qlog_options o = {0};
    struct qlog *q = NULL;
    struct qlog_entry x;
    char path[150];

    snprintf(path, sizeof path, "%s/exporter_otlp_%c_%s", dir, 'a' + i, k ? "traces" : "profiles");
    if (qlog_open(path, &o, &q, NULL) < 0) {
        tap_fail("cannot reopen %s", path);
        return;
    }
    while (qlog_read(q, &x, &b, NULL) == 1)
        ok(mark(w->transport[i][k].seen[k], buf_str(&b), k));
    eq_int(qlog_lost(q), 0);
    qlog_close(q);
}

static void check(struct world *w, const struct feeder *f, const char *what, long at)
{
    for (int j = 0; j < f->n; j++) {
        const struct sent *x = &f->sent[j];

        for (int id = x->first; x->calls && x->status == SINK_OK && id < x->first + x->n; id++)
            for (int i = 0; i < EXPORTERS; i++)
                if (!w->transport[i][x->blob].seen[x->blob][id])
                    tap_fail("%s, %s %ld: %s %d was acknowledged and did not arrive at exporter %d", w->setup->name,
                             what, at, x->blob ? "span" : "sample", id, i);
    }
}

/* --- failing calls --- */

static atomic_long fail_in = -1;
static atomic_int fail_errno;

static bool fails(void)
{
    if (atomic_load(&fail_in) < 0 || atomic_fetch_sub(&fail_in, 1) != 0)
        return false;
    errno = fail_errno;
    return true;
}

static ssize_t failing_pwrite(int fd, const void *p, size_t n, off_t off)
{
    return fails() ? -1 : fd_ops_system.pwrite(fd, p, n, off);
}

static int failing_sync(int fd, bool data_only)
{
    return fails() ? -1 : fd_ops_system.sync(fd, data_only);
}

static int failing_open(int d, const char *path, int flags, mode_t mode)
{
    return fails() ? -1 : fd_ops_system.open(d, path, flags, mode);
}

enum fault { FAULT_NONE, FAULT_MEMORY, FAULT_WRITE, FAULT_SYNC, FAULT_OPEN };
static const char *const fault_names[] = {"nothing fails", "allocation", "write", "sync", "open"};

static struct fd_ops failing; /* set before any thread runs: pwrite, sync, open fail when fail_in says so */
static enum fault failing_kind;

static void arm(enum fault fault, long at)
{
    failing_kind = fault;
    fail_errno = at % 2 ? ENOSPC : EIO;
    failing = fd_ops_system;
    if (fault == FAULT_WRITE)
        failing.pwrite = failing_pwrite;
    else if (fault == FAULT_SYNC)
        failing.sync = failing_sync;
    else if (fault == FAULT_OPEN)
        failing.open = failing_open;
    fd_ops = &failing;
}

/* One life of the world with the at-th call failing. Whether that call was reached. */
static bool run(const struct setup *s, enum fault fault, long at)
{
    struct feeder feeders[FEEDERS] = {0};
    struct world w;
    unsigned long before;
    bool reached = false;

    snprintf(dir, sizeof dir, "/tmp/wick-delivery-XXXXXX");
    ok(mkdtemp(dir) != NULL);
    arm(fault, at);
    ok(world_open(&w, s) == 0);
    before = mem_count();
    if (fault == FAULT_MEMORY)
        mem_fail_at((unsigned long) at + 1, false);
    else if (fault != FAULT_NONE)
        fail_in = at;
    for (int i = 0; i < FEEDERS; i++) {
        feeders[i].w = &w;
        feeders[i].number = i;
        ok(pthread_create(&feeders[i].thread, NULL, feed, &feeders[i]) == 0);
    }
    for (int i = 0; i < FEEDERS; i++)
        pthread_join(feeders[i].thread, NULL);
    for (int i = 0; i < FEEDERS && (s->answer != ANSWER_AWAY || s->log); i++)
        wait_acks(&feeders[i]);
    for (int i = 0; i < FEEDERS && !s->log; i++)
        wait_sent(&w, &feeders[i]);
    reached = fault == FAULT_MEMORY ? mem_count() - before > (unsigned long) at : fail_in < 0;
    mem_fail_at(0, false);
    fail_in = -1;
    world_close(&w);
    fd_ops = &fd_ops_system;
    for (int i = 0; i < EXPORTERS && s->log; i++)
        for (int k = 0; k < 2; k++)
            read_log(&w, i, k);
    for (int i = 0; i < FEEDERS; i++)
        check(&w, &feeders[i], fault_names[fault], at);
    remove_tree(dir, 2);
    return reached;
}

static const struct setup setups[] = {
    {.name = "memory"},
    {.name = "memory, retries", .answer = ANSWER_LATER_FIRST},
    {.name = "memory, batches in parts", .batch = true, .split = true},
    {.name = "wait for result", .wait = true, .batch = true, .split = true, .answer = ANSWER_LATER_FIRST},
    {.name = "wait for result, pieces", .wait = true, .pieces = true},
    {.name = "log", .log = true},
    {.name = "log, batches in parts", .log = true, .batch = true, .split = true, .answer = ANSWER_LATER_FIRST},
    {.name = "log, pieces", .log = true, .pieces = true, .batch = true},
    {.name = "log, peer away", .log = true, .answer = ANSWER_AWAY},
};

static long stride(void)
{
    const char *s = getenv("WICK_DELIVERY_STEP");

    return s ? MAX(atol(s), 1) : 13;
}

static void test_nothing_fails(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(setups); i++)
        run(&setups[i], FAULT_NONE, 0);
}

static void test_failing_allocations(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(setups); i++)
        for (long at = (long) i; at < 100000 && !tap_bad && run(&setups[i], FAULT_MEMORY, at); at += stride() * 5)
            ;
}

static void test_failing_files(void)
{
    static const enum fault faults[] = {FAULT_WRITE, FAULT_SYNC, FAULT_OPEN};

    for (size_t i = 0; i < ARRAY_SIZE(setups); i++)
        for (size_t k = 0; k < ARRAY_SIZE(faults) && setups[i].log; k++)
            for (long at = (long) i % 3; at < 1000 && !tap_bad && run(&setups[i], faults[k], at); at += stride())
                ;
}

/* A part that the peer refuses for good: nobody who waits for the result is told that all went well. */
static void test_refused_part(void)
{
    static const struct setup s = {
        .name = "refused", .wait = true, .batch = true, .split = true, .answer = ANSWER_NEVER_SECOND};
    struct feeder f = {0};
    struct world w;
    int lost = 0;

    snprintf(dir, sizeof dir, "/tmp/wick-delivery-XXXXXX");
    ok(mkdtemp(dir) != NULL);
    ok(world_open(&w, &s) == 0);
    f.w = &w;
    feed(&f);
    wait_acks(&f);
    for (int j = 0; j < f.n; j++) {
        bool whole = true;

        for (int id = f.sent[j].first; id < f.sent[j].first + f.sent[j].n; id++)
            for (int i = 0; i < EXPORTERS; i++)
                whole &= arrived(&w, i, f.sent[j].blob, id);
        if (f.sent[j].status == SINK_OK && !whole)
            tap_fail("%d was acknowledged without one of its parts", f.sent[j].first);
        lost += !whole;
    }
    ok(lost > 0);
    world_close(&w);
    remove_tree(dir, 2);
}

static int64_t metric_of(struct world *w, const char *name)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    int64_t sum = 0;
    size_t n = strlen(name);

    metrics_print(w->host.metrics, &out);
    for (char *line = strtok(buf_cstr(&out), "\n"); line; line = strtok(NULL, "\n"))
        if (strncmp(line, name, n) == 0 && line[n] == '{')
            sum += atoll(strrchr(line, ' ') + 1);
    return sum;
}

/* What is sent, and what a memory queue drops at its end, is counted in items, also when it comes out of a log. */
static void counted(const struct setup *s, int64_t sent, int64_t failed)
{
    struct feeder f = {0};
    struct world w;

    snprintf(dir, sizeof dir, "/tmp/wick-delivery-XXXXXX");
    ok(mkdtemp(dir) != NULL);
    ok(world_open(&w, s) == 0);
    f.w = &w;
    feed(&f);
    wait_acks(&f);
    if (sent)
        for (int i = 0; i < 2000 && metric_of(&w, "otelcol_exporter_sent_profile_samples") < sent; i++)
            usleep(1000);
    for (int i = 0; i < EXPORTERS; i++)
        for (int k = 0; k < 2; k++)
            sender_stop(w.sender[i][k]);
    for (int i = 0; i < EXPORTERS; i++)
        for (int k = 0; k < 2; k++) {
            sender_free(w.sender[i][k]);
            w.sender[i][k] = NULL;
        }
    eq_int(metric_of(&w, "otelcol_exporter_sent_profile_samples"), sent);
    eq_int(metric_of(&w, "otelcol_exporter_sent_spans"), sent);
    eq_int(metric_of(&w, "otelcol_exporter_send_failed_profile_samples"), failed);
    eq_int(metric_of(&w, "otelcol_exporter_send_failed_spans"), failed);
    world_close(&w);
    remove_tree(dir, 2);
}

static void test_counts(void)
{
    enum { ALL = EXPORTERS * ROUNDS * SAMPLES };

    counted(&(struct setup){.name = "counted log", .log = true}, ALL, 0);
    counted(&(struct setup){.name = "counted log in pieces", .log = true, .pieces = true}, ALL, 0);
    counted(&(struct setup){.name = "counted memory"}, ALL, 0);
    counted(&(struct setup){.name = "away", .answer = ANSWER_AWAY}, 0, ALL);
    counted(&(struct setup){.name = "away log", .log = true, .answer = ANSWER_AWAY}, 0, 0);
}

int main(void)
{
    log_setup(LOG_ERROR + 1, LOG_TEXT); /* what fails is expected */
    tap_run(test_nothing_fails);
    tap_run(test_refused_part);
    tap_run(test_counts);
    tap_run(test_failing_allocations);
    tap_run(test_failing_files);
    return tap_done();
}
