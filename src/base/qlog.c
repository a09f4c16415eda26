/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue's log: opening, appending, reading, releasing. See qlog.h for the format and qlog_scan.c for finding
 * records. The mutex protects the list of segments and their committed sizes; the only writer does the file I/O of
 * appends without holding it.
 */
#include "base/qlog.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/qlog_scan.h"

#define FILE_MAGIC "WICKQLG1"

enum { CURSOR = 24, SEGMENTS_MAX = 65536, SEGMENT_DEFAULT = 16 << 20, READ_ATTEMPTS = 3 };

struct qlog {
    pthread_mutex_t lock;
    struct qlog_options o;
    int dir, lock_fd, cursor_fd;
    struct qlog_segment *segments; /* oldest first; the last one grows */
    size_t n, cap;
    uint64_t next_seq;  /* of the next record to be put */
    uint64_t committed; /* next_seq as the reader sees it */
    uint64_t released;
    uint64_t bytes, lost;
    /* used by the writer */
    struct buf pending; /* records not yet written */
    uint64_t pending_records;
    bool seal; /* nothing more may be appended to the last segment */
    /* used by the reader */
    uint64_t read_segment; /* its first seq */
    struct qlog_place place;
    unsigned read_errors;
};

/* Counts lost records and reports where they were. */
static void damage(struct qlog *q, uint64_t records, const char *fmt, ...) _printf_(3, 4);

static void damage(struct qlog *q, uint64_t records, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    pthread_mutex_lock(&q->lock);
    q->lost += records;
    pthread_mutex_unlock(&q->lock);
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (q->o.on_damage)
        q->o.on_damage(q->o.arg, records, text);
}

static void segment_name(uint64_t first, char out[32])
{
    snprintf(out, 32, "%016llx.log", (unsigned long long) first);
}

/* --- lost/ --- */

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Removes the oldest files of lost/ until there is room for one more. */
static void bound_lost(int lost)
{
    char names[QLOG_LOST_FILES * 4][32];
    size_t n = 0;
    int fd = dup(lost);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    if (!d) {
        fd_close(fd);
        return;
    }
    while (n < ARRAY_SIZE(names) && (entry = readdir(d)))
        if (*entry->d_name != '.' && strlen(entry->d_name) < sizeof names[0])
            snprintf(names[n++], sizeof names[0], "%s", entry->d_name);
    closedir(d);
    qsort(names, n, sizeof names[0], by_name);
    for (size_t i = 0; i + QLOG_LOST_FILES <= n; i++)
        fd_unlink(lost, names[i]);
}

/* Moves a damaged segment to lost/; if that fails, it stays where it is. */
static void quarantine(struct qlog *q, const char *name)
{
    _cleanup_(fd_closep) int lost = -1;

    if (fd_mkdir(q->dir, "lost", 0700) < 0)
        return;
    lost = fd_open(q->dir, "lost", O_RDONLY | O_DIRECTORY, 0);
    if (lost < 0)
        return;
    bound_lost(lost);
    fd_rename(q->dir, name, lost, name);
}

/* --- opening --- */

static int add_segment(struct qlog *q, const struct qlog_segment *s)
{
    int r = array_push(q->segments, q->n, q->cap, SEGMENTS_MAX, *s);

    if (r == 0)
        q->bytes += s->size;
    return r;
}

/* Creates a file for the next records and writes its header. */
static int create_segment(struct qlog *q, const char *name)
{
    char head[QLOG_HEADER];
    int fd = fd_open(q->dir, name, O_RDWR | O_CREAT | O_EXCL, 0600), r;

    if (fd == -EEXIST) { /* never overwrite it */
        quarantine(q, name);
        fd = fd_open(q->dir, name, O_RDWR | O_CREAT | O_EXCL, 0600);
    }
    if (fd < 0)
        return fd;
    memcpy(head, FILE_MAGIC, 8);
    store_u64(head + 8, q->next_seq);
    r = fd_pwrite_all(fd, head, sizeof head, 0);
    if (r == 0 && q->o.fsync)
        r = fd_sync(fd);
    if (r == 0 && q->o.fsync)
        r = fd_sync(q->dir);
    if (r < 0) {
        fd_close(fd);
        fd_unlink(q->dir, name);
        return r;
    }
    return fd;
}

