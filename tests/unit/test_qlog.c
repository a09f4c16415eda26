/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of the sending queue: order, torn ends, damage, failing allocations and writes, and random mutations of its
 * files. WICK_QUEUE_MUTATIONS sets the number of mutations (make test-all: 1000).
 */
#include "base/qlog.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "tap.h"

static char dir[64];
static unsigned reports;
static uint64_t reported_lost;
static char report[256];

static void fresh(void)
{
    snprintf(dir, sizeof dir, "%s", "/tmp/wick-qlog-XXXXXX");
    if (!mkdtemp(dir))
        tap_fail("no temporary directory");
    reports = 0;
    reported_lost = 0;
    *report = 0;
}

static void remove_files(const char *path)
{
    DIR *d = opendir(path);

    for (struct dirent *f; d && (f = readdir(d));)
        unlinkat(dirfd(d), f->d_name, 0);
    if (d)
        closedir(d);
    rmdir(path);
}

static void clean(void)
{
    char lost[128];

    snprintf(lost, sizeof lost, "%s/lost", dir);
    remove_files(lost);
    remove_files(dir);
}

static void on_damage(void *arg, uint64_t records, const char *message)
{
    (void) arg;
    reports++;
    reported_lost += records;
    snprintf(report, sizeof report, "%s", message);
}

static struct qlog *reopen(struct qlog *q, size_t segment, uint64_t max)
{
    struct qlog_options o = {.segment_bytes = segment, .max_bytes = max, .on_damage = on_damage};
    struct err e = {0};

    qlog_close(q);
    q = NULL;
    if (qlog_open(dir, &o, &q, &e) < 0)
        tap_fail("%s", e.message);
    return q;
}

static void put(struct qlog *q, int i)
{
    char text[64];
    int n = snprintf(text, sizeof text, "record %d", i);

    ok(qlog_put(q, i & 1, (uint32_t) i + 7, text, (size_t) n) == 0);
    ok(qlog_commit(q, NULL) == 0);
}

/* Reads all that there is; it must be records [from, to). */
static void expect(struct qlog *q, int from, int to)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct qlog_entry x;
    char text[64];

    for (int i = from; i < to; i++) {
        int n = snprintf(text, sizeof text, "record %d", i);

        eq_int(qlog_read(q, &x, &b, NULL), 1);
        eq_str(buf_str(&b), ((struct str){text, (uint32_t) n}));
        eq_int(x.json, i & 1);
        eq_int(x.items, i + 7);
        eq_int(x.seq, i + 1);
    }
    eq_int(qlog_read(q, &x, &b, NULL), 0);
}

static void test_order(void)
{
    struct qlog *q;

    fresh();
    q = reopen(NULL, 100, 0); /* a few records a segment */
    for (int i = 0; i < 20; i++)
        put(q, i);
    eq_int(qlog_waiting(q), 20);
    expect(q, 0, 20);
    q = reopen(q, 100, 0); /* nothing was released: everything again */
    eq_int(qlog_waiting(q), 20);
    expect(q, 0, 20);
    qlog_release(q, 13); /* twelve are done */
    eq_int(qlog_waiting(q), 8);
    put(q, 20);
    expect(q, 20, 21);
    q = reopen(q, 100, 0);
    expect(q, 12, 21);
    qlog_release(q, 22);
    eq_int(qlog_waiting(q), 0);
    ok(qlog_bytes(q) < 200); /* old segments are gone */
    q = reopen(q, 100, 0);
    expect(q, 21, 21);
    put(q, 21);
    expect(q, 21, 22);
    qlog_close(q);
    eq_int(reports, 0); /* no false alarm on any of this */
    clean();
}

/* The path of the i-th segment, or of the last one (-1). */
static void segment_path(int i, char *out, size_t n)
{
    struct dirent **v = NULL;
    int k = scandir(dir, &v, NULL, alphasort), logs = 0;

    *out = 0;
    for (int j = 0; j < k; j++) {
        if (strstr(v[j]->d_name, ".log") && (i < 0 || logs++ == i))
            snprintf(out, n, "%s/%.100s", dir, v[j]->d_name);
        free(v[j]);
    }
    free(v);
    if (!*out)
        tap_fail("no segment");
}

