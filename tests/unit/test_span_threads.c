/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the span index survives, also under ThreadSanitizer: damage in the middle of files, failing disks, a retry that
 * overtakes its failed original, two processes, a jump of the clock, a tenant that fills the queue; deleting, checking
 * and copying; and spans that are meant to cost time or memory.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "made_spans.h"
#include "query/span_pick.h"
#include "query/span_stats.h"
#include "span/span_files.h"
#include "tap.h"

static char root[64];
static _Atomic int64_t wall = 1700000000ll * NS_PER_S;

static int64_t now(void)
{
    return wall;
}

/* --- a disk that fails on request --- */

static struct fd_ops disk;
static _Atomic bool sync_waits, sync_fails;
static _Atomic int syncs_waiting;

static int disk_sync(int fd, bool data_only)
{
    if (data_only) {
        atomic_fetch_add(&syncs_waiting, 1);
        while (sync_waits)
            usleep(1000);
        atomic_fetch_sub(&syncs_waiting, 1);
    }
    if (data_only && sync_fails) {
        errno = EIO;
        return -1;
    }
    return fd_ops_system.sync(fd, data_only);
}

/* --- helpers --- */

static const char *place(const char *name)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

static struct span_index *open_as(struct span_index_config c)
{
    struct span_index *x = NULL;
    struct err e = {0};

    c.now = c.now ? c.now : now;
    c.min_free = -1;
    if (span_index_open(&c, &x, &e) < 0)
        tap_fail("%s", e.message);
    return x;
}

static struct span_index *open_dir(const char *dir)
{
    return open_as((struct span_index_config){.dir = dir});
}

static int count_row(void *ctx, const struct span_row *s)
{
    (void) s;
    ++*(int *) ctx;
    return 0;
}

static int count(struct span_index *x, const char *tenant)
{
    struct err e = {0};
    int n = 0;

    if (span_index_each(x, &(struct span_filter){.tenant = tenant, .to = INT64_MAX}, count_row, &n, &e) < 0)
        tap_fail("%s", e.message);
    return n;
}

static void add(struct span_index *x, const char *tenant, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        struct made_span s = {i, i, 0, "GET /", wall, 100, 2, 0};

        eq_int(append_spans(x, tenant, "1", &s, 1).status, SINK_OK);
    }
}

/* Changes a byte of the first file of tenant "a". */
static void damage(const char *dir, off_t at)
{
    char path[200], c;
    int fd;

    snprintf(path, sizeof path, "%s/t-61/%016x.spans", dir, 1);
    fd = open(path, O_RDWR);
    ok(pread(fd, &c, 1, at) == 1);
    c = (char) (c ^ 0x55);
    ok(pwrite(fd, &c, 1, at) == 1);
    close(fd);
}

static off_t size_of(const char *dir)
{
    char path[200];
    struct stat st;

    snprintf(path, sizeof path, "%s/t-61/%016x.spans", dir, 1);
    return stat(path, &st) == 0 ? st.st_size : -1;
}

/* --- damage --- */

static int problems;

static void note_line(void *ctx, bool problem, const char *text)
{
    (void) text;
    *(int *) ctx += 1;
    problems += problem;
}

static void check_dir(const char *dir, int want)
{
    struct span_index *x = open_as((struct span_index_config){.dir = dir, .read_only = true});
    struct err e = {0};
    int lines = 0;

    problems = 0;
    eq_int(span_index_check(x, note_line, &lines, &e), 0);
    eq_int(problems, want);
    ok(lines > want);
    span_index_close(x);
}

/* A damaged block costs its own spans only, wherever the damage is; those after it are acknowledged and must stay. */
static void test_damage(void)
{
    char dir[128];

    for (int what = 0; what < 3; what++) {
        struct span_index *x;
        struct span_index_stats s;
        off_t block;

        snprintf(dir, sizeof dir, "%s/damage%d", root, what);
        x = open_dir(dir);
        add(x, "a", 1, 6);
        span_index_close(x);
        check_dir(dir, 0);
        block = size_of(dir) / 5;
        damage(dir, block + (what == 0 ? SPAN_BLOCK_HEADER + 3 : what == 1 ? 0 : 8)); /* payload, magic, length */
        x = open_dir(dir);
        eq_int(count(x, "a"), 4);
        span_index_stats(x, &s);
        ok(s.damaged >= 1);
        eq_int(s.torn, 0);
        eq_int(size_of(dir), 5 * block);
        add(x, "a", 6, 8);
        eq_int(count(x, "a"), 6);
        span_index_close(x);
        check_dir(dir, 1);
        damage(dir, size_of(dir) - 1); /* the last one cannot be told from an unfinished write */
        x = open_dir(dir);
        eq_int(count(x, "a"), 5);
        span_index_stats(x, &s);
        eq_int(s.torn, 1);
        add(x, "a", 8, 9);
        span_index_close(x);
        x = open_dir(dir);
        eq_int(count(x, "a"), 6);
        span_index_close(x);
    }
}

