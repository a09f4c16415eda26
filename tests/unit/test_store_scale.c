/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A segment store with several tenants under load or failure: a backfill of months, many epochs of symbols, writing
 * while a compaction runs, and flushes and compactions in which every allocation fails in turn.
 */
#include "model/symbolizer.h"
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
    struct asked k;
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

/* Hours of each of n tenants, sent at once: each becomes a segment. */
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

/* While the compaction writes segments, more data arrives than fits into the memtables that may wait. */
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
    for (int i = 0; i < 40; i++) { /* one memtable per request: flushed at once */
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

/* --- names that arrive later --- */

enum { NATIVE = 6000 };

/* A stack for each of n native locations without names, from 0x1000 + first on. */
static struct batch *native_batch(uint32_t first, uint32_t n, int64_t time)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    struct batch *out = NULL;
    struct value_type t;
    struct profile *p;
    uint32_t id, m;
    int64_t one = 1;

    if (builder_new(NULL, &b) < 0)
        return NULL;
    builder_resource(b);
    builder_resource_attr_str(b, STR("service.name"), STR("native"));
    builder_scope(b, STR("t"), STR(""));
    t = (struct value_type){builder_string(b, STR("cpu")), builder_string(b, STR("nanoseconds"))};
    p = builder_profile(b, &t, 1);
    if (!p)
        return NULL;
    p->time_ns = time;
    id = builder_attr_str(b, STR("process.executable.build_id.gnu"), STR("c0ffee"));
    m = builder_mapping(b, &(struct mapping){.filename = builder_string(b, STR("/bin/native"))}, &id, 1);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t loc = builder_location(b, &(struct builder_location){.mapping = m, .address = 0x1000 + first + i});

        builder_sample(b, &(struct builder_sample){.stack = builder_stack(b, &loc, 1), .values = &one, .n_values = 1});
    }
    return builder_finish(b, &out, NULL) < 0 ? NULL : out;
}

static void append_native(struct suite *s, const char *tenant, uint32_t first, uint32_t n)
{
    _cleanup_(batch_unrefp) struct batch *b = native_batch(first, n, suite_clock);

    append_as(s, b, &(struct sink_context){.tenant = tenant, .received_ns = suite_clock}, NULL);
}

static int name_native(struct suite *s, const char *tenant, uint32_t first, uint32_t n)
{
    static struct symbol_frame frames[NATIVE];
    static uint64_t addresses[NATIVE];
    static uint32_t firsts[NATIVE + 1];
    static char names[NATIVE][16];
    struct symbol_answer a = {.frames = frames, .first = firsts, .n_addresses = n};

    for (uint32_t i = 0; i < n; i++) {
        addresses[i] = 0x1000 + first + i;
        frames[i] =
            (struct symbol_frame){.function = gen_name(names[i], sizeof names[i], "native%u", first + i), .line = 7};
        firsts[i + 1] = i + 1;
    }
    return s->store->ops->name_later(s->store, tenant, STR("c0ffee"), addresses, &a, NULL);
}

static void dump_in(struct suite *s, const char *tenant, struct buf *out)
{
    _cleanup_(tree_freep) struct tree *t = NULL;
    struct store_notes notes = {0};
    struct asked k;
    struct err e = {0};

    ask(&k, "cpu", ALL);
    k.q.tenant = tenant;
    k.q.notes = &notes;
    if (s->store->ops->select(s->store, &k.q, &t, &e) < 0)
        tap_fail("select: %s", e.message);
    else
        dump_tree(out, t);
    eq_int(notes.damaged, 0);
    ask_done(&k);
}

/* Reopened from its logs, and again from its segments, the store gives the same answers. */
static void expect_durable(struct suite *s)
{
    for (int i = 0; i < TENANTS; i++)
        for (int flushed = 0; flushed < 2; flushed++) {
            _cleanup_(buf_done) struct buf before = BUF_INIT, after = BUF_INIT;

            dump_in(s, tenants[i], &before);
            if (flushed)
                flush(s);
            reopen(s);
            dump_in(s, tenants[i], &after);
            eq_str(buf_str(&after), buf_str(&before));
        }
}

static uint32_t count_named(struct suite *s, const char *tenant)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    uint32_t n = 0;

    dump_in(s, tenant, &b);
    for (const char *p = buf_cstr(&b); p && (p = strstr(p, "/native")); p++)
        n += p[7] >= '0' && p[7] <= '9';
    return n;
}

