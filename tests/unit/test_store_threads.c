/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A segment store under concurrent use: writers and readers of two tenants, new tenants, a thread that deletes, names
 * that arrive later, statistics, flushes and compactions, and a tiny cache. Every query sees what was acknowledged
 * before it began, of its own tenant, and nothing that was deleted before. Queries over many services have a second
 * thread. The test is also run under ThreadSanitizer.
 */
#include "store_conformance.c"

#include <ftw.h>
#include <unistd.h>

#include "base/thread.h"
#include "model/symbolizer.h"
#include "store/engines/segment/engine.h"

enum {
    TENANTS = 2,
    NEW_TENANTS = 40,
    WRITERS = TENANTS,
    READERS = 2,
    BATCHES = 300,
    DELETIONS = 40,
    SERVICES = 6,
    ROUNDS = 150,
    PIDS = 5
};

static char dir[128], copy[160];
static struct suite suite = {.config = {.keep = -1, .keep_detail = -1, .min_free = -1, .memory = 4096, .cache = 20000}};
static _Atomic int64_t acknowledged[TENANTS];
static const char *const tenants[TENANTS] = {"", "second"};
static _Thread_local int mine; /* the tenant of this thread */
static atomic_int writing, wrong;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void) st;
    (void) type;
    (void) ftw;
    return remove(path);
}

static bool try_once(const char *tenant, const struct simple *rows, size_t n)
{
    _cleanup_(batch_unrefp) struct batch *b = simple_batch(rows, n);
    struct ack_result r = {0};

    store_append_wait(suite.store, b, &(struct sink_context){.tenant = tenant, .received_ns = GEN_T0}, &r);
    if (r.status != SINK_OK && r.status != SINK_UNAVAILABLE) /* too many logs wait to be flushed: retry */
        wrong++;
    return r.status == SINK_OK;
}

static void write_batch(const struct simple *rows, size_t n)
{
    while (!try_once(tenants[mine], rows, n))
        usleep(1000);
}

static void write_one(const char *service, int i)
{
    const struct simple rows[] = {{.value = 1, .service = service, .time = GEN_T0 - i * 90 * NS_PER_S},
                                  {.value = 1,
                                   .service = service,
                                   .time = GEN_T0 - i * 90 * NS_PER_S + 1,
                                   .stack = i % 2 ? "main a b" : "main c",
                                   .pid = 1 + i}};

    write_batch(rows, ARRAY_SIZE(rows));
}

static void *run_writer(void *arg)
{
    char service[32];

    mine = (int) (intptr_t) arg % TENANTS;
    snprintf(service, sizeof service, "w%d", (int) (intptr_t) arg);
    for (int i = 0; i < BATCHES; i++) {
        write_one(service, i);
        acknowledged[mine] += 2;
    }
    writing--;
    return NULL;
}

static int64_t ask_total(const char *selector)
{
    _cleanup_(tree_freep) struct tree *t = NULL;
    struct store_notes notes = {0};
    struct asked k;
    int64_t v = -1;

    ask(&k, selector, ALL);
    k.q.tenant = tenants[mine];
    k.q.notes = &notes;
    if (suite.store->ops->select(suite.store, &k.q, &t, NULL) == 0 && !notes.damaged)
        v = t->total[0][0];
    ask_done(&k);
    return v;
}

static void *run_reader(void *arg)
{
    mine = (int) (intptr_t) arg % TENANTS;
    do {
        int64_t before = acknowledged[mine], v = ask_total("cpu{service.name!=\"gone\"}");
        struct store_stats st;

        if (v < before || v > 2 * BATCHES)
            wrong++;
        if (ask_total("cpu{process.pid=\"1\",service.name!=\"gone\"}") > 1)
            wrong++;
        suite.store->ops->stats(suite.store, &st);
        if (st.damaged)
            wrong++;
    } while (writing);
    return NULL;
}