/* --- failing writes --- */

struct late_ack {
    struct waiting_ack w;
    struct buf message;
};

static void begin_append(struct span_index *x, const char *tenant, const struct made_span *s, struct late_ack *a)
{
    *a =
        (struct late_ack){.w = {.ack = {on_done}, .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER}};
    put_request(&a->message, "shop", "1", s, 1);
    span_index_append(x, tenant, buf_str(&a->message), false, &a->w.ack);
}

static enum sink_status end_append(struct late_ack *a)
{
    pthread_mutex_lock(&a->w.lock);
    while (!a->w.done)
        pthread_cond_wait(&a->w.cond, &a->w.lock);
    pthread_mutex_unlock(&a->w.lock);
    buf_done(&a->message);
    return a->w.result.status;
}

static void wait_for_sync(void)
{
    for (int i = 0; i < 60000 && !syncs_waiting; i++)
        usleep(1000);
    eq_int(syncs_waiting, 1);
}

/* A retry arrives while its original is being written. It must not be acknowledged before that is on disk, and not at
 * all if that fails. */
static void test_retry(void)
{
    struct span_index *x = open_dir(place("retry"));
    struct made_span s = {1, 1, 0, "GET /", wall, 100, 2, 0};
    struct late_ack first, again;

    for (int fails = 1; fails >= 0; fails--) {
        sync_waits = true;
        begin_append(x, "a", &s, &first);
        wait_for_sync();
        begin_append(x, "a", &s, &again);
        usleep(20000);
        pthread_mutex_lock(&again.w.lock);
        ok(!again.w.done);
        pthread_mutex_unlock(&again.w.lock);
        sync_fails = fails;
        sync_waits = false;
        eq_int(end_append(&first), fails ? SINK_UNAVAILABLE : SINK_OK);
        eq_int(end_append(&again), fails ? SINK_UNAVAILABLE : SINK_OK);
        sync_fails = false;
        eq_int(count(x, "a"), !fails);
    }
    span_index_close(x);
    x = open_dir(place("retry"));
    eq_int(count(x, "a"), 1);
    span_index_close(x);
}

/* One tenant may use half of the queue while the disk is slow. */
static void test_queue(void)
{
    struct span_index *x = open_as((struct span_index_config){.dir = place("queue"), .queue = 16 << 10});
    static struct late_ack acks[200];
    struct late_ack other;
    uint32_t n = 0, refused = 0;
    struct span_index_stats st;

    sync_waits = true;
    begin_append(x, "a", &(struct made_span){1000, 1, 0, "first", wall, 1, 2, 0}, &acks[n++]);
    wait_for_sync();
    for (; n < 150; n++)
        begin_append(x, "a", &(struct made_span){n, 1, 0, "more", wall, 1, 2, 0}, &acks[n]);
    begin_append(x, "b", &(struct made_span){1, 1, 0, "other", wall, 1, 2, 0}, &other);
    span_index_stats(x, &st);
    ok(st.queued > 7 << 10 && st.queued <= 9 << 10);
    sync_waits = false;
    for (uint32_t i = 0; i < n; i++)
        refused += end_append(&acks[i]) == SINK_UNAVAILABLE;
    ok(refused > 50 && refused < 140);
    eq_int(end_append(&other), SINK_OK);
    eq_int(count(x, "a"), (int) (n - refused));
    eq_int(count(x, "b"), 1);
    span_index_stats(x, &st);
    eq_int(st.queued, 0);
    span_index_close(x);
}

/* A file that an error left behind does not stop a tenant for ever. */
static void test_leftover(void)
{
    struct span_index *x = open_dir(place("left"));
    char path[200];
    int fd;

    add(x, "a", 1, 2);
    span_index_close(x);
    x = open_as((struct span_index_config){.dir = place("left"), .size = 64 << 10, .keep = 3600 * NS_PER_S});
    wall += 600 * NS_PER_S; /* the next one begins a file */
    snprintf(path, sizeof path, "%s/t-61/%016x.spans", place("left"), 2);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    ok(fd >= 0);
    close(fd);
    add(x, "a", 2, 3);
    eq_int(count(x, "a"), 2);
    span_index_close(x);
    x = open_dir(place("left"));
    eq_int(count(x, "a"), 2);
    span_index_close(x);
}

