/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads records of a segment one after the other and finds the next whole one after damaged bytes. A record counts only
 * if its magic, bounds, seq and checksum are valid, so that bytes inside a payload that look like a record are accepted
 * as one only if they contain a plausible seq. The work of a search is bounded by a multiple of the segment's size,
 * whatever its contents are.
 */
#include "base/qlog_scan.h"

#include <errno.h>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/qlog.h"

#define MAGIC 0x31525157u /* "WQR1" */

enum { WINDOW = 64 << 10, SECTOR = 4096, SEARCH_FACTOR = 4, SEARCH_MIN = 1 << 20 };

static uint32_t checksum(const char head[QLOG_RECORD], const void *p, size_t n)
{
    return crc32c(crc32c(0, head + 4, 16), p, n);
}

void qlog_record_head(char out[QLOG_RECORD], uint64_t seq, uint32_t kind, const void *p, size_t n)
{
    store_u32(out, MAGIC);
    store_u32(out + 4, (uint32_t) n);
    store_u64(out + 8, seq);
    store_u32(out + 16, kind);
    store_u32(out + 20, checksum(out, p, n));
}

struct search {
    const struct qlog_segment *s;
    struct buf *b;
    struct qlog_found *found;
    uint64_t budget;  /* number of bytes that may still be checked */
    uint64_t end_seq; /* records have smaller numbers */
    bool read_failed;
};

/* Reads the head at off. Returns 1 if it may belong to a record within the bounds, else 0. */
static int read_head(const struct search *x, uint64_t off, char head[QLOG_RECORD])
{
    int r;

    if (off > x->s->size || x->s->size - off < QLOG_RECORD)
        return 0;
    r = fd_pread_all(x->s->fd, head, QLOG_RECORD, (off_t) off);
    if (r < 0)
        return r == -ENODATA ? 0 : r;
    return load_u32(head + 4) <= QLOG_RECORD_MAX && x->s->size - off - QLOG_RECORD >= load_u32(head + 4);
}

/* Checks whether a whole record with a seq in [min, max] begins at off: 1 with its payload in b, 0, or a negative
 * errno. */
static int check(struct search *x, uint64_t off, uint64_t min, uint64_t max)
{
    char head[QLOG_RECORD];
    uint64_t seq;
    uint32_t n;
    int r = read_head(x, off, head);

    if (r <= 0)
        return r;
    n = load_u32(head + 4);
    seq = load_u64(head + 8);
    if (load_u32(head) != MAGIC || seq < min || seq > max)
        return 0;
    x->budget -= MIN(x->budget, (uint64_t) n + QLOG_RECORD);
    buf_reset(x->b);
    if (!buf_reserve(x->b, n + 1))
        return -ENOMEM;
    r = fd_pread_all(x->s->fd, x->b->p, n, (off_t) (off + QLOG_RECORD));
    if (r < 0)
        return r == -ENODATA ? 0 : r;
    x->b->n = n;
    if (checksum(head, x->b->p, n) != load_u32(head + 20))
        return 0;
    *x->found = (struct qlog_found){.seq = seq, .n = n, .kind = load_u32(head + 16)};
    return 1;
}

/* Tries every position of the window [from, from + n) that holds the magic. */
static int search_window(struct search *x, const struct qlog_place *p, uint64_t from, const char *w, size_t n,
                         uint64_t *ret_off)
{
    static const char magic[4] = {'W', 'Q', 'R', '1'};

    for (const char *at = w; x->budget && (at = memmem(at, n - (size_t) (at - w), magic, sizeof magic)); at++) {
        uint64_t off = from + (uint64_t) (at - w), most = p->seq + (off - p->off) / QLOG_RECORD;
        int r = check(x, off, p->seq, MIN(most, x->end_seq - 1));

        *ret_off = off;
        if (r == 1 || r == -ENOMEM)
            return r;
    }
    return 0;
}

/* Searches for the first whole record after p->off: 1 and where it begins, 0 if there is none, or -ENOMEM. */
static int search(struct search *x, const struct qlog_place *p, uint64_t end_seq, uint64_t *ret_off)
{
    char w[WINDOW];
    uint64_t from = p->off + 1;

    x->end_seq = end_seq;
    x->budget = (x->s->size - p->off) * SEARCH_FACTOR + SEARCH_MIN;
    while (x->budget && from + QLOG_RECORD <= x->s->size) {
        size_t n = (size_t) MIN(x->s->size - from, (uint64_t) sizeof w);
        int r = fd_pread_all(x->s->fd, w, n, (off_t) from);

        if (r < 0 && n > SECTOR) {
            n = SECTOR;
            r = fd_pread_all(x->s->fd, w, n, (off_t) from);
        }
        x->read_failed |= r < 0;
        if (r == 0)
            r = search_window(x, p, from, w, n, ret_off);
        if (r == 1 || r == -ENOMEM)
            return r;
        from += n > 3 && from + n < x->s->size ? n - 3 : n; /* a magic may cross the border of two windows */
    }
    return 0;
}

/* Called at a position without a valid record: usually only the payload is damaged, and the next record is where the
 * head says. */
static int resync(struct search *x, struct qlog_place *p, uint64_t end_seq, uint64_t *ret_off)
{
    char head[QLOG_RECORD];
    int r = read_head(x, p->off, head);

    if (r == 1) {
        *ret_off = p->off + QLOG_RECORD + load_u32(head + 4);
        r = check(x, *ret_off, p->seq, MIN(p->seq + 1, end_seq - 1));
    }
    return r == 1 || r == -ENOMEM ? r : search(x, p, end_seq, ret_off);
}

int qlog_scan(const struct qlog_segment *s, uint64_t end_seq, bool salvage, struct qlog_place *p, struct buf *b,
              struct qlog_found *ret)
{
    struct search x = {.s = s, .b = b, .found = ret, .budget = UINT64_MAX};
    uint64_t off = p->off;
    int r;

    *ret = (struct qlog_found){0};
    if (p->off >= s->size)
        return 0;
    r = p->seq < end_seq ? check(&x, off, p->seq, p->seq) : 0;
    if (r < 0 && (r == -ENOMEM || !salvage))
        return r;
    x.read_failed = r < 0;
    if (r != 1)
        r = p->seq < end_seq ? resync(&x, p, end_seq, &off) : 0;
    if (r < 0)
        return r;
    if (r == 0)
        off = s->size;
    ret->skipped = off - p->off;
    ret->read_failed = x.read_failed;
    p->off = off;
    if (r == 0)
        return 0;
    p->off += QLOG_RECORD + ret->n;
    p->seq = ret->seq + 1;
    return 1;
}