/* More epochs than a flush once had room for, all named at once, and more addresses than one job takes. */
static void test_names_in_many_epochs(void)
{
    struct suite s = {.config = {.keep = DAYS(40), .keep_detail = -1, .max_late = -1}};

    begin(&s);
    for (int i = 0; i < 12; i++) {
        for (int t = 0; t < TENANTS; t++)
            append_native(&s, tenants[t], (uint32_t) i * 200, 400);
        flush(&s);
        suite_clock += DAYS(22); /* each epoch is older than half of the retention, and is never dropped */
        s.config.keep = DAYS(40) + DAYS(22) * (i + 1);
        to_engine(s.store)->config.keep = DAYS(40);
    }
    for (int t = 0; t < TENANTS; t++)
        eq_int(name_native(&s, tenants[t], 0, NATIVE), 0);
    for (int t = 0; t < TENANTS; t++)
        eq_int(count_named(&s, tenants[t]), 11 * 200 + 400);
    expect_durable(&s);
    ok(there("1/sym/000011.sym") && there("2/sym/000011.sym"));
    for (int t = 0; t < TENANTS; t++)
        eq_int(count_named(&s, tenants[t]), 11 * 200 + 400);
    end(&s);
}

static int fail_writes; /* the next n writes of a log fail */

static ssize_t pwrite_or_fail(int fd, const void *p, size_t n, off_t off)
{
    if (fail_writes > 0) {
        fail_writes--;
        errno = ENOSPC;
        return -1;
    }
    return fd_ops_system.pwrite(fd, p, n, off);
}

/* Names whose record could not be written: their definitions are written with the next record, in the right order. */
static void test_names_not_written(void)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = -1}};
    struct fd_ops ops = fd_ops_system;

    begin(&s);
    for (int t = 0; t < TENANTS; t++)
        append_native(&s, tenants[t], 0, 100);
    ops.pwrite = pwrite_or_fail;
    fd_ops = &ops;
    for (int i = 0; i < 4; i++) {
        fail_writes = 1;
        ok(name_native(&s, tenants[i % 2], (uint32_t) i / 2 * 20, 20) < 0);
        append_rows(&s, tenants[i % 2], &(struct simple){.value = 1, .stack = "main after names", .time = GEN_T0 + i},
                    1);
    }
    fd_ops = &fd_ops_system;
    for (int t = 0; t < TENANTS; t++)
        eq_int(count_named(&s, tenants[t]), 40);
    expect_durable(&s);
    end(&s);
}

/* --- no memory --- */

/* Requests of both tenants with new stacks, each with one failing allocation; then sent again. */
static void test_append_without_memory(void)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = -1, .max_late = -1}};
    struct gen g = {.state = 99, .services = 3, .instances = 3, .stacks = 5000, .depth = 12};
    int failed = 0;

    begin(&s);
    for (unsigned long n = 1; n < 400; n++) {
        _cleanup_(batch_unrefp) struct batch *b = gen_batch(&g, GEN_T0 - (int64_t) n * 60 * NS_PER_S);
        struct sink_context ctx = {.tenant = tenants[n % TENANTS], .received_ns = suite_clock};
        struct ack_result r = {0};

        mem_fail_at(1 + n % 41, false);
        store_append_wait(s.store, b, &ctx, &r);
        mem_fail_at(0, false);
        ok(r.status == SINK_OK || r.status == SINK_UNAVAILABLE);
        failed += r.status != SINK_OK;
        if (r.status != SINK_OK)
            append_as(&s, b, &ctx, NULL);
        if (n % 7 == 0) {
            mem_fail_at(1 + n % 13, false);
            name_native(&s, tenants[n % TENANTS], (uint32_t) n, 10);
            mem_fail_at(0, false);
            append_native(&s, tenants[n % TENANTS], (uint32_t) n + 7, 10);
        }
    }
    ok(failed > 20);
    printf("# %d requests failed at first\n", failed);
    expect_durable(&s);
    end(&s);
}

/* More profiles of a series, within one window, than a bitmap of a chunk has bits. */
enum { CROWD = 200 };
static int64_t crowd_time = GEN_T0 - 20 * HOUR;

/* Of each tenant, in another hour than those before. */
static void append_crowd(struct suite *s, int64_t *want)
{
    struct simple rows[CROWD];

    crowd_time -= HOUR;
    for (int i = 0; i < CROWD; i++)
        rows[i] = (struct simple){.value = i + 1, .time = crowd_time + i * NS_PER_S};
    for (int t = 0; t < TENANTS; t++) {
        append_rows(s, tenants[t], rows, CROWD);
        want[t] = total_in(s, tenants[t]);
    }
}

