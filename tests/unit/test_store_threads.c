/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A segment store with everything going on at once: writers, readers, somebody who deletes, flushes and compactions, and
 * next to no room for what is kept between questions. Every question sees what was acknowledged before it began and
 * nothing that was deleted before. Run under ThreadSanitizer as well.
 */
#include "store_conformance.c"

#include <ftw.h>
#include <unistd.h>

#include "base/thread.h"

enum { WRITERS = 2, READERS = 2, BATCHES = 300, DELETIONS = 40 };

static char dir[128], copy[160];
static struct suite suite = {.config = {.keep = -1, .keep_detail = -1, .min_free = -1, .memory = 4096, .cache = 20000}};
static _Atomic int64_t acknowledged;
static atomic_int writing, wrong;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void) st;
    (void) type;
    (void) ftw;
    return remove(path);
}

static bool try_once(const char *service, int i)
{
    const struct simple rows[] = {{.value = 1, .service = service, .time = GEN_T0 - i * 90 * NS_PER_S},
                                  {.value = 1,
                                   .service = service,
                                   .time = GEN_T0 - i * 90 * NS_PER_S + 1,
                                   .stack = i % 2 ? "main a b" : "main c",
                                   .pid = 1 + i}};
    _cleanup_(batch_unrefp) struct batch *b = simple_batch(rows, 2);
    struct ack_result r = {0};

    store_append_wait(suite.store, b, &(struct sink_context){.tenant = "", .received_ns = GEN_T0}, &r);
    if (r.status != SINK_OK && r.status != SINK_UNAVAILABLE) /* too many logs wait to be flushed: again */
        wrong++;
    return r.status == SINK_OK;
}

static void write_one(const char *service, int i)
{
    while (!try_once(service, i))
        usleep(1000);
}

static void *run_writer(void *arg)
{
    char service[32];

    snprintf(service, sizeof service, "w%d", (int) (intptr_t) arg);
    for (int i = 0; i < BATCHES; i++) {
        write_one(service, i);
        acknowledged += 2;
    }
    writing--;
    return NULL;
}

static int64_t ask_total(const char *selector)
{
    _cleanup_(tree_freep) struct tree *t = NULL;
    struct store_notes notes = {0};
    struct question k;
    int64_t v = -1;

    ask(&k, selector, ALL);
    if (suite.store->ops->select(suite.store, &k.q, &t, &notes, NULL) == 0 && !notes.damaged)
        v = t->total[0][0];
    ask_done(&k);
    return v;
}

static void *run_reader(void *arg)
{
    (void) arg;
    do {
        int64_t before = acknowledged, v = ask_total("cpu{service.name!=\"gone\"}");

        if (v < before || v > 2 * WRITERS * BATCHES)
            wrong++;
        if (ask_total("cpu{process.pid=\"1\",service.name!=\"gone\"}") > WRITERS)
            wrong++;
    } while (writing);
    return NULL;
}

static void *run_deleter(void *arg)
{
    (void) arg;
    for (int i = 0; i < DELETIONS; i++) {
        struct question k;

        write_one("gone", i);
        if (ask_total("cpu{service.name=\"gone\"}") != 2)
            wrong++;
        ask(&k, "{service.name=\"gone\"}", ALL);
        if (suite.store->ops->delete (suite.store, "", &k.q.columns[0], NULL) < 0)
            wrong++;
        ask_done(&k);
        if (ask_total("cpu{service.name=\"gone\"}") != 0)
            wrong++;
    }
    return NULL;
}

static void test_all_at_once(void)
{
    pthread_t threads[WRITERS + READERS + 1];
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
        n += thread_start(&threads[n], "reader", run_reader, NULL, NULL) == 0;
    n += thread_start(&threads[n], "deleter", run_deleter, NULL, NULL) == 0;
    eq_int(n, WRITERS + READERS + 1);
    eq_int(suite.store->ops->snapshot(suite.store, copy, NULL), 0); /* while all of this goes on */
    while (writing) {
        ok(suite.store->ops->flush(suite.store, NULL) == 0);
        ok(suite.store->ops->retain(suite.store, true, NULL) == 0);
        usleep(1000);
    }
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    eq_int(wrong, 0);
    eq_int(ask_total("cpu"), 2 * WRITERS * BATCHES);
    ok(suite.store->ops->retain(suite.store, true, NULL) == 0);
    eq_int(ask_total("cpu"), 2 * WRITERS * BATCHES);
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

int main(void)
{
    snprintf(dir, sizeof dir, "%s/wick-store-threads-%d", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
             (int) getpid());
    snprintf(copy, sizeof copy, "%s-copy", dir);
    tap_run(test_all_at_once);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    nftw(copy, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return tap_done();
}