static bool exists(const char *name)
{
    char path[200];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static void overwrite(const char *path, off_t at, const void *p, size_t n)
{
    int fd = fd_open(AT_FDCWD, path, O_RDWR, 0);

    ok(fd >= 0 && fd_pwrite_all(fd, p, n, at) == 0);
    fd_close(fd);
}

/* As after a crash in the middle of a write: no cursor was written at the end. */
static void test_torn_tail(void)
{
    struct qlog *q;
    char path[200], cursor[100];
    struct stat st;

    fresh();
    q = reopen(NULL, 0, 0);
    for (int i = 0; i < 5; i++)
        put(q, i);
    qlog_close(q);
    segment_path(-1, path, sizeof path);
    snprintf(cursor, sizeof cursor, "%s/cursor", dir);
    unlink(cursor);
    ok(stat(path, &st) == 0);
    ok(truncate(path, st.st_size - 3) == 0);
    q = reopen(NULL, 0, 0);
    expect(q, 0, 4); /* the last was never whole */
    ok(qlog_put(q, 0, 0, "after", 5) == 0 && qlog_commit(q, NULL) == 0);
    {
        _cleanup_(buf_done) struct buf b = BUF_INIT;
        struct qlog_entry x;

        eq_int(qlog_read(q, &x, &b, NULL), 1);
        eq_str(buf_str(&b), STR("after"));
        qlog_release(q, x.seq + 1);
    }
    eq_int(reports, 1);
    qlog_close(q);
    clean();
}

enum { RECORD_SIZE = 24 + 8 }; /* of "record N" */

/* 597 records in the last file; one byte of the 78th is flipped. All others must come back. */
static void damaged_at(int field, bool last_file)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct qlog_entry x;
    struct qlog *q;
    char path[200], byte;
    int n = 0, fd;
    off_t at = 16 + field;

    fresh();
    q = reopen(NULL, 0, 0);
    for (int i = 0; i < 597; i++) {
        at += i < 78 ? 24 + snprintf(NULL, 0, "record %d", i) : 0;
        put(q, i);
    }
    if (!last_file)
        q = reopen(q, 0, 0);
    qlog_close(q);
    segment_path(0, path, sizeof path);
    fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
    ok(fd_pread_all(fd, &byte, 1, at) == 0);
    fd_close(fd);
    byte = (char) (byte ^ 0x40);
    overwrite(path, at, &byte, 1);
    q = reopen(NULL, 0, 0);
    while (qlog_read(q, &x, &b, NULL) == 1) {
        char text[64];

        eq_int(x.seq, n + 1 + (n >= 78));
        snprintf(text, sizeof text, "record %d", (int) x.seq - 1);
        eq_str(buf_str(&b), str_from(text));
        n++;
    }
    eq_int(n, 596);
    eq_int(reports, 1);
    eq_int(qlog_lost(q), 1);
    ok(strstr(report, "damaged"));
    qlog_release(q, 599);
    ok(exists("lost/0000000000000001.log") && !exists("0000000000000001.log"));
    qlog_close(q);
    clean();
}

static void test_damage(void)
{
    static const int fields[] = {0, 5, 7, 9, 16, 21, 26};

    for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
        damaged_at(fields[i], i & 1);
    damaged_at(26, true);
}

static void test_damaged_header(void)
{
    struct qlog *q;
    char path[200];

    fresh();
    q = reopen(NULL, 0, 0);
    for (int i = 0; i < 30; i++)
        put(q, i);
    qlog_close(q);
    segment_path(0, path, sizeof path);
    overwrite(path, 3, "x", 1);
    q = reopen(NULL, 0, 0);
    eq_int(reports, 1);
    ok(strstr(report, "header"));
    expect(q, 0, 30);
    eq_int(qlog_lost(q), 0);
    qlog_close(q);
    clean();
}