/* The sum over the first half of the last ones, for which single profiles must be read. */
static int64_t half_of_crowd(struct suite *s, const char *tenant)
{
    struct asked k;
    int64_t v;

    ask(&k, "cpu", crowd_time, crowd_time + CROWD / 2 * NS_PER_S);
    k.q.tenant = tenant;
    v = total_of(s, &k.q);
    ask_done(&k);
    return v;
}

/* Asks for it with each allocation failing in turn: what cannot be read for want of memory is not damaged. */
static void ask_without_memory(struct suite *s, const char *tenant)
{
    unsigned long n = 0, used;

    do {
        _cleanup_(tree_freep) struct tree *t = NULL;
        struct store_notes notes = {0};
        struct asked k;
        int r;

        ask(&k, "cpu", crowd_time, crowd_time + CROWD / 2 * NS_PER_S);
        k.q.tenant = tenant;
        k.q.notes = &notes;
        to_engine(s->store)->lru.max = 1; /* nothing is remembered from the question before */
        used = mem_count();
        mem_fail_at(++n, false);
        r = s->store->ops->select(s->store, &k.q, &t, NULL);
        mem_fail_at(0, false);
        used = mem_count() - used;
        if (notes.damaged)
            tap_fail("allocation %lu: %d, %s", n, r, notes.damage);
        if (r != 0)
            eq_int(r, -ENOMEM);
        else
            eq_int(t->total[0][0], CROWD / 2 * (CROWD / 2 + 1) / 2);
        ask_done(&k);
    } while (used >= n && tap_bad < 10);
}

static bool is_whole(struct suite *s, const int64_t *want)
{
    bool whole = true;

    for (int t = 0; t < TENANTS; t++) {
        eq_int(total_in(s, tenants[t]), want[t]);
        eq_int(half_of_crowd(s, tenants[t]), CROWD / 2 * (CROWD / 2 + 1) / 2);
        whole &= !tap_bad;
    }
    return whole;
}

static void fill_hours(struct suite *s, int hours, int64_t *want)
{
    static struct gen g = {.state = 7, .services = 3, .instances = 2, .stacks = 50, .depth = 8};

    for (int i = 0; i < hours * TENANTS; i++) {
        _cleanup_(batch_unrefp) struct batch *b = gen_batch(&g, GEN_T0 - i / TENANTS * HOUR);

        append_as(s, b, &(struct sink_context){.tenant = tenants[i % TENANTS], .received_ns = suite_clock}, NULL);
    }
    append_crowd(s, want);
}

/* Flushes, then compacts, with each allocation failing in turn: nothing is lost and nothing is duplicated, also after
 * reopening. */
static void test_flush_and_compact_without_memory(void)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = DAYS(300), .max_late = -1}};
    int64_t want[TENANTS];

    begin(&s);
    fill_hours(&s, 6, want);
    suite_clock += DAYS(2);
    for (int step = 0; step < 2; step++) {
        unsigned long n = 0, used;
        int r;

        do {
            n += 1 + n / 16;
            if (to_engine(s.store)->snapshot->n_memtables < 3) /* there is always something to do */
                fill_hours(&s, 1, want);
            if (step)
                flush(&s);
            used = mem_count();
            mem_fail_at(n, false);
            r = step ? s.store->ops->retain(s.store, true, NULL) : s.store->ops->flush(s.store, NULL);
            mem_fail_at(0, false);
            used = mem_count() - used;
            if (r != 0 && r != -ENOMEM)
                tap_fail("step %d: %d when allocation %lu failed", step, r, n);
            if (!is_whole(&s, want))
                break;
            if (n % 5 == 0)
                reopen(&s);
            if (!is_whole(&s, want))
                break;
        } while (used >= n && n < 100000);
        printf("# %s: %lu allocations\n", step ? "compaction" : "flush", used);
        reopen(&s);
        is_whole(&s, want);
        for (int t = 0; t < TENANTS; t++)
            ask_without_memory(&s, tenants[t]);
    }
    ok(!there("lost"));
    end(&s);
}

/* --- damage during a compaction --- */

static void flip_byte(const char *name, off_t at)
{
    char path[256], c = 0;
    int fd;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    fd = open(path, O_RDWR);
    ok(fd >= 0 && pread(fd, &c, 1, at) == 1);
    c = (char) (c ^ 0x40);
    ok(pwrite(fd, &c, 1, at) == 1);
    close(fd);
}

static off_t file_size(const char *path)
{
    struct stat st;

    return stat(path, &st) < 0 ? 0 : st.st_size;
}