static void test_two_processes(void)
{
    struct span_index *x = open_dir(place("two")), *y = NULL;
    struct span_index_config c = {.dir = place("two")};
    struct err e = {0};

    eq_int(span_index_open(&c, &y, &e), -EBUSY);
    ok(strstr(e.message, "another process"));
    span_index_close(x);
}

static _Atomic int64_t ahead_ns;

static int64_t ahead(void *ctx)
{
    (void) ctx;
    return ahead_ns;
}

/* The wall clock jumps 400 days ahead, and the store knows that it is wrong: nothing is deleted or hidden. */
static void test_clock(void)
{
    struct span_index *x =
        open_as((struct span_index_config){.dir = place("clock"), .keep = 7 * 86400 * NS_PER_S, .ahead = ahead});
    int64_t before = wall;

    add(x, "a", 1, 4);
    ahead_ns = 400 * 86400 * NS_PER_S;
    wall += ahead_ns;
    add(x, "a", 4, 6); /* retention runs after each write */
    add(x, "b", 1, 2);
    eq_int(count(x, "a"), 5);
    wall = before;
    ahead_ns = 0;
    add(x, "b", 2, 3);
    eq_int(count(x, "a"), 5);
    span_index_close(x);
}

/* --- deleting and copying --- */

static bool is_odd(void *ctx, const struct span_row *s)
{
    (void) ctx;
    return s->link.span_id[1] & 1;
}

static void check_delete(const char *dir)
{
    struct span_index *x = open_dir(dir);
    struct err e = {0};
    uint64_t n = 0;

    add(x, "a", 1, 11);
    add(x, "b", 1, 11);
    eq_int(span_index_delete(x, "a", &(struct span_delete){0, wall, NULL, NULL}, &n, &e), 0);
    eq_int(n, 0);
    eq_int(span_index_delete(x, "a", &(struct span_delete){0, INT64_MAX, is_odd, NULL}, &n, &e), 0);
    eq_int(n, 5);
    eq_int(count(x, "a"), 5);
    eq_int(count(x, "b"), 10);
    add(x, "a", 11, 13);
    eq_int(count(x, "a"), 7);
    if (dir) {
        span_index_close(x);
        check_dir(dir, 0);
        x = open_dir(dir);
        eq_int(count(x, "a"), 7);
    }
    eq_int(span_index_delete(x, "a", &(struct span_delete){0, INT64_MAX, NULL, NULL}, &n, &e), 0);
    eq_int(n, 7);
    eq_int(count(x, "a"), 0);
    eq_int(span_index_delete(x, "nobody", &(struct span_delete){0, INT64_MAX, NULL, NULL}, &n, &e), 0);
    eq_int(n, 0);
    eq_int(count(x, "b"), 10);
    add(x, "a", 1, 3);
    eq_int(count(x, "a"), 2);
    span_index_close(x);
}

static void test_delete(void)
{
    check_delete(NULL);
    check_delete(place("delete"));
    eq_int(size_of(place("delete")), -1);
}

static void test_copy(void)
{
    struct span_index *x = open_dir(place("from"));
    char to[128];
    struct err e = {0};

    snprintf(to, sizeof to, "%s", place("to"));
    add(x, "a", 1, 5);
    add(x, "", 1, 3);
    eq_int(span_index_copy(x, to, &e), 0); /* it is being written to */
    add(x, "a", 5, 9);
    eq_int(span_index_copy(x, to, &e), -EEXIST);
    span_index_close(x);
    x = open_dir(to);
    eq_int(count(x, "a"), 4);
    eq_int(count(x, ""), 2);
    add(x, "a", 5, 6);
    eq_int(count(x, "a"), 5);
    span_index_close(x);
}

/* --- hostile spans --- */

static void append_many(struct span_index *x, const struct made_span *v, size_t n)
{
    for (size_t i = 0; i < n; i += 1000)
        eq_int(append_spans(x, "", "1", v + i, MIN(n - i, (size_t) 1000)).status, SINK_OK);
}

/* One chain of 30,000 parents, and a circle: each span is passed once, so it takes no time. */
static void test_chain(void)
{
    enum { N = 30000 };
    struct span_index *x = open_dir(NULL);
    struct made_span *v = mem_zalloc_array(N + 2, sizeof *v);
    struct span_filter f = {.tenant = "", .to = INT64_MAX, .name = STR("root")};
    struct span_picks p;
    struct err e = {0};

    for (uint32_t i = 0; i < N; i++)
        v[i] = (struct made_span){1, i + 1, i, i ? "child" : "root", wall + i, 100, 1, 0};
    v[N] = (struct made_span){1, N + 1, N + 2, "circle", wall, 1, 1, 0};
    v[N + 1] = (struct made_span){1, N + 2, N + 1, "circle", wall, 1, 1, 0};
    append_many(x, v, N + 2);
    eq_int(span_picks_collect(x, &f, &p, &e), 0);
    eq_int(p.n, 1);
    eq_int(span_picks_children(x, "", &p, NULL, &e), 0);
    eq_int(p.n, N);
    span_picks_done(&p);
    mem_free(v);
    span_index_close(x);
}