/* Creates the segment for the next records. It replaces the last one if that is still empty, and so has the same
 * name. */
static int new_segment(struct qlog *q, struct err *e)
{
    struct qlog_segment s = {.first = q->next_seq, .size = QLOG_HEADER};
    bool replace;
    char name[32];
    int r = 0;

    pthread_mutex_lock(&q->lock);
    replace = q->n && q->segments[q->n - 1].first == q->next_seq;
    pthread_mutex_unlock(&q->lock);
    segment_name(q->next_seq, name);
    if (replace)
        fd_unlink(q->dir, name); /* sealed until there is a new one */
    s.fd = create_segment(q, name);
    if (s.fd < 0)
        return err_set(e, s.fd, "cannot create queue segment %s: %m", name);
    pthread_mutex_lock(&q->lock);
    if (replace) {
        fd_close(q->segments[q->n - 1].fd); /* empty, so the reader never uses it */
        q->segments[q->n - 1] = s;
    } else {
        r = add_segment(q, &s);
    }
    pthread_mutex_unlock(&q->lock);
    if (r < 0) {
        fd_close(s.fd);
        fd_unlink(q->dir, name);
        return err_set(e, r, "cannot add queue segment %s: %m", name);
    }
    q->seal = false;
    return 0;
}

/* The seq after the last record of a log whose last segment this is. An unreadable part counts as the largest number of
 * records that fit into it, so that no seq is used twice. */
static int find_next_seq(struct qlog *q, const struct qlog_segment *s)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct qlog_place p = {QLOG_HEADER, s->first};
    struct qlog_found f = {0};
    int r;

    do
        r = qlog_scan(s, UINT64_MAX, true, &p, &b, &f);
    while (r == 1);
    if (r < 0)
        return r;
    if (f.skipped)
        p.seq += 1 + (f.read_failed ? f.skipped / QLOG_RECORD : 0);
    q->next_seq = MAX(q->next_seq, p.seq);
    return 0;
}

/* Returns 0 also if the segment is moved aside, because it cannot be opened or nothing was ever written to it. */
static int open_segment(struct qlog *q, uint64_t first, struct err *e)
{
    struct qlog_segment s = {.first = first};
    char name[32], head[QLOG_HEADER];
    struct stat st;
    int r;

    segment_name(first, name);
    s.fd = fd_open(q->dir, name, O_RDWR, 0);
    if (s.fd == -EMFILE || s.fd == -ENFILE || s.fd == -ENOMEM)
        return err_set(e, s.fd, "cannot open queue segment %s: %m", name);
    r = s.fd < 0 ? s.fd : fstat(s.fd, &st) < 0 ? -errno : 0;
    if (r < 0 || !S_ISREG(st.st_mode)) {
        fd_close(s.fd);
        quarantine(q, name);
        q->next_seq = MAX(q->next_seq, first + 1);
        damage(q, 0, "queue segment %s cannot be opened and was moved to lost/: %s", name, strerror(-r));
        return 0;
    }
    s.size = (uint64_t) st.st_size;
    if (s.size <= QLOG_HEADER) { /* it has no record */
        q->next_seq = MAX(q->next_seq, first);
        fd_close(s.fd);
        fd_unlink(q->dir, name);
        return 0;
    }
    if (fd_pread_all(s.fd, head, QLOG_HEADER, 0) < 0 || memcmp(head, FILE_MAGIC, 8) != 0 ||
        load_u64(head + 8) != first) {
        s.damaged = true; /* the name contains everything that the header does */
        damage(q, 0, "queue segment %s: the header is damaged; reading its records anyway", name);
    }
    r = add_segment(q, &s);
    if (r < 0) {
        fd_close(s.fd);
        return err_set(e, r, "cannot open queue segment %s: %m", name);
    }
    return 0;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

    return (x > y) - (x < y);
}