static uint64_t damage_of(struct suite *s)
{
    struct store_stats st;

    s->store->ops->stats(s->store, &st);
    return st.damaged;
}

/* A chunk, then a dictionary or footer of one segment of each tenant is damaged: the others are compacted, the damage
 * is counted, and the bytes still exist, in lost/ or in place. */
static void test_compaction_meets_damage(void)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = -1, .max_late = -1}};
    char name[192];

    begin(&s);
    for (int i = 0; i < 8; i++) { /* segments 1, 3, ... of one tenant, 2, 4, ... of the other */
        append_rows(&s, tenants[i % TENANTS], &(struct simple){.value = 1, .time = GEN_T0 - i * 300 * NS_PER_S}, 1);
        flush(&s);
    }
    flip_byte("1/seg/000000000001.seg", 100);
    flip_byte("2/seg/000000000002.seg", 100);
    snprintf(name, sizeof name, "%s/1/seg/000000000003.seg", dir);
    flip_byte("1/seg/000000000003.seg", file_size(name) - SEGMENT_TAIL - 2); /* in its footer */
    suite_clock += DAYS(2);
    retain(&s);
    ok(damage_of(&s) >= 3);
    ok(there("lost/1-000000000001.seg"));
    ok(there("lost/2-000000000002.seg"));
    ok(there("1/seg/000000000003.seg"));
    ok(!there("1/seg/000000000001.seg"));
    eq_int(total_in(&s, tenants[0]), 2); /* of four, those with the damaged chunk and footer are missing */
    eq_int(total_in(&s, tenants[1]), 3);
    retain(&s);
    reopen(&s);
    eq_int(total_in(&s, tenants[0]), 2);
    eq_int(total_in(&s, tenants[1]), 3);
    ok(there("lost/1-000000000001.seg") && there("1/seg/000000000003.seg"));
    end(&s);
}

/* --- a copy that cannot be read --- */

static ssize_t pread_or_fail(int fd, void *p, size_t n, off_t off)
{
    char link[32], path[256];
    ssize_t len;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    len = readlink(link, path, sizeof path);
    if (len > 4 && memcmp(path + len - 4, ".seg", 4) == 0) {
        errno = EIO;
        return -1;
    }
    return fd_ops_system.pread(fd, p, n, off);
}

static void test_snapshot_of_unreadable(void)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = -1}};
    struct fd_ops ops = fd_ops_system;
    char copy[160];

    begin(&s);
    for (int t = 0; t < TENANTS; t++)
        append_rows(&s, tenants[t], &(struct simple){.value = 1}, 1);
    flush(&s);
    snprintf(copy, sizeof copy, "%s-copy", dir);
    ops.pread = pread_or_fail;
    fd_ops = &ops;
    ok(s.store->ops->snapshot(s.store, copy, NULL) < 0);
    fd_ops = &fd_ops_system;
    nftw(copy, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    eq_int(s.store->ops->snapshot(s.store, copy, NULL), 0);
    nftw(copy, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    end(&s);
}

/* --- lists over many epochs --- */

static int count_up(void *ctx, const struct type *t, const struct labels *l)
{
    (void) t;
    (void) l;
    ++*(int *) ctx;
    return 0;
}

/* 2,000 series in each of eight epochs are listed once each, quickly. */
static void test_list_over_epochs(void)
{
    enum { SERIES = 2000, EPOCHS = 8 };
    struct suite s = {.config = {.keep = DAYS(40), .keep_detail = -1, .max_late = -1}};
    static struct simple rows[SERIES];
    static char names[SERIES][16];
    int64_t start;

    begin(&s);
    for (int i = 0; i < EPOCHS; i++) {
        for (int k = 0; k < SERIES; k++) {
            snprintf(names[k], sizeof names[k], "s%d", k);
            rows[k] = (struct simple){.value = 1, .service = names[k], .time = suite_clock};
        }
        for (int t = 0; t < TENANTS; t++)
            append_rows(&s, tenants[t], rows, SERIES);
        flush(&s);
        suite_clock += DAYS(22);
    }
    start = clock_mono();
    for (int t = 0; t < TENANTS; t++) {
        int n = 0;

        eq_int(s.store->ops->each_series(s.store, &(struct store_range){tenants[t], ALL, NULL}, count_up, &n), 0);
        eq_int(n, SERIES);
    }
    ok(clock_mono() - start < 20 * NS_PER_S);
    end(&s);
}

/* --- read-only --- */

static int changes;

static void note_path(const char *path)
{
    changes += strncmp(path, dir, strlen(dir)) == 0;
}

static void note_fd(int fd)
{
    char link[32], path[256];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path - 1);
    path[MAX(n, 0)] = 0;
    note_path(path);
}