/* A segment that is gone, and a last one that ends before what the cursor knows to be committed. */
static void test_missing(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct qlog_entry x;
    struct qlog *q;
    char path[200];
    struct stat st;
    int n = 0;

    fresh();
    q = reopen(NULL, 100, 0);
    for (int i = 0; i < 8; i++)
        put(q, i);
    qlog_close(q);
    segment_path(1, path, sizeof path);
    unlink(path);
    segment_path(-1, path, sizeof path);
    ok(stat(path, &st) == 0 && truncate(path, st.st_size - RECORD_SIZE) == 0); /* at the border of a record */
    q = reopen(NULL, 100, 0);
    while (qlog_read(q, &x, &b, NULL) == 1)
        n++;
    eq_int(n + (int) qlog_lost(q), 8);
    ok(n < 8 && reports == 2);
    qlog_close(q);
    clean();
}

static void test_limits(void)
{
    struct qlog_options o = {0};
    struct qlog *q, *second = NULL;
    struct err e = {0};

    fresh();
    q = reopen(NULL, 64, 300);
    for (int i = 0; i < 5; i++)
        put(q, i);
    eq_int(qlog_put(q, 0, 0, "0123456789012345678901234567890123456789012345678901234567890123456789", 70), -ENOSPC);
    expect(q, 0, 5);
    qlog_release(q, 6);
    ok(qlog_put(q, 0, 0, "again", 5) == 0);
    ok(qlog_open(dir, &o, &second, &e) < 0); /* one process at a time */
    ok(strstr(e.message, "in use"));
    qlog_close(q);
    clean();
}

/* --- failing calls --- */

static _Atomic long fail_after = -1; /* calls of the failing kind until one fails */
static int fail_errno;

static bool fails(void)
{
    if (fail_after < 0 || fail_after-- != 0)
        return false;
    errno = fail_errno;
    return true;
}

static ssize_t pwrite_or_fail(int fd, const void *p, size_t n, off_t off)
{
    if (!fails())
        return fd_ops_system.pwrite(fd, p, n, off);
    return n > 8 && fail_errno == ENOSPC ? fd_ops_system.pwrite(fd, p, n / 2, off) : -1; /* torn, then the rest fails */
}

static int sync_or_fail(int fd, bool data_only)
{
    return fails() ? -1 : fd_ops_system.sync(fd, data_only);
}

static int open_or_fail(int d, const char *path, int flags, mode_t mode)
{
    return fails() ? -1 : fd_ops_system.open(d, path, flags, mode);
}

static ssize_t pread_fails(int fd, void *p, size_t n, off_t off)
{
    if (off < 200 && off + (off_t) n > 100) {
        errno = EIO;
        return -1;
    }
    return fd_ops_system.pread(fd, p, n, off);
}

/* A log with two records in memory: an allocation fails while the third is put. The two must be written. */
static void test_failed_put(void)
{
    static char large[1 << 16];
    struct qlog *q;

    fresh();
    q = reopen(NULL, 0, 0);
    ok(qlog_put(q, false, 7, "record 0", 8) == 0);
    ok(qlog_put(q, true, 8, "record 1", 8) == 0);
    mem_fail_at(1, false);
    eq_int(qlog_put(q, false, 1, large, sizeof large), -ENOMEM);
    mem_fail_at(0, false);
    ok(qlog_commit(q, NULL) == 0);
    put(q, 2);
    q = reopen(q, 0, 0);
    expect(q, 0, 3);
    qlog_close(q);
    clean();
}

