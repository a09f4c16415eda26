/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libwick used from many threads at once, by its API: allocations, contended locks, spans and labels, threads that come
 * and go, snapshots, flushes, pauses, statistics. Built with ThreadSanitizer it has all of libwick's sources inside.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tap.h"
#include "wick.h"

enum { WORKERS = 3 };

/* sdk_threads_work.c: a library of its own, because libwick does not hook what itself calls. */
extern atomic_bool sdk_threads_stop;
extern atomic_ulong sdk_threads_rounds;
void *sdk_threads_work(void *arg);

static void ask(struct wick_provider *p)
{
    static const unsigned types[] = {WICK_CPU, WICK_WALL, WICK_HEAP, WICK_LOCK};
    struct wick_stats s = WICK_STATS_INIT;
    void *snapshot;
    size_t n;

    for (int i = 0; i < 4; i++) {
        int r = wick_snapshot(p, types[i], &snapshot, &n);

        ok(r == 0);
        if (r == 0)
            wick_snapshot_free(snapshot, n);
    }
    ok(wick_get_stats(p, &s) == 0 && s.threads > 0);
}

static void test_all_at_once(void)
{
    struct wick_options o = WICK_OPTIONS_INIT;
    struct wick_stats s = WICK_STATS_INIT;
    struct timespec pause = {0, 150000000};
    struct wick_provider *p;
    pthread_t t[WORKERS];

    o.endpoint = "none";
    o.types = WICK_CPU | WICK_WALL | WICK_HEAP | WICK_LOCK;
    o.alloc_interval = 65536;
    o.rate = 1000;
    p = wick_provider_new(&o);
    ok(p != NULL);
    if (!p)
        return;
    ok(wick_serve_pprof(p, "127.0.0.1:0") > 0);
    for (uintptr_t i = 0; i < WORKERS; i++)
        pthread_create(&t[i], NULL, sdk_threads_work, (void *) i);
    for (int i = 0; i < 8; i++) {
        nanosleep(&pause, NULL);
        ask(p);
        if (i == 3)
            ok(wick_pause(p) == 0 && wick_resume(p) == 0);
        if (i == 5)
            ok(wick_stop(p) == 0 && wick_start(p) == 0);
        ok(wick_flush(p, 5000) == 0);
    }
    atomic_store(&sdk_threads_stop, true);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(t[i], NULL);
    ok(wick_get_stats(p, &s) == 0);
    ok(s.samples[0] > 0);
    ok(s.samples[2] > 0);
    printf("# %lu rounds, samples %lu cpu %lu alloc\n", atomic_load(&sdk_threads_rounds), (unsigned long) s.samples[0],
           (unsigned long) s.samples[2]);
    wick_provider_free(p);
}

int main(void)
{
    tap_run(test_all_at_once);
    return tap_done();
}
