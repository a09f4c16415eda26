/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums of the catalogue's pages, and a check of its write-ahead log; see vfs_sum.h. */
#include "store/engines/segment/format/vfs_sum.h"

#include <errno.h>
#include <fcntl.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"

static uint32_t page_sum(const unsigned char *p, size_t n, off_t off)
{
    return crc32c((uint32_t) (off / (off_t) n) + 1, p, n - PAGE_SUM);
}

void page_put_sum(unsigned char *p, size_t n, off_t off)
{
    uint32_t sum = page_sum(p, n, off);

    store_u32(p + n - 8, sum);
    store_u32(p + n - 4, ~sum);
}

bool page_has_sum(const unsigned char *p, size_t n)
{
    return load_u32(p + n - 8) == ~load_u32(p + n - 4);
}

bool page_is_sound(const unsigned char *p, size_t n, off_t off)
{
    return page_has_sum(p, n) && load_u32(p + n - 8) == page_sum(p, n, off);
}

int vfs_check_pages(const char *path, off_t *ret_at)
{
    _cleanup_(mem_freep) unsigned char *p = mem_alloc(PAGE_MAX);
    _cleanup_(fd_closep) int fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
    struct stat st;
    size_t n;
    int r;

    *ret_at = 0;
    if (!p || fd < 0)
        return p ? fd : -ENOMEM;
    r = fstat(fd, &st) < 0 ? -errno : st.st_size < PAGE_MIN ? -EBADMSG : fd_pread_all(fd, p, PAGE_MIN, 0);
    if (r < 0)
        return r;
    n = (size_t) p[16] << 8 | p[17];
    n = n == 1 ? PAGE_MAX : n;
    if (n < PAGE_MIN || n & (n - 1) || st.st_size % (off_t) n)
        return -EBADMSG;
    for (off_t off = 0; off < st.st_size; off += (off_t) n) {
        *ret_at = off;
        r = fd_pread_all(fd, p, n, off);
        if (r < 0)
            return r;
        if (off == 0 && p[PAGE_RESERVED] != PAGE_SUM && !page_has_sum(p, n))
            return 0; /* created before there were checksums */
        if (!page_is_sound(p, n, off))
            return -EBADMSG;
    }
    return 0;
}

/* --- the database's log --- */

enum { WAL_HEADER = 32, FRAME_HEADER = 24 };

/* The checksum of SQLite's log, over pairs of words in the byte order that its magic specifies. */
static void wal_sum(bool big, const unsigned char *p, size_t n, uint32_t sum[2])
{
    for (size_t i = 0; i + 8 <= n; i += 8) {
        sum[0] += (big ? load_be32(p + i) : load_u32(p + i)) + sum[1];
        sum[1] += (big ? load_be32(p + i + 4) : load_u32(p + i + 4)) + sum[0];
    }
}

int vfs_wal_state(const unsigned char *p, size_t size)
{
    uint32_t sum[2] = {0}, frame, commits = 0, ended = 0; /* ended: the page of the frame before, if that committed */
    bool good = true;

    if (size <= WAL_HEADER)
        return 0;
    wal_sum(p[3] & 1, p, 24, sum);
    if (sum[0] != load_be32(p + 24) || sum[1] != load_be32(p + 28) || load_be32(p + 8) < PAGE_MIN ||
        load_be32(p + 8) > PAGE_MAX)
        return 2;
    frame = FRAME_HEADER + load_be32(p + 8);
    for (size_t at = WAL_HEADER; at + frame <= size; at += frame) {
        const unsigned char *f = p + at;
        bool salted = memcmp(f + 8, p + 16, 8) == 0; /* else of the previous log, being overwritten */

        if (good) {
            wal_sum(p[3] & 1, f, 8, sum);
            wal_sum(p[3] & 1, f + FRAME_HEADER, frame - FRAME_HEADER, sum);
            good = sum[0] == load_be32(f + 16) && sum[1] == load_be32(f + 20);
            if (good && !salted)
                return 2;
            if (!salted)
                return 0;
        } else if (!salted) {
            break;
        }
        if (!good && load_be32(f + 4) &&
            load_be32(f) != ended) /* the last frame may be written twice, to fill a sector */
            commits++;
        ended = load_be32(f + 4) ? load_be32(f) : 0;
    }
    return good ? 0 : commits > 1 ? 2 : 1;
}

int vfs_check_wal(const char *path)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    _cleanup_(fd_closep) int fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
    int r = fd == -ENOENT ? 0 : fd < 0 ? fd : fd_read_all(fd, (size_t) 1 << 30, &b);

    return r < 0 ? r : vfs_wal_state((const unsigned char *) b.p, b.n);
}