/* Every write, sync and open fails in turn, with and without a crash after it. What was committed is read, in order. */
static void failing_writes(int error, bool fsync, unsigned kind)
{
    struct fd_ops broken = fd_ops_system;

    if (kind == 0)
        broken.pwrite = pwrite_or_fail;
    else if (kind == 1)
        broken.sync = sync_or_fail;
    else
        broken.open = open_or_fail;
    for (long at = 0; at < 60; at++) {
        struct qlog_options o = {.fsync = fsync, .segment_bytes = 100, .on_damage = on_damage};
        _cleanup_(buf_done) struct buf b = BUF_INIT;
        struct qlog *q = NULL;
        struct qlog_entry x;
        int committed[16], n = 0, k = 0;
        bool reached;

        fresh();
        ok(qlog_open(dir, &o, &q, NULL) == 0);
        fd_ops = &broken;
        fail_errno = error;
        fail_after = at;
        for (int i = 0; i < 12; i++) {
            char text[16];
            int len = snprintf(text, sizeof text, "record %d", i);

            if (qlog_put(q, false, 1, text, (size_t) len) == 0 && qlog_commit(q, NULL) == 0)
                committed[n++] = i;
        }
        reached = fail_after < 0;
        fail_after = -1;
        fd_ops = &fd_ops_system;
        ok(n >= 10); /* one failure costs one commit, and the log goes on, also for its reader */
        for (int i = 0; i < n; i++)
            eq_int(qlog_read(q, &x, &b, NULL), 1);
        eq_int(qlog_read(q, &x, &b, NULL), 0);
        q = reopen(q, 100, 0);
        for (int r; (r = qlog_read(q, &x, &b, NULL)) == 1;) {
            int i = atoi(buf_cstr(&b) + 7);

            if (k < n && i == committed[k])
                k++;
            else
                ok(k == 0 || i == committed[k - 1] + 1); /* refused, but whole on disk: allowed */
        }
        if (k != n)
            tap_fail("%d of %d records after call %ld failed with %s", k, n, at, strerror(error));
        qlog_close(q);
        clean();
        if (!reached)
            break;
    }
}

static void test_failing_writes(void)
{
    failing_writes(EIO, false, 0);
    failing_writes(ENOSPC, false, 0);
    failing_writes(EIO, true, 1);
    failing_writes(EMFILE, false, 2);
    failing_writes(EDQUOT, true, 2);
}

/* Bytes that cannot be read: reported as an error three times, then passed over. */
static void test_failing_read(void)
{
    struct fd_ops broken = fd_ops_system;
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct qlog_entry x;
    struct qlog *q;
    int n = 0, errors = 0;

    fresh();
    q = reopen(NULL, 0, 0);
    for (int i = 0; i < 500; i++)
        put(q, i);
    qlog_close(q);
    broken.pread = pread_fails;
    fd_ops = &broken;
    q = reopen(NULL, 0, 0);
    for (int r; (r = qlog_read(q, &x, &b, NULL)) != 0 && errors < 100;)
        *(r < 0 ? &errors : &n) += 1;
    fd_ops = &fd_ops_system;
    eq_int(errors, 3);
    ok(n >= 300 && n < 500);
    eq_int(n + (int) qlog_lost(q), 500);
    eq_int(reports, 1);
    qlog_release(q, 502);
    ok(exists("lost/0000000000000001.log"));
    qlog_close(q);
    clean();
}

/* --- mutations --- */

static uint64_t seed = 88172645463325252u;

static uint64_t below(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return n ? seed % n : 0;
}

/* One random change of one file. */
static void mutate(void)
{
    char path[200], junk[300];
    struct stat st = {0};
    int fd;

    if (below(8) == 0)
        snprintf(path, sizeof path, "%s/cursor", dir);
    else
        segment_path((int) below(3), path, sizeof path);
    fd = fd_open(AT_FDCWD, path, O_RDWR, 0);
    ok(fd >= 0 && fstat(fd, &st) == 0);
    for (size_t i = 0; i < sizeof junk; i++)
        junk[i] = (char) below(256);
    switch (below(6)) {
    case 0:
    case 1: {
        char c = 0;
        off_t at = (off_t) below((uint64_t) st.st_size);

        if (st.st_size && fd_pread_all(fd, &c, 1, at) == 0) {
            c = (char) (c ^ 1 << below(8));
            fd_pwrite_all(fd, &c, 1, at);
        }
        break;
    }
    case 2:
        ok(ftruncate(fd, (off_t) below((uint64_t) st.st_size + 1)) == 0);
        break;
    case 3:
        memset(junk, 0, sizeof junk);
        fd_pwrite_all(fd, junk, below(sizeof junk), (off_t) below((uint64_t) st.st_size + 1));
        break;
    case 4:
        fd_pwrite_all(fd, junk, below(sizeof junk), (off_t) below((uint64_t) st.st_size + 1));
        break;
    default: /* a piece of the file copied to another place of it */
        if (fd_pread_all(fd, junk, MIN(sizeof junk, (size_t) st.st_size), 0) == 0)
            fd_pwrite_all(fd, junk, below(sizeof junk), (off_t) below((uint64_t) st.st_size + 1));
    }
    fd_close(fd);
}

