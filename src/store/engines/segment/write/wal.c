/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and reads the files of the log; see wal.h for the format. */
#include "store/engines/segment/write/wal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/hash.h"

enum { RECORD_MAGIC = 0x52474c57, PAYLOAD_MAX = 1 << 30 };

void log_name(char *out, size_t size, uint64_t number)
{
    snprintf(out, size, "%012llu.log", (unsigned long long) number);
}

int log_create(int dir, uint64_t number, struct log *ret, struct err *e)
{
    unsigned char header[LOG_HEADER] = "WICKLOG1";
    char name[32];
    int fd, r;

    log_name(name, sizeof name, number);
    fd = fd_open(dir, name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0)
        return err_set(e, fd, "cannot create log '%s': %m", name);
    store_u32(header + 8, LOG_VERSION);
    store_u32(header + 12, (uint32_t) number);
    store_u32(header + 16, (uint32_t) (number >> 32));
    store_u32(header + 20, crc32c(0, header, 20));
    r = fd_pwrite_all(fd, header, sizeof header, 0);
    if (r == 0)
        r = fd_sync(fd);
    if (r == 0)
        r = fd_sync(dir);
    if (r < 0) {
        fd_close(fd);
        fd_unlink(dir, name);
        return err_set(e, r, "cannot start log '%s': %m", name);
    }
    *ret = (struct log){fd, number, LOG_HEADER};
    return 0;
}

void log_close(struct log *l)
{
    fd_close(l->fd);
    l->fd = -1;
}

void log_frame(struct buf *b, size_t at, uint64_t lsn)
{
    unsigned char *p = (unsigned char *) b->p + at;
    size_t n = b->n - at - LOG_RECORD;

    store_u32(p, RECORD_MAGIC);
    store_u32(p + 4, (uint32_t) n);
    store_u32(p + 8, (uint32_t) lsn);
    store_u32(p + 12, (uint32_t) (lsn >> 32));
    store_u32(p + 16, crc32c(0, p + LOG_RECORD, n));
    store_u32(p + 20, crc32c(0, p, 20));
}

int log_write(struct log *l, const void *p, size_t n)
{
    int r = fd_pwrite_all(l->fd, p, n, l->end);

    if (r < 0)
        fd_truncate(l->fd, l->end);
    else
        l->end += (off_t) n;
    return r;
}

int log_sync(struct log *l)
{
    return fd_datasync(l->fd);
}

/* Returns the size of the record at p if it is complete and correct, else 0. */
static size_t record_at(const unsigned char *p, size_t left)
{
    size_t n;

    if (left < LOG_RECORD || load_u32(p) != RECORD_MAGIC || crc32c(0, p, 20) != load_u32(p + 20))
        return 0;
    n = load_u32(p + 4);
    if (n > PAYLOAD_MAX || n > left - LOG_RECORD || crc32c(0, p + LOG_RECORD, n) != load_u32(p + 16))
        return 0;
    return LOG_RECORD + n;
}

/* Returns the next position after `at` where a good record begins, or n. */
static size_t resync(const unsigned char *p, size_t at, size_t n)
{
    for (at++; at + LOG_RECORD <= n; at++)
        if (p[at] == (RECORD_MAGIC & 0xff) && record_at(p + at, n - at))
            return at;
    return n;
}

static int read_records(const struct buf *b, const struct log_reader *r, off_t *ret_end)
{
    const unsigned char *p = (const unsigned char *) b->p;
    size_t at = LOG_HEADER, end = LOG_HEADER;
    int rc = 0;

    while (rc == 0 && at < b->n) {
        size_t size = record_at(p + at, b->n - at);

        if (!size) {
            size_t next = resync(p, at, b->n);
            char what[128];

            snprintf(what, sizeof what, "%zu bytes at %zu are not a valid record", next - at, at);
            r->damage(r->ctx, next == b->n, what);
            at = next;
            continue;
        }
        rc = r->record(r->ctx, load_u64(p + at + 8), p + at + LOG_RECORD, size - LOG_RECORD);
        at += size;
        end = at;
    }
    *ret_end = (off_t) end;
    return rc;
}

int log_read(int dir, uint64_t number, const struct log_reader *r, off_t *ret_end, struct err *e)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    _cleanup_(fd_closep) int fd = -1;
    char name[32];
    int rc;

    log_name(name, sizeof name, number);
    fd = fd_open(dir, name, O_RDONLY, 0);
    if (fd < 0)
        return err_set(e, fd, "cannot open log '%s': %m", name);
    rc = fd_read_all(fd, (size_t) 8 << 30, &b);
    if (rc < 0)
        return err_set(e, rc, "cannot read log '%s': %m", name);
    if (b.n < LOG_HEADER || memcmp(b.p, "WICKLOG1", 8) != 0 || crc32c(0, b.p, 20) != load_u32(b.p + 20)) {
        /* torn while it was created, or damaged: the records after it may still be good */
        r->damage(r->ctx, b.n <= LOG_HEADER, "its header is invalid");
        if (b.n <= LOG_HEADER) {
            *ret_end = LOG_HEADER;
            return 0;
        }
    } else if (load_u32(b.p + 8) != LOG_VERSION) {
        return err_set(e, -EPROTONOSUPPORT, "log '%s' has version %u; this version of wick supports %d", name,
                       load_u32(b.p + 8), LOG_VERSION);
    }
    return read_records(&b, r, ret_end);
}