static int find_segments(struct qlog *q, const char *dir, struct err *e)
{
    _cleanup_(mem_freep) uint64_t *v = NULL;
    DIR *d = opendir(dir);
    struct dirent *entry;
    size_t n = 0, cap = 0;
    int r = 0;

    if (!d)
        return err_set(e, -errno, "cannot read queue directory '%s': %m", dir);
    while (r == 0 && (entry = readdir(d))) {
        char *end;
        uint64_t first = strtoull(entry->d_name, &end, 16);

        if (strlen(entry->d_name) != 20 || strcmp(end, ".log") != 0)
            continue;
        r = array_push(v, n, cap, SEGMENTS_MAX, first);
    }
    closedir(d);
    if (n)
        qsort(v, n, sizeof *v, by_number);
    for (size_t i = 0; r == 0 && i < n; i++)
        r = open_segment(q, v[i], e);
    return r;
}

static void write_cursor(struct qlog *q, uint64_t released, uint64_t committed)
{
    char c[CURSOR];

    store_u64(c, released);
    store_u32(c + 8, crc32c(0, c, 8));
    store_u64(c + 12, committed);
    store_u32(c + 20, crc32c(0, c + 12, 8));
    fd_pwrite_all(q->cursor_fd, c, sizeof c, 0); /* if this fails, some records are sent again after a restart */
}

/* Returns whether there was a valid cursor. *ret_committed is 0 if the cursor does not contain it. */
static bool read_cursor(struct qlog *q, uint64_t *ret_committed)
{
    char c[CURSOR];

    *ret_committed = 0;
    if (fd_pread_all(q->cursor_fd, c, 12, 0) < 0 || crc32c(0, c, 8) != load_u32(c + 8))
        return false;
    q->released = load_u64(c);
    if (fd_pread_all(q->cursor_fd, c + 12, 12, 12) == 0 && crc32c(0, c + 12, 8) == load_u32(c + 20))
        *ret_committed = load_u64(c + 12);
    return true;
}