enum { MUTATED_RECORDS = 60 };

/* Whatever is missing or wrong afterwards was reported; what is left is right and in order; the log can be used. */
static void one_mutation(int round)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    bool seen[MUTATED_RECORDS] = {false};
    struct qlog_entry x;
    struct qlog *q;
    int missing = 0;
    uint64_t before = 0;

    fresh();
    q = reopen(NULL, 700, 0);
    for (int i = 0; i < MUTATED_RECORDS; i++)
        put(q, i);
    qlog_release(q, 5);
    qlog_close(q);
    mutate();
    q = reopen(NULL, 700, 0);
    while (qlog_read(q, &x, &b, NULL) == 1) {
        char text[64];

        snprintf(text, sizeof text, "record %d", (int) x.seq - 1);
        eq_str(buf_str(&b), str_from(text));
        ok(x.seq > before && x.seq <= MUTATED_RECORDS);
        before = x.seq;
        if (x.seq <= MUTATED_RECORDS)
            seen[x.seq - 1] = true;
    }
    for (int i = 4; i < MUTATED_RECORDS; i++)
        missing += !seen[i];
    if (missing && !reports)
        tap_fail("mutation %d: %d records are missing without a report", round, missing);
    if ((uint64_t) missing > reported_lost)
        tap_fail("mutation %d: %d records are missing, %d reported (%s)", round, missing, (int) reported_lost, report);
    ok(qlog_put(q, false, 1, "after", 5) == 0 && qlog_commit(q, NULL) == 0);
    eq_int(qlog_read(q, &x, &b, NULL), 1);
    eq_str(buf_str(&b), STR("after"));
    qlog_release(q, x.seq + 1);
    q = reopen(q, 700, 0);
    eq_int(qlog_read(q, &x, &b, NULL), 0);
    qlog_close(q);
    clean();
}

static void test_mutations(void)
{
    const char *wanted = getenv("WICK_QUEUE_MUTATIONS");
    int n = wanted ? atoi(wanted) : 150;

    for (int i = 0; i < n && !tap_bad; i++)
        one_mutation(i);
}

static int torture_log(void)
{
    static const struct qlog_options o = {.segment_bytes = 100};
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct qlog *q = NULL;
    struct qlog_entry x;
    int r, n = 0, acked = 0;

    fresh();
    r = qlog_open(dir, &o, &q, NULL);
    for (int i = 0; r == 0 && i < 6; i++) {
        r = qlog_put(q, false, 1, "record", 6);
        if (r == 0)
            r = qlog_commit(q, NULL);
        acked += r == 0;
    }
    qlog_close(q);
    q = NULL;
    mem_fail_at(0, false);
    ok(qlog_open(dir, &o, &q, NULL) == 0);
    while (q && qlog_read(q, &x, &b, NULL) == 1)
        n++;
    ok(n >= acked);
    qlog_close(q);
    clean();
    return r;
}

int main(void)
{
    tap_run(test_order);
    tap_run(test_torn_tail);
    tap_run(test_damage);
    tap_run(test_damaged_header);
    tap_run(test_missing);
    tap_run(test_limits);
    tap_run(test_failed_put);
    tap_run(test_failing_writes);
    tap_run(test_failing_read);
    tap_torture_lax(torture_log, "what was put is read back with memory");
    tap_run(test_mutations);
    return tap_done();
}