/* Repeatedly adds a new tenant, and names for the data it sent. */
static void *run_newcomers(void *arg)
{
    struct symbol_frame frame = {.function = STR("named")};
    struct symbol_answer a = {.frames = &frame, .first = (uint32_t[]){0, 1}, .n_addresses = 1};
    uint64_t address = 0x1000;
    int r;

    (void) arg;
    for (int i = 0; i < NEW_TENANTS; i++) {
        char name[32];

        snprintf(name, sizeof name, "new%d", i);
        while (!try_once(name, &(struct simple){.value = 1, .time = GEN_T0 - i}, 1))
            usleep(1000);
        do {
            r = suite.store->ops->name_later(suite.store, name, STR("beef"), &address, &a, NULL);
        } while (r == -EAGAIN && usleep(1000) == 0); /* the store is busy writing segments */
        if (r < 0)
            wrong++;
    }
    return NULL;
}

static void *run_deleter(void *arg)
{
    (void) arg;
    mine = TENANTS - 1;
    for (int i = 0; i < DELETIONS; i++) {
        struct asked k;

        write_one("gone", i);
        if (ask_total("cpu{service.name=\"gone\"}") != 2)
            wrong++;
        ask(&k, "{service.name=\"gone\"}", ALL);
        if (suite.store->ops->delete (suite.store, tenants[mine], &k.q.columns[0], NULL) < 0)
            wrong++;
        ask_done(&k);
        if (ask_total("cpu{service.name=\"gone\"}") != 0)
            wrong++;
    }
    return NULL;
}

static void test_all_at_once(void)
{
    pthread_t threads[WRITERS + READERS + 2];
    struct err e = {0};
    int n = 0;

    suite.config.dir = dir;
    suite.config.now = suite_now;
    suite.config.reserve = 4096;
    if (store_open(&store_segment, &suite.config, &suite.store, &e) < 0) {
        tap_fail("open: %s", e.message);
        return;
    }
    writing = WRITERS;
    for (int i = 0; i < WRITERS; i++)
        n += thread_start(&threads[n], "writer", run_writer, (void *) (intptr_t) i, NULL) == 0;
    for (int i = 0; i < READERS; i++)
        n += thread_start(&threads[n], "reader", run_reader, (void *) (intptr_t) i, NULL) == 0;
    n += thread_start(&threads[n], "deleter", run_deleter, NULL, NULL) == 0;
    n += thread_start(&threads[n], "newcomers", run_newcomers, NULL, NULL) == 0;
    eq_int(n, WRITERS + READERS + 2);
    eq_int(suite.store->ops->snapshot(suite.store, copy, NULL), 0); /* while everything else runs */
    while (writing) {
        ok(suite.store->ops->flush(suite.store, NULL) == 0);
        ok(suite.store->ops->retain(suite.store, true, NULL) == 0);
        usleep(1000);
    }
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    eq_int(wrong, 0);
    for (int i = 0; i < 2; i++) {
        for (mine = 0; mine < TENANTS; mine++)
            eq_int(ask_total("cpu"), 2 * BATCHES);
        mine = 0;
        ok(suite.store->ops->retain(suite.store, true, NULL) == 0);
    }
    store_close(suite.store);
    suite.config.dir = copy;
    suite.config.read_only = true;
    if (store_open(&store_segment, &suite.config, &suite.store, &e) < 0) {
        tap_fail("open the copy: %s", e.message);
        return;
    }
    ok(ask_total("cpu") >= 0);
    store_close(suite.store);
}

/* --- queries over many services --- */

static const char *const services[SERVICES] = {"s0", "s1", "s2", "s3", "s4", "s5"};

/* A row for each service, all of one function below main. */
static void write_round(int i)
{
    struct simple rows[SERVICES];

    for (int k = 0; k < SERVICES; k++)
        rows[k] = (struct simple){.value = 1,
                                  .service = services[k],
                                  .time = GEN_T0 - i * 90 * NS_PER_S,
                                  .stack = i % 2 ? "main a b" : "main a c",
                                  .pid = 1 + i % PIDS};
    write_batch(rows, SERVICES);
    acknowledged[mine] += SERVICES;
}

static void *run_rounds(void *arg)
{
    (void) arg;
    for (int i = 0; i < ROUNDS; i++)
        write_round(i);
    writing--;
    return NULL;
}

