/* SPDX-License-Identifier: Apache-2.0 */
/* See qlog.h. The mutex guards the list of segments and their committed sizes; file I/O of appends is done outside of it,
 * by the only writer. */
#include "pipeline/delivery/qlog.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"

#define MAGIC 0x31525157u
#define FILE_MAGIC "WICKQLG1"

enum { HEADER = 16, RECORD = 24, SEGMENTS_MAX = 65536, SEGMENT_DEFAULT = 16 << 20 };

struct segment {
    uint64_t first; /* seq */
    int fd;
    uint64_t size; /* committed */
};

struct qlog {
    pthread_mutex_t lock;
    struct qlog_options o;
    int dir, lock_fd, cursor_fd;
    struct segment *segments; /* oldest first; the last one grows */
    size_t n, cap;
    uint64_t next_seq;  /* of the next record put */
    uint64_t committed; /* next_seq as the reader sees it */
    uint64_t released;
    uint64_t bytes, damaged;
    struct buf pending; /* the writer's: records not yet written */
    uint64_t pending_records;
    bool broken;
    /* the reader's */
    uint64_t read_segment; /* its first seq */
    uint64_t read_off, read_seq;
};

static void put32(char *p, uint32_t v)
{
    v = htole32(v);
    memcpy(p, &v, 4);
}

static void put64(char *p, uint64_t v)
{
    v = htole64(v);
    memcpy(p, &v, 8);
}

static uint32_t get32(const char *p)
{
    uint32_t v;

    memcpy(&v, p, 4);
    return le32toh(v);
}

static uint64_t get64(const char *p)
{
    uint64_t v;

    memcpy(&v, p, 8);
    return le64toh(v);
}

static void segment_name(uint64_t first, char out[32])
{
    snprintf(out, 32, "%016llx.log", (unsigned long long) first);
}

/* --- opening --- */

static int add_segment(struct qlog *q, uint64_t first, int fd, uint64_t size)
{
    void *p = q->segments;
    int r = mem_grow(&p, &q->cap, q->n + 1, sizeof *q->segments, SEGMENTS_MAX);

    q->segments = p;
    if (r < 0)
        return r;
    q->segments[q->n++] = (struct segment){first, fd, size};
    q->bytes += size;
    return 0;
}

static int new_segment(struct qlog *q, uint64_t first, struct err *e)
{
    char name[32], head[HEADER];
    int fd, r;

    segment_name(first, name);
    fd = fd_open(q->dir, name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0)
        return err_set(e, fd, "cannot create queue segment %s: %m", name);
    memcpy(head, FILE_MAGIC, 8);
    put64(head + 8, first);
    r = fd_pwrite_all(fd, head, sizeof head, 0);
    if (r == 0 && q->o.fsync)
        r = fd_sync(fd);
    if (r == 0 && q->o.fsync)
        r = fd_sync(q->dir);
    pthread_mutex_lock(&q->lock);
    if (r == 0)
        r = add_segment(q, first, fd, HEADER);
    pthread_mutex_unlock(&q->lock);
    if (r < 0) {
        fd_close(fd);
        return err_set(e, r, "cannot write queue segment %s: %m", name);
    }
    return 0;
}

/* A record's head at off of a segment of `size` bytes: 1, 0 at the end, -EBADMSG when it is none. */
static int read_head(int fd, uint64_t off, uint64_t size, uint32_t *ret_n, uint64_t *ret_seq, uint32_t *ret_kind,
                     uint32_t *ret_crc, char head[RECORD])
{
    int r;

    if (off + RECORD > size)
        return off == size ? 0 : -EBADMSG;
    r = fd_pread_all(fd, head, RECORD, (off_t) off);
    if (r < 0)
        return r;
    *ret_n = get32(head + 4);
    *ret_seq = get64(head + 8);
    *ret_kind = get32(head + 16);
    *ret_crc = get32(head + 20);
    return get32(head) == MAGIC && *ret_n <= QLOG_RECORD_MAX && off + RECORD + *ret_n <= size ? 1 : -EBADMSG;
}

/* The last segment: finds where whole records end, cuts the rest off, and learns the next seq. */
static int repair_tail(struct qlog *q, struct segment *s, struct err *e)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    uint64_t off = HEADER, seq = s->first;
    char head[RECORD];

    for (;;) {
        uint32_t n, kind, crc;
        uint64_t found;
        int r = read_head(s->fd, off, s->size, &n, &found, &kind, &crc, head);

        if (r <= 0)
            break;
        buf_reset(&b);
        if (!buf_reserve(&b, n + 1))
            return -ENOMEM;
        if (fd_pread_all(s->fd, b.p, n, (off_t) (off + RECORD)) < 0 || crc32c(crc32c(0, head + 4, 16), b.p, n) != crc)
            break;
        off += RECORD + n;
        seq = found + 1;
    }
    q->next_seq = MAX(q->next_seq, seq);
    if (off < s->size) {
        int r = fd_truncate(s->fd, (off_t) off);

        if (r < 0)
            return err_set(e, r, "cannot cut the torn end of a queue segment: %m");
        q->bytes -= s->size - off;
        s->size = off;
    }
    return 0;
}

