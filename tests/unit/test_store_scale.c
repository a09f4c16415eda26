/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A segment store with several tenants where something is much or something fails: a backfill of months, many epochs of
 * symbols, writing while a compaction runs, and flushes and compactions in which every allocation fails in turn.
 */
#include "store/engines/segment/engine.h"
#include "store_dir.h"

#define HOUR (3600 * NS_PER_S)

enum { TENANTS = 2 };

static const char *const tenants[TENANTS] = {"", "second"};

static void append_rows(struct suite *s, const char *tenant, const struct simple *rows, size_t n)
{
    _cleanup_(batch_unrefp) struct batch *b = simple_batch(rows, n);

    append_as(s, b, &(struct sink_context){.tenant = tenant, .received_ns = suite_clock}, NULL);
}

static int64_t total_in(struct suite *s, const char *tenant)
{
    struct question k;
    int64_t v;

    ask(&k, "cpu", ALL);
    k.q.tenant = tenant;
    v = total_of(s, &k.q);
    ask_done(&k);
    return v;
}

static uint64_t segments_of(struct suite *s)
{
    struct store_stats st;

    s->store->ops->stats(s->store, &st);
    eq_int(st.damaged, 0);
    return st.segments;
}

/* --- backfill --- */

static void backfill(struct suite *s, const char *tenant, int hours)
{
    enum { ROWS = 200 };
    struct simple rows[ROWS];

    for (int i = 0; i < hours; i += ROWS) {
        int n = MIN(ROWS, hours - i);

        for (int k = 0; k < n; k++)
            rows[k] = (struct simple){.value = 1, .time = GEN_T0 - (i + k) * HOUR};
        append_rows(s, tenant, rows, (size_t) n);
    }
}

/* hours of each of n tenants, sent at once: a segment for every one of them. */
static void run_backfill(int n, int hours)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = -1, .max_late = -1}};
    char names[32][16];

    begin(&s);
    for (int t = 0; t < n; t++) {
        snprintf(names[t], sizeof names[t], "tenant%d", t);
        backfill(&s, names[t], hours);
    }
    flush(&s);
    eq_int(segments_of(&s), n * hours);
    reopen(&s);
    for (int t = 0; t < n; t++)
        eq_int(total_in(&s, names[t]), hours);
    append_rows(&s, names[0], &(struct simple){.value = 1, .time = GEN_T0 + 1}, 1);
    flush(&s);
    eq_int(total_in(&s, names[0]), hours + 1);
    end(&s);
}

static void test_backfill_of_months(void)
{
    run_backfill(1, 171 * 24 + 4);
}

static void test_backfill_of_many_tenants(void)
{
    run_backfill(25, 7 * 24);
}

/* A backfill is compacted into days; no more files stay open than the store may keep. */
static void test_backfill_compacted(void)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = -1, .max_late = -1}};

    begin(&s);
    to_engine(s.store)->lru.max_files = 20;
    for (int t = 0; t < TENANTS; t++)
        backfill(&s, tenants[t], 24 * 12);
    flush(&s);
    ok(to_engine(s.store)->lru.files <= 21);
    for (int t = 0; t < TENANTS; t++)
        eq_int(total_in(&s, tenants[t]), 24 * 12);
    retain(&s);
    ok(segments_of(&s) <= 2 * 13);
    ok(to_engine(s.store)->lru.files <= 21);
    for (int t = 0; t < TENANTS; t++)
        eq_int(total_in(&s, tenants[t]), 24 * 12);
    end(&s);
}

/* --- writing while a compaction runs --- */

static struct {
    struct suite *s;
    bool busy;
    int appended, refused;
} during;

static bool is_segment(int fd)
{
    char link[32], path[256];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path);
    return n > 8 && memcmp(path + n - 8, ".seg.tmp", 8) == 0;
}

/* While the compaction writes segments, more comes in than memtables may wait. */
static ssize_t pwrite_and_append(int fd, const void *p, size_t n, off_t off)
{
    if (during.s && !during.busy && during.appended < 40 && is_segment(fd)) {
        _cleanup_(batch_unrefp) struct batch *b =
            simple_batch(&(struct simple){.value = 1, .time = GEN_T0 + 1 + during.appended}, 1);
        const char *tenant = tenants[during.appended % TENANTS];
        struct ack_result r = {0};

        during.busy = true;
        store_append_wait(during.s->store, b, &(struct sink_context){.tenant = tenant, .received_ns = suite_clock}, &r);
        during.appended += r.status == SINK_OK;
        during.refused += r.status != SINK_OK;
        during.busy = false;
    }
    return fd_ops_system.pwrite(fd, p, n, off);
}

static void test_compaction_starves_nobody(void)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = -1, .max_late = -1, .memory = 1}};
    struct fd_ops ops = fd_ops_system;
    int want = 0;

    begin(&s);
    for (int i = 0; i < 40; i++) { /* a memtable a request: flushed at once */
        append_rows(&s, tenants[i % TENANTS], &(struct simple){.value = 1, .time = GEN_T0 - i * 300 * NS_PER_S}, 1);
        flush(&s);
        want++;
    }
    ops.pwrite = pwrite_and_append;
    fd_ops = &ops;
    during.s = &s;
    retain(&s);
    during.s = NULL;
    fd_ops = &fd_ops_system;
    eq_int(during.refused, 0);
    ok(during.appended > SEALED_MAX);
    eq_int(total_in(&s, tenants[0]) + total_in(&s, tenants[1]), want + during.appended);
    reopen(&s);
    eq_int(total_in(&s, tenants[0]) + total_in(&s, tenants[1]), want + during.appended);
    end(&s);
}

int main(void)
{
    snprintf(dir, sizeof dir, "%s/wick-scale-%d", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", getpid());
    tap_run(test_backfill_of_months);
    tap_run(test_backfill_of_many_tenants);
    tap_run(test_backfill_compacted);
    tap_run(test_compaction_starves_nobody);
    return tap_done();
}