/* The value of the function a in the table. */
static int64_t ask_table(void)
{
    const struct store_table_query tq = {.rows = ROWS_FUNCTION, .function = STR("a")};
    struct store_table t = {0};
    struct store_notes notes = {0};
    struct asked k;
    int64_t v = -1;

    ask(&k, "cpu", ALL);
    k.q.notes = &notes;
    if (suite.store->ops->table(suite.store, &k.q, &tq, &t, NULL) == 0 && !notes.damaged)
        v = t.n_rows ? t.rows[0].total[0] : 0;
    store_table_done(&t);
    ask_done(&k);
    return v;
}

/* Its value according to its callers; its callees have the same. */
static int64_t ask_callers(void)
{
    _cleanup_(store_callers_done) struct store_callers x = {0};
    struct store_notes notes = {0};
    struct asked k;
    int64_t v = -1;

    ask(&k, "cpu", ALL);
    k.q.notes = &notes;
    if (suite.store->ops->callers(suite.store, &k.q, STR("a"), &x, NULL) == 0 && !notes.damaged)
        v = x.callers->total[0][0] == x.callees->total[0][0] ? x.callers->total[0][0] : -1;
    ask_done(&k);
    return v;
}

static void expect_between(int64_t v, int64_t from, int64_t to)
{
    if (v < from || v > to)
        wrong++;
}

static void *run_asker(void *arg)
{
    (void) arg;
    do {
        int64_t before = acknowledged[mine];

        expect_between(ask_total("cpu"), before, SERVICES * ROUNDS);
        expect_between(ask_table(), before, SERVICES * ROUNDS);
        expect_between(ask_callers(), before, SERVICES * ROUNDS);
        expect_between(ask_total("cpu{process.pid=\"1\"}"), before / PIDS / SERVICES * SERVICES,
                       SERVICES * ROUNDS / PIDS);
    } while (writing);
    return NULL;
}

/* One query gives the same result as one query per service, which has no second thread. */
static void expect_whole(void)
{
    int64_t sum = 0;

    for (int i = 0; i < SERVICES; i++) {
        char selector[64];

        snprintf(selector, sizeof selector, "cpu{service.name=\"%s\"}", services[i]);
        sum += ask_total(selector);
    }
    eq_int(sum, SERVICES * ROUNDS);
    eq_int(ask_total("cpu"), sum);
    eq_int(ask_table(), sum);
    eq_int(ask_callers(), sum);
    eq_int(ask_total("cpu{process.pid=\"1\"}"), sum / PIDS);
}

static void test_many_services(void)
{
    pthread_t threads[READERS + 1];
    struct err e = {0};
    int n = 0;

    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    suite.config.dir = dir;
    suite.config.read_only = false;
    if (store_open(&store_segment, &suite.config, &suite.store, &e) < 0) {
        tap_fail("open: %s", e.message);
        return;
    }
    to_engine(suite.store)->cpus = 2 * READERS; /* every query has its second thread, also on small machines */
    acknowledged[0] = 0;
    wrong = 0;
    writing = 1;
    n += thread_start(&threads[n], "writer", run_rounds, NULL, NULL) == 0;
    for (int i = 0; i < READERS; i++)
        n += thread_start(&threads[n], "asker", run_asker, NULL, NULL) == 0;
    eq_int(n, READERS + 1);
    while (writing) {
        ok(suite.store->ops->flush(suite.store, NULL) == 0);
        ok(suite.store->ops->retain(suite.store, true, NULL) == 0);
        usleep(1000);
    }
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    eq_int(wrong, 0);
    expect_whole();
    ok(suite.store->ops->retain(suite.store, true, NULL) == 0);
    expect_whole();
    store_close(suite.store);
}

int main(void)
{
    snprintf(dir, sizeof dir, "%s/wick-store-threads-%d", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
             (int) getpid());
    snprintf(copy, sizeof copy, "%s-copy", dir);
    tap_run(test_all_at_once);
    tap_run(test_many_services);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    nftw(copy, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return tap_done();
}