static int open_segment(struct qlog *q, uint64_t first, struct err *e)
{
    char name[32], head[HEADER];
    struct stat st;
    int fd, r;

    segment_name(first, name);
    fd = fd_open(q->dir, name, O_RDWR, 0);
    if (fd < 0)
        return err_set(e, fd, "cannot open queue segment %s: %m", name);
    r = fstat(fd, &st) < 0 ? -errno : 0;
    if (r == 0 && (st.st_size < HEADER || fd_pread_all(fd, head, HEADER, 0) < 0 || memcmp(head, FILE_MAGIC, 8) != 0)) {
        fd_close(fd); /* died while making it: nothing in it was acknowledged */
        fd_unlink(q->dir, name);
        return 0;
    }
    if (r == 0)
        r = add_segment(q, first, fd, (uint64_t) st.st_size);
    if (r < 0) {
        fd_close(fd);
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
        void *p = v;
        uint64_t first = strtoull(entry->d_name, &end, 16);

        if (strlen(entry->d_name) != 20 || strcmp(end, ".log") != 0)
            continue;
        r = mem_grow(&p, &cap, n + 1, sizeof *v, SEGMENTS_MAX);
        v = p;
        if (r == 0)
            v[n++] = first;
    }
    closedir(d);
    if (n)
        qsort(v, n, sizeof *v, by_number);
    for (size_t i = 0; r == 0 && i < n; i++)
        r = open_segment(q, v[i], e);
    return r;
}

static void read_cursor(struct qlog *q)
{
    char c[12];

    if (fd_pread_all(q->cursor_fd, c, sizeof c, 0) == 0 && crc32c(0, c, 8) == get32(c + 8))
        q->released = get64(c);
}

static int open_all(struct qlog *q, const char *path, struct err *e)
{
    int r;

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
    read_cursor(q);
    q->next_seq = MAX(q->released, 1ull);
    r = find_segments(q, path, e);
    if (r == 0 && q->n)
        r = repair_tail(q, &q->segments[q->n - 1], e);
    if (r == 0 && (!q->n || q->segments[q->n - 1].size > HEADER)) /* never append behind a repaired tail */
        r = new_segment(q, q->next_seq, e);
    return r;
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
        return err_set(e, r, "cannot make queue directory '%s': %m", dir);
    r = open_all(q, dir, e);
    if (r < 0)
        return r;
    q->committed = q->next_seq;
    q->released = MIN(MAX(q->released, q->segments[0].first), q->next_seq);
    q->read_segment = q->segments[0].first;
    q->read_off = HEADER;
    q->read_seq = q->segments[0].first;
    qlog_release(q, q->released);
    *ret = TAKE(q);
    return 0;
}

