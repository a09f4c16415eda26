/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/delivery/qlog.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "tap.h"

static char dir[64];

static void fresh(void)
{
    snprintf(dir, sizeof dir, "%s", "/tmp/wick-qlog-XXXXXX");
    if (!mkdtemp(dir))
        tap_fail("no temporary directory");
}

static void clean(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command) != 0)
        tap_fail("cannot clean up");
}

static struct qlog *reopen(struct qlog *q, size_t segment, uint64_t max)
{
    struct qlog_options o = {.segment_bytes = segment, .max_bytes = max};
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

    ok(qlog_put(q, (uint32_t) i & 1, text, (size_t) n) == 0);
    ok(qlog_commit(q, NULL) == 0);
}

/* Reads all that there is; it must be records [from, to). */
static void expect(struct qlog *q, int from, int to)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    char text[64];
    uint64_t seq;
    uint32_t kind;

    for (int i = from; i < to; i++) {
        int n = snprintf(text, sizeof text, "record %d", i);

        eq_int(qlog_read(q, &seq, &kind, &b, NULL), 1);
        eq_str(buf_str(&b), ((struct str){text, (uint32_t) n}));
        eq_int(kind, i & 1);
        eq_int(seq, i + 1);
    }
    eq_int(qlog_read(q, &seq, &kind, &b, NULL), 0);
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
    clean();
}

static void last_segment(char *out, size_t n)
{
    char command[200];
    FILE *p;

    snprintf(command, sizeof command, "ls %s/*.log | tail -1", dir);
    p = popen(command, "r");
    if (!p || !fgets(out, (int) n, p))
        tap_fail("no segment");
    if (p)
        pclose(p);
    out[strcspn(out, "\n")] = 0;
}

static void test_torn_tail(void)
{
    struct qlog *q;
    char path[200];
    struct stat st;

    fresh();
    q = reopen(NULL, 0, 0);
    for (int i = 0; i < 5; i++)
        put(q, i);
    qlog_close(q);
    last_segment(path, sizeof path);
    ok(stat(path, &st) == 0);
    ok(truncate(path, st.st_size - 3) == 0);
    q = reopen(NULL, 0, 0);
    expect(q, 0, 4); /* the last was never whole */
    put(q, 4);
    expect(q, 4, 5);
    qlog_close(q);
    clean();
}

static void test_damage(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct qlog *q;
    char path[200];
    uint64_t seq;
    uint32_t kind;
    int fd;

    fresh();
    q = reopen(NULL, 0, 0);
    for (int i = 0; i < 3; i++)
        put(q, i);
    last_segment(path, sizeof path);
    q = reopen(q, 0, 0); /* the damage is in a segment that is not the last */
    put(q, 3);
    qlog_close(q);
    fd = fd_open(AT_FDCWD, path, O_RDWR, 0);
    ok(fd_pwrite_all(fd, "X", 1, 16 + 24 + 8 + 24 + 3) == 0); /* inside of the second payload */
    fd_close(fd);
    q = reopen(NULL, 0, 0);
    eq_int(qlog_read(q, &seq, &kind, &b, NULL), 1);
    eq_int(seq, 1);
    eq_int(qlog_read(q, &seq, &kind, &b, NULL), 1);
    eq_int(seq, 3); /* the damaged one is skipped and counted */
    eq_int(qlog_read(q, &seq, &kind, &b, NULL), 1);
    eq_int(seq, 4);
    eq_int(qlog_damaged(q), 1);
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
    eq_int(qlog_put(q, 0, "0123456789012345678901234567890123456789012345678901234567890123456789", 70), -ENOSPC);
    expect(q, 0, 5);
    qlog_release(q, 6);
    ok(qlog_put(q, 0, "again", 5) == 0);
    ok(qlog_open(dir, &o, &second, &e) < 0); /* one process at a time */
    ok(strstr(e.message, "in use"));
    qlog_close(q);
    clean();
}

static ssize_t fail_write(int fd, const void *p, size_t n, off_t off)
{
    (void) fd;
    (void) p;
    (void) n;
    (void) off;
    errno = EIO;
    return -1;
}

static void test_failed_write_is_final(void)
{
    struct fd_ops broken = fd_ops_system;
    struct qlog *q;

    fresh();
    q = reopen(NULL, 0, 0);
    put(q, 0);
    broken.pwrite = fail_write;
    fd_ops = &broken;
    ok(qlog_put(q, 0, "x", 1) == 0);
    ok(qlog_commit(q, NULL) < 0);
    fd_ops = &fd_ops_system;
    eq_int(qlog_put(q, 0, "y", 1), -EIO); /* takes no more */
    expect(q, 0, 1);
    qlog_close(q);
    clean();
}

int main(void)
{
    tap_run(test_order);
    tap_run(test_torn_tail);
    tap_run(test_damage);
    tap_run(test_limits);
    tap_run(test_failed_write_is_final);
    return tap_done();
}
