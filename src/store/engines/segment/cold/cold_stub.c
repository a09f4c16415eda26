/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes N.cold; see cold_stub.h. */
#include "store/engines/segment/cold/cold_stub.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"

enum { PIECE = 1 << 20, FIXED = 32 };

static bool extents_are_sound(const struct cold_stub *s, uint64_t file_size)
{
    uint64_t end = 0, sum = s->header;

    for (uint32_t i = 0; i < s->n; i++) {
        if (s->v[i].off < end || s->v[i].len > s->size || s->v[i].off > s->size - s->v[i].len)
            return false;
        end = s->v[i].off + s->v[i].len;
        sum += s->v[i].len;
    }
    return sum == file_size;
}

int cold_stub_parse(const void *p, size_t n, uint64_t file_size, struct cold_stub *s)
{
    const unsigned char *b = p;
    uint32_t length;

    *s = (struct cold_stub){0};
    if (n < FIXED + 4 || memcmp(b, "WICKCLD1", 8) != 0)
        return -EBADMSG;
    s->header = load_u32(b + 8);
    s->crc = load_u32(b + 12);
    s->size = load_u64(b + 16);
    s->n = load_u32(b + 24);
    length = load_u32(b + 28);
    if (s->n > STUB_EXTENTS_MAX || length > STUB_PATH_MAX || length < 2 || s->size > INT64_MAX ||
        s->header != FIXED + 16 * s->n + length + 4 || s->header > n ||
        crc32c(0, b, s->header - 4) != load_u32(b + s->header - 4))
        return -EBADMSG;
    for (uint32_t i = 0; i < s->n; i++) {
        s->v[i].off = load_u64(b + FIXED + 16 * i);
        s->v[i].len = load_u64(b + FIXED + 16 * i + 8);
    }
    memcpy(s->path, b + FIXED + 16 * s->n, length);
    if (s->path[0] != '/' || strlen(s->path) != length || !extents_are_sound(s, file_size))
        return -EBADMSG;
    return 0;
}

int cold_stub_read(int fd, struct cold_stub *s)
{
    unsigned char head[STUB_HEADER_MAX];
    struct stat st;
    ssize_t n;

    if (fstat(fd, &st) < 0)
        return -errno;
    n = fd_pread(fd, head, sizeof head, 0);
    return n < 0 ? (int) n : cold_stub_parse(head, (size_t) n, (uint64_t) st.st_size, s);
}

int64_t cold_stub_find(const struct cold_stub *s, uint64_t off, uint64_t n)
{
    uint64_t at = s->header;

    for (uint32_t i = 0; i < s->n; i++) {
        if (off >= s->v[i].off && n <= s->v[i].len && off - s->v[i].off <= s->v[i].len - n)
            return (int64_t) (at + (off - s->v[i].off));
        at += s->v[i].len;
    }
    return -1;
}

static void put_header(struct cold_stub *s, struct buf *b)
{
    uint32_t length = (uint32_t) strlen(s->path);

    s->header = FIXED + 16 * s->n + length + 4;
    buf_puts(b, "WICKCLD1");
    put_u32(b, s->header);
    put_u32(b, s->crc);
    put_u64(b, s->size);
    put_u32(b, s->n);
    put_u32(b, length);
    for (uint32_t i = 0; i < s->n; i++) {
        put_u64(b, s->v[i].off);
        put_u64(b, s->v[i].len);
    }
    buf_puts(b, s->path);
    if (!buf_error(b))
        put_u32(b, crc32c(0, b->p, b->n));
}

static int copy_extents(int full, int fd, const struct cold_stub *s)
{
    _cleanup_(mem_freep) char *p = mem_alloc(PIECE);
    uint64_t to = s->header;
    int r = p ? 0 : -ENOMEM;

    for (uint32_t i = 0; i < s->n; i++)
        for (uint64_t at = 0; r == 0 && at < s->v[i].len; at += PIECE) {
            size_t n = (size_t) MIN((uint64_t) PIECE, s->v[i].len - at);

            r = fd_pread_all(full, p, n, (off_t) (s->v[i].off + at));
            if (r == 0)
                r = fd_pwrite_all(fd, p, n, (off_t) to);
            to += n;
        }
    return r;
}

int cold_stub_write(struct cold_stub_place to, int full, struct cold_stub *s, struct err *e)
{
    _cleanup_(buf_done) struct buf header = BUF_INIT;
    _cleanup_(fd_closep) int fd = -1;
    char name[80];
    int r;

    snprintf(name, sizeof name, "%s.tmp", to.name);
    put_header(s, &header);
    r = buf_error(&header);
    if (r == 0)
        r = fd = fd_open(to.dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (r >= 0)
        r = fd_pwrite_all(fd, header.p, header.n, 0);
    if (r == 0)
        r = copy_extents(full, fd, s);
    if (r == 0)
        r = fd_sync(fd);
    if (r == 0)
        r = fd_rename(to.dir, name, to.dir, to.name);
    if (r == 0)
        r = fd_sync(to.dir);
    if (r < 0 && fd >= 0)
        fd_unlink(to.dir, name);
    return r < 0 ? err_set(e, r, "cannot write '%s': %m", to.name) : 0;
}