void qlog_close(struct qlog *q)
{
    if (!q)
        return;
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

int qlog_put(struct qlog *q, uint32_t kind, const void *p, size_t n)
{
    char head[RECORD];

    if (q->broken)
        return -EIO;
    if (n > QLOG_RECORD_MAX)
        return -E2BIG;
    if (q->o.max_bytes && qlog_bytes(q) + q->pending.n + RECORD + n > q->o.max_bytes)
        return -ENOSPC;
    put32(head, MAGIC);
    put32(head + 4, (uint32_t) n);
    put64(head + 8, q->next_seq + q->pending_records);
    put32(head + 16, kind);
    put32(head + 20, crc32c(crc32c(0, head + 4, 16), p, n));
    if (!buf_reserve(&q->pending, RECORD + n)) {
        buf_reset(&q->pending);
        q->pending_records = 0;
        return -ENOMEM;
    }
    buf_put(&q->pending, head, RECORD);
    buf_put(&q->pending, p, n);
    q->pending_records++;
    return 0;
}

size_t qlog_uncommitted(const struct qlog *q)
{
    return q->pending.n;
}

/* A copy: the reader removes old segments meanwhile, but never the last. */
static struct segment last_segment(struct qlog *q)
{
    struct segment s;

    pthread_mutex_lock(&q->lock);
    s = q->segments[q->n - 1];
    pthread_mutex_unlock(&q->lock);
    return s;
}

int qlog_commit(struct qlog *q, struct err *e)
{
    struct segment s;
    int r = 0;

    if (!q->pending.n)
        return 0;
    s = last_segment(q);
    if (s.size > HEADER && s.size + q->pending.n > q->o.segment_bytes) {
        r = new_segment(q, q->next_seq, e);
        s = last_segment(q);
    }
    if (r == 0)
        r = fd_pwrite_all(s.fd, q->pending.p, q->pending.n, (off_t) s.size);
    if (r == 0 && q->o.fsync)
        r = fd_datasync(s.fd);
    if (r < 0) {
        q->broken = true;
        buf_reset(&q->pending);
        q->pending_records = 0;
        return err_set(e, r, "cannot write the queue's log: %m");
    }
    pthread_mutex_lock(&q->lock);
    q->segments[q->n - 1].size += q->pending.n;
    q->bytes += q->pending.n;
    q->next_seq += q->pending_records;
    q->committed = q->next_seq;
    pthread_mutex_unlock(&q->lock);
    if (q->pending.cap > (4 << 20))
        buf_done(&q->pending);
    buf_reset(&q->pending);
    q->pending_records = 0;
    return 0;
}

/* --- reading --- */

/* The segment the reader is in, and whether one follows. */
static bool reader_segment(struct qlog *q, struct segment *ret, uint64_t *ret_next)
{
    bool found = false;

    pthread_mutex_lock(&q->lock);
    *ret_next = 0;
    for (size_t i = 0; i < q->n && !found; i++) {
        if (q->segments[i].first < q->read_segment)
            continue;
        *ret = q->segments[i];
        *ret_next = i + 1 < q->n ? q->segments[i + 1].first : 0;
        found = true;
    }
    pthread_mutex_unlock(&q->lock);
    return found;
}

static void next_segment(struct qlog *q, uint64_t first)
{
    q->read_segment = first;
    q->read_off = HEADER;
    q->read_seq = MAX(q->read_seq, first);
}

static void count_damage(struct qlog *q)
{
    pthread_mutex_lock(&q->lock);
    q->damaged++;
    pthread_mutex_unlock(&q->lock);
}

static int read_payload(struct qlog *q, const struct segment *s, const char head[RECORD], uint32_t n, uint32_t crc,
                        struct buf *b)
{
    int r;

    buf_reset(b);
    if (!buf_reserve(b, n + 1))
        return -ENOMEM;
    r = fd_pread_all(s->fd, b->p, n, (off_t) (q->read_off + RECORD));
    if (r < 0)
        return r;
    b->n = n;
    return crc32c(crc32c(0, head + 4, 16), b->p, n) == crc ? 0 : -EBADMSG;
}

int qlog_read(struct qlog *q, uint64_t *ret_seq, uint32_t *ret_kind, struct buf *b, struct err *e)
{
    for (;;) {
        uint32_t n = 0, crc = 0, kind = 0;
        uint64_t next, seq = 0;
        char head[RECORD];
        struct segment s;
        int r;

        if (!reader_segment(q, &s, &next))
            return 0;
        if (s.first != q->read_segment)
            next_segment(q, s.first);
        r = read_head(s.fd, q->read_off, s.size, &n, &seq, &kind, &crc, head);
        if (r == 0 || r == -EBADMSG) { /* the end of this segment, or nothing readable in the rest of it */
            if (r == -EBADMSG)
                count_damage(q);
            if (!next)
                return 0;
            next_segment(q, next);
            continue;
        }
        if (r > 0)
            r = seq < q->released ? 1 : read_payload(q, &s, head, n, crc, b);
        if (r < 0 && r != -EBADMSG)
            return err_set(e, r, "cannot read the queue's log: %m");
        q->read_off += RECORD + n;
        q->read_seq = seq + 1;
        if (r == -EBADMSG)
            count_damage(q);
        if (r != 0) /* damaged, or released before a restart */
            continue;
        *ret_seq = seq;
        *ret_kind = kind;
        return 1;
    }
}

uint64_t qlog_read_seq(const struct qlog *q)
{
    return q->read_seq;
}

void qlog_release(struct qlog *q, uint64_t seq)
{
    char c[12], name[32];

    pthread_mutex_lock(&q->lock);
    q->released = MAX(q->released, seq);
    put64(c, q->released);
    while (q->n > 1 && q->segments[1].first <= q->released) {
        struct segment s = q->segments[0];

        memmove(q->segments, q->segments + 1, (q->n - 1) * sizeof *q->segments);
        q->n--;
        q->bytes -= s.size;
        fd_close(s.fd);
        segment_name(s.first, name);
        fd_unlink(q->dir, name);
    }
    pthread_mutex_unlock(&q->lock);
    put32(c + 8, crc32c(0, c, 8));
    fd_pwrite_all(q->cursor_fd, c, sizeof c, 0); /* lost: some are sent again */
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

uint64_t qlog_bytes(struct qlog *q)
{
    return read_locked(q, &q->bytes);
}

uint64_t qlog_damaged(struct qlog *q)
{
    return read_locked(q, &q->damaged);
}