static void note_at(int dirfd, const char *path)
{
    if (path[0] == '/')
        note_path(path);
    else
        note_fd(dirfd);
}

static int noting_open(int dirfd, const char *path, int flags, mode_t mode)
{
    if (flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR))
        note_at(dirfd, path);
    return fd_ops_system.open(dirfd, path, flags, mode);
}

static ssize_t noting_pwrite(int fd, const void *p, size_t n, off_t off)
{
    note_fd(fd);
    return fd_ops_system.pwrite(fd, p, n, off);
}

static ssize_t noting_write(int fd, const void *p, size_t n)
{
    note_fd(fd);
    return fd_ops_system.write(fd, p, n);
}

static int noting_truncate(int fd, off_t size)
{
    note_fd(fd);
    return fd_ops_system.truncate(fd, size);
}

static int noting_rename(int from_dir, const char *from, int to_dir, const char *to)
{
    note_at(from_dir, from);
    note_at(to_dir, to);
    return fd_ops_system.rename(from_dir, from, to_dir, to);
}

static int noting_unlink(int dirfd, const char *path, int flags)
{
    note_at(dirfd, path);
    return fd_ops_system.unlink(dirfd, path, flags);
}

static int noting_mkdir(int dirfd, const char *path, mode_t mode)
{
    note_at(dirfd, path);
    return fd_ops_system.mkdir(dirfd, path, mode);
}

static int ignore_line(void *ctx, const struct type *t, const struct labels *l)
{
    (void) ctx;
    (void) t;
    (void) l;
    return 0;
}

static void ignore_report(void *ctx, bool problem, const char *line)
{
    (void) ctx;
    (void) problem;
    (void) line;
}

/* Runs every query, and a check. */
static void read_only(struct suite *s, const int64_t *want)
{
    struct fd_ops ops = fd_ops_system;
    struct err e = {0};

    ops.open = noting_open;
    ops.pwrite = noting_pwrite;
    ops.write = noting_write;
    ops.truncate = noting_truncate;
    ops.rename = noting_rename;
    ops.unlink = noting_unlink;
    ops.mkdir = noting_mkdir;
    changes = 0;
    fd_ops = &ops;
    s->config.read_only = true;
    if (store_open(&store_segment, &s->config, &s->store, &e) < 0) {
        tap_fail("open to read: %s", e.message);
    } else {
        is_whole(s, want);
        eq_int(s->store->ops->each_series(s->store, &(struct store_range){"", ALL, NULL}, ignore_line, NULL), 0);
        eq_int(s->store->ops->check(s->store, ignore_report, NULL, NULL), 0);
        eq_int(name_native(s, "", 0, 10), 0);
        store_close(s->store);
    }
    s->store = NULL;
    s->config.read_only = false;
    fd_ops = &fd_ops_system;
    eq_int(changes, 0);
}

/* A store that is opened read-only is not written to, even if its catalogue is damaged or it has incomplete files; and
 * it still answers queries. */
static void test_read_only_changes_nothing(void)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = -1, .max_late = -1}};
    int64_t want[TENANTS];
    char path[256];
    int fd;

    begin(&s);
    fill_hours(&s, 3, want);
    flush(&s);
    store_close(s.store);
    snprintf(path, sizeof path, "%s/1/seg/000000000099.seg.tmp", dir);
    fd = open(path, O_WRONLY | O_CREAT, 0644);
    close(fd);
    read_only(&s, want);
    flip_byte("catalog.db", 30); /* in its header */
    read_only(&s, want);
    ok(!there("lost") && there("1/seg/000000000099.seg.tmp"));
    reopen(&s);
    is_whole(&s, want);
    end(&s);
}

int main(void)
{
    snprintf(dir, sizeof dir, "%s/wick-scale-%d", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", getpid());
    tap_run(test_backfill_of_months);
    tap_run(test_backfill_of_many_tenants);
    tap_run(test_backfill_compacted);
    tap_run(test_compaction_starves_nobody);
    tap_run(test_names_in_many_epochs);
    tap_run(test_names_not_written);
    tap_run(test_append_without_memory);
    tap_run(test_flush_and_compact_without_memory);
    tap_run(test_compaction_meets_damage);
    tap_run(test_snapshot_of_unreadable);
    tap_run(test_list_over_epochs);
    tap_run(test_read_only_changes_nothing);
    return tap_done();
}