static int open_dir(struct qlog *q, const char *path, struct err *e)
{
    q->dir = fd_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
    if (q->dir < 0)
        return err_set(e, q->dir, "cannot open queue directory '%s': %m", path);
    q->lock_fd = fd_open(q->dir, "lock", O_RDWR | O_CREAT, 0600);
    if (q->lock_fd < 0)
        return err_set(e, q->lock_fd, "cannot lock queue directory '%s': %m", path);
    if (flock(q->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return err_set(e, -errno, "queue directory '%s' is in use by another process", path);
    q->cursor_fd = fd_open(q->dir, "cursor", O_RDWR | O_CREAT, 0600);
    if (q->cursor_fd < 0)
        return err_set(e, q->cursor_fd, "cannot open the cursor of '%s': %m", path);
    return 0;
}

static int open_all(struct qlog *q, const char *path, struct err *e)
{
    uint64_t committed, first;
    bool known;
    int r = open_dir(q, path, e);

    if (r < 0)
        return r;
    known = read_cursor(q, &committed);
    q->next_seq = MAX(MAX(q->released, committed), 1ull);
    r = find_segments(q, path, e);
    if (r == 0 && q->n)
        r = find_next_seq(q, &q->segments[q->n - 1]);
    if (r == 0)
        r = new_segment(q, e); /* never append to what another process has written */
    if (r < 0)
        return r;
    q->committed = q->next_seq;
    first = q->segments[0].first;
    if (known && q->released && q->released < first)
        damage(q, first - q->released, "%llu records before queue segment %016llx.log are missing",
               (unsigned long long) (first - q->released), (unsigned long long) first);
    q->released = MAX(q->released, first);
    return 0;
}

int qlog_open(const char *dir, const struct qlog_options *o, struct qlog **ret, struct err *e)
{
    _cleanup_(qlog_closep) struct qlog *q = mem_zalloc(sizeof *q);
    int r;

    if (!q)
        return -ENOMEM;
    q->o = *o;
    q->dir = q->lock_fd = q->cursor_fd = -1;
    if (!q->o.segment_bytes)
        q->o.segment_bytes = SEGMENT_DEFAULT;
    pthread_mutex_init(&q->lock, NULL);
    buf_init(&q->pending, 0);
    r = fd_mkdir_all(dir, 0700);
    if (r < 0)
        return err_set(e, r, "cannot create queue directory '%s': %m", dir);
    r = open_all(q, dir, e);
    if (r < 0)
        return r;
    q->read_segment = q->segments[0].first;
    q->place = (struct qlog_place){QLOG_HEADER, q->read_segment};
    qlog_release(q, q->released);
    *ret = TAKE(q);
    return 0;
}

void qlog_close(struct qlog *q)
{
    if (!q)
        return;
    if (q->committed)
        write_cursor(q, q->released, q->committed);
    for (size_t i = 0; i < q->n; i++)
        fd_close(q->segments[i].fd);
    mem_free(q->segments);
    fd_close(q->cursor_fd);
    fd_close(q->lock_fd);
    fd_close(q->dir);
    buf_done(&q->pending);
    pthread_mutex_destroy(&q->lock);
    mem_free(q);
}

/* --- writing --- */

int qlog_put(struct qlog *q, bool json, uint32_t items, const void *p, size_t n)
{
    char head[QLOG_RECORD];

    if (n > QLOG_RECORD_MAX)
        return -E2BIG;
    if (q->o.max_bytes && qlog_bytes(q) + q->pending.n + QLOG_RECORD + n > q->o.max_bytes)
        return -ENOSPC;
    if (!buf_reserve(&q->pending, QLOG_RECORD + n)) {
        q->pending.err = 0; /* what was put before is still there */
        return -ENOMEM;
    }
    qlog_record_head(head, q->next_seq + q->pending_records, json | MIN(items, (uint32_t) QLOG_ITEMS_MAX) << 8, p, n);
    buf_put(&q->pending, head, QLOG_RECORD);
    buf_put(&q->pending, p, n);
    q->pending_records++;
    return 0;
}

size_t qlog_uncommitted(const struct qlog *q)
{
    return q->pending.n;
}

/* A copy, because the reader may remove old segments at the same time, but never the last. */
static struct qlog_segment last_segment(struct qlog *q)
{
    struct qlog_segment s;

    pthread_mutex_lock(&q->lock);
    s = q->segments[q->n - 1];
    pthread_mutex_unlock(&q->lock);
    return s;
}

static int write_pending(struct qlog *q, struct err *e)
{
    struct qlog_segment s = last_segment(q);
    int r = 0;

    if (q->seal || (s.size > QLOG_HEADER && s.size + q->pending.n > q->o.segment_bytes)) {
        r = new_segment(q, e);
        if (r < 0)
            return r;
        s = last_segment(q);
    }
    r = fd_pwrite_all(s.fd, q->pending.p, q->pending.n, (off_t) s.size);
    if (r < 0) {
        q->seal = fd_truncate(s.fd, (off_t) s.size) < 0;
        return err_set(e, r, "cannot write the queue's log: %m");
    }
    if (q->o.fsync)
        r = fd_datasync(s.fd);
    if (r < 0) {
        q->seal = true; /* it is unknown how much of this write is on disk, and another sync would not report it */
        fd_truncate(s.fd, (off_t) s.size);
        return err_set(e, r, "cannot sync the queue's log: %m");
    }
    return 0;
}

int qlog_commit(struct qlog *q, struct err *e)
{
    int r;

    if (!q->pending.n)
        return 0;
    r = write_pending(q, e);
    if (r == 0) {
        pthread_mutex_lock(&q->lock);
        q->segments[q->n - 1].size += q->pending.n;
        q->bytes += q->pending.n;
        q->next_seq += q->pending_records;
        q->committed = q->next_seq;
        pthread_mutex_unlock(&q->lock);
    }
    if (q->pending.cap > (4 << 20))
        buf_done(&q->pending);
    buf_reset(&q->pending);
    q->pending_records = 0;
    return r;
}

/* --- reading --- */

/* The reader's current segment, whether it is the last one, and the seq at which it ends. */
static void reader_segment(struct qlog *q, struct qlog_segment *ret, bool *ret_last, uint64_t *ret_end)
{
    size_t i = 0;

    pthread_mutex_lock(&q->lock);
    while (i + 1 < q->n && q->segments[i].first < q->read_segment)
        i++;
    *ret = q->segments[i];
    *ret_last = i + 1 == q->n;
    *ret_end = *ret_last ? q->committed : q->segments[i + 1].first;
    pthread_mutex_unlock(&q->lock);
}

static void next_segment(struct qlog *q, uint64_t first)
{
    q->read_segment = first;
    q->place = (struct qlog_place){QLOG_HEADER, first};
}

/* Reports bytes [off, off + n) of a segment, or records that are missing at its end (n 0). */
static void segment_damage(struct qlog *q, uint64_t first, uint64_t off, uint64_t n, uint64_t records)
{
    char name[32];

    pthread_mutex_lock(&q->lock);
    for (size_t i = 0; i < q->n; i++)
        if (q->segments[i].first == first)
            q->segments[i].damaged = true;
    pthread_mutex_unlock(&q->lock);
    segment_name(first, name);
    if (n)
        damage(q, records, "queue segment %s: %llu bytes at offset %llu are damaged, up to %llu records are lost", name,
               (unsigned long long) n, (unsigned long long) off, (unsigned long long) records);
    else
        damage(q, records, "queue segment %s: %llu records are missing after offset %llu", name,
               (unsigned long long) records, (unsigned long long) off);
}

int qlog_read(struct qlog *q, struct qlog_entry *ret, struct buf *b, struct err *e)
{
    for (;;) {
        struct qlog_place before, p;
        struct qlog_segment s;
        struct qlog_found f;
        uint64_t end, reached;
        bool last;
        int r;

        reader_segment(q, &s, &last, &end);
        if (s.first != q->read_segment)
            next_segment(q, s.first);
        before = p = q->place;
        r = qlog_scan(&s, end, q->read_errors >= READ_ATTEMPTS, &p, b, &f);
        if (r < 0) {
            q->read_errors += r != -ENOMEM;
            return err_set(e, r, "cannot read the queue's log: %m");
        }
        q->read_errors = 0;
        q->place = p;
        reached = r == 1 ? f.seq : end;
        if (f.skipped || reached > before.seq)
            segment_damage(q, s.first, before.off, f.skipped, reached > before.seq ? reached - before.seq : 0);
        q->place.seq = MAX(q->place.seq, reached);
        if (r == 0 && last)
            return 0;
        if (r == 0) {
            next_segment(q, end);
            continue;
        }
        if (f.seq < q->released) /* completed before a restart */
            continue;
        *ret = (struct qlog_entry){f.seq, f.kind >> 8, (f.kind & 0xff) == 1};
        return 1;
    }
}

uint64_t qlog_read_seq(const struct qlog *q)
{
    return q->place.seq;
}

/* Removes the oldest segment from the list if all of it is released. */
static bool take_released(struct qlog *q, struct qlog_segment *ret)
{
    bool found;

    pthread_mutex_lock(&q->lock);
    found = q->n > 1 && q->segments[1].first <= q->released;
    if (found) {
        *ret = q->segments[0];
        memmove(q->segments, q->segments + 1, (q->n - 1) * sizeof *q->segments);
        q->n--;
        q->bytes -= ret->size;
    }
    pthread_mutex_unlock(&q->lock);
    return found;
}

void qlog_release(struct qlog *q, uint64_t seq)
{
    struct qlog_segment s;
    uint64_t committed;
    char name[32];

    pthread_mutex_lock(&q->lock);
    q->released = MAX(q->released, seq);
    committed = q->committed;
    pthread_mutex_unlock(&q->lock);
    write_cursor(q, q->released, committed);
    while (take_released(q, &s)) {
        fd_close(s.fd);
        segment_name(s.first, name);
        if (s.damaged)
            quarantine(q, name);
        else
            fd_unlink(q->dir, name);
    }
}

uint64_t qlog_waiting(struct qlog *q)
{
    uint64_t n;

    pthread_mutex_lock(&q->lock);
    n = q->committed - MIN(q->released, q->committed);
    pthread_mutex_unlock(&q->lock);
    return n;
}

static uint64_t read_locked(struct qlog *q, const uint64_t *field)
{
    uint64_t n;

    pthread_mutex_lock(&q->lock);
    n = *field;
    pthread_mutex_unlock(&q->lock);
    return n;
}

uint64_t qlog_committed(struct qlog *q)
{
    return read_locked(q, &q->committed);
}

uint64_t qlog_bytes(struct qlog *q)
{
    return read_locked(q, &q->bytes);
}

uint64_t qlog_lost(struct qlog *q)
{
    return read_locked(q, &q->lost);
}