/* More names than are listed: the rest is one row. Durations up to the largest number. */
static void test_names(void)
{
    enum { N = 25000 };
    struct span_index *x = open_dir(NULL);
    struct made_span *v = mem_zalloc_array(N, sizeof *v);
    char(*names)[16] = mem_zalloc_array(N, sizeof *names);
    struct span_filter f = {.tenant = "", .to = INT64_MAX};
    struct span_heatmap h = {.from = 0, .step = INT64_MAX / 2, .n_rows = 30};
    struct span_names l;
    uint64_t total = 0;
    struct err e = {0};

    for (uint32_t i = 0; i < N; i++) {
        snprintf(names[i], sizeof *names, "/user/%u", i);
        v[i] = (struct made_span){i, 1, 0, names[i], 1, INT64_MAX - 1 - i % 3, 2, 0};
    }
    append_many(x, v, N);
    eq_int(span_names_list(x, &f, &l, &e), 0);
    eq_int(l.n, 20001);
    for (uint32_t i = 0; i < l.n; i++)
        total += l.v[i].count;
    eq_int(total, N);
    span_names_done(&l);
    eq_int(span_heatmap_fill(x, &f, &h, &e), 0);
    eq_int(h.count, N);
    for (uint32_t i = 1; i <= h.n_rows; i++)
        ok(h.bounds[i] >= h.bounds[i - 1]);
    span_heatmap_done(&h);
    mem_free(names);
    mem_free(v);
    span_index_close(x);
}

/* Percentiles of a name with more spans than durations are kept. */
static void test_percentiles(void)
{
    enum { N = 200000 };
    struct span_index *x = open_dir(NULL);
    struct made_span *v = mem_zalloc_array(N, sizeof *v);
    struct span_names l;
    struct err e = {0};

    for (uint32_t i = 0; i < N; i++) /* 7919 is coprime to N: each duration once, in no order */
        v[i] = (struct made_span){i, 1, 0, "GET /", wall, (int64_t) ((uint64_t) i * 7919 % N), 2, 0};
    append_many(x, v, N);
    eq_int(span_names_list(x, &(struct span_filter){.tenant = "", .to = INT64_MAX}, &l, &e), 0);
    eq_int(l.n, 1);
    eq_int(l.v[0].count, N);
    eq_int(l.v[0].max, N - 1);
    ok(l.v[0].p50 > N * 0.49 && l.v[0].p50 < N * 0.51);
    ok(l.v[0].p99 > N * 0.985 && l.v[0].p99 < N * 0.995);
    span_names_done(&l);
    mem_free(v);
    span_index_close(x);
}

/* Many instances of a service: counting them is not quadratic, and too many are refused with a reason. */
static void test_instances(void)
{
    struct span_index *x = open_dir(NULL);
    struct span_requests_query q = {.tenant = "", .service = STR("shop"), .to = wall + 1000, .step = NS_PER_S};
    struct span_requests r;
    struct err e = {0};
    char version[16];

    q.from = wall;
    q.step = 1;
    for (uint32_t i = 0; i < 2000; i++) {
        snprintf(version, sizeof version, "%u", i);
        eq_int(append_spans(x, "", version, &(struct made_span){i, 1, 0, "n", wall, 1, 2, 0}, 1).status, SINK_OK);
    }
    eq_int(span_index_requests(x, &q, &r, &e), -E2BIG);
    ok(strstr(e.message, "shorter time range"));
    q.step = 1000;
    eq_int(span_index_requests(x, &q, &r, &e), 0);
    eq_int(r.n, 2000);
    span_requests_done(&r);
    span_index_close(x);
}

int main(void)
{
    char command[128];

    snprintf(root, sizeof root, "/tmp/test_span_threads.XXXXXX");
    if (!mkdtemp(root))
        return 1;
    disk = fd_ops_system;
    disk.sync = disk_sync;
    fd_ops = &disk;
    tap_run(test_damage);
    tap_run(test_retry);
    tap_run(test_queue);
    tap_run(test_leftover);
    tap_run(test_two_processes);
    tap_run(test_clock);
    tap_run(test_delete);
    tap_run(test_copy);
    tap_run(test_chain);
    tap_run(test_names);
    tap_run(test_percentiles);
    tap_run(test_instances);
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command) != 0 ? 1 : tap_done();
}
