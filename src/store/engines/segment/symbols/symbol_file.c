/* SPDX-License-Identifier: Apache-2.0 */
/* Appends blocks of definitions to a symbol file and reads them back; see symbol_file.h. */
#include "store/engines/segment/symbols/symbol_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/fd.h"
#include "store/engines/segment/symbols/symbol_pack.h"

enum { BLOCK_HEADER = 20, BLOCK_MAGIC = 0x4d595357, VERSION = 1 };

void symbol_file_name(char *out, size_t size, uint32_t epoch)
{
    snprintf(out, size, "%06u.sym", epoch);
}

/* Packs definitions into blocks: a single one, unless some definitions in between were lost. */
static int pack(const struct buf *defs, struct buf *out)
{
    struct cursor r = cursor_of(defs->p, defs->n);
    int rc = buf_error(defs);

    while (rc == 0 && r.p < r.end) {
        size_t at = out->n;
        char *header;

        buf_pad(out, 0, BLOCK_HEADER);
        rc = symbols_pack(&r, out);
        if (rc < 0)
            break;
        header = out->p + at;
        store_u32(header, BLOCK_MAGIC);
        store_u32(header + 4, VERSION);
        store_u32(header + 8, (uint32_t) (out->n - at - BLOCK_HEADER));
        store_u32(header + 12, crc32c(0, header + BLOCK_HEADER, out->n - at - BLOCK_HEADER));
        store_u32(header + 16, crc32c(0, header, 16));
    }
    return rc;
}

int symbol_file_append(int dir, uint32_t epoch, uint64_t at, const struct buf *defs, uint64_t *ret_end, struct err *e)
{
    _cleanup_(buf_done) struct buf block = BUF_INIT;
    _cleanup_(fd_closep) int fd = -1;
    char name[32];
    int r = pack(defs, &block);
    size_t once = block.n;

    symbol_file_name(name, sizeof name, epoch);
    if (r == 0 && !buf_reserve(&block, once))
        r = -ENOMEM;
    if (r < 0)
        return r;
    buf_put(&block, block.p, once); /* the second copy */
    fd = fd_open(dir, name, O_RDWR | O_CREAT, 0644);
    if (fd < 0)
        return err_set(e, fd, "cannot open symbols '%s': %m", name);
    r = fd_truncate(fd, (off_t) at);
    if (r == 0)
        r = fd_pwrite_all(fd, block.p, block.n, (off_t) at);
    if (r == 0)
        r = fd_sync(fd);
    if (r == 0 && !at)
        r = fd_sync(dir);
    if (r < 0)
        return err_set(e, r, "cannot write symbols '%s': %m", name);
    *ret_end = at + block.n;
    return 0;
}

/* Returns the size of the block at p if it is complete and correct, else 0. */
static size_t block_at(const unsigned char *p, size_t left)
{
    size_t n;

    if (left < BLOCK_HEADER || load_u32(p) != BLOCK_MAGIC || crc32c(0, p, 16) != load_u32(p + 16))
        return 0;
    n = load_u32(p + 8);
    if (n > left - BLOCK_HEADER || crc32c(0, p + BLOCK_HEADER, n) != load_u32(p + 12))
        return 0;
    return BLOCK_HEADER + n;
}

static int apply_block(struct symbols *s, const unsigned char *p)
{
    if (load_u32(p + 4) != VERSION)
        return -EPROTONOSUPPORT;
    return symbols_unpack(s, p + BLOCK_HEADER, load_u32(p + 8));
}

int symbol_file_read(const struct symbol_file *f, struct symbols *s, uint64_t *ret_end,
                     void (*damage)(void *ctx, const char *what), void *ctx)
{
    uint64_t bytes = f->bytes;
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    _cleanup_(fd_closep) int fd = -1;
    char name[32], what[160];
    const unsigned char *p;
    size_t at = 0, last = 0;
    int r;

    symbol_file_name(name, sizeof name, f->epoch);
    *ret_end = 0;
    fd = fd_open(f->dir, name, O_RDONLY, 0);
    r = fd < 0 ? fd : fd_read_all(fd, (size_t) 8 << 30, &b);
    if (r < 0) {
        if (r == -ENOENT && (!bytes || bytes == UINT64_MAX))
            return 0;
        snprintf(what, sizeof what, "cannot read symbols '%s': %s", name, strerror(-r));
        damage(ctx, what);
        return r == -ENOMEM ? r : 0;
    }
    p = (const unsigned char *) b.p;
    while (at < MIN(b.n, bytes)) {
        size_t size = block_at(p + at, MIN(b.n, bytes) - at), from = at;
        bool is_copy = size && size == last && memcmp(p + at, p + at - last, BLOCK_HEADER) == 0;

        if (size && s && !is_copy)
            r = apply_block(s, p + at);
        last = is_copy ? 0 : size;
        if (r == -ENOMEM)
            return r;
        if (size && r == 0) {
            at += size;
            *ret_end = at;
            continue;
        }
        r = 0;
        do
            at++;
        while (at < MIN(b.n, bytes) && !block_at(p + at, MIN(b.n, bytes) - at));
        if (bytes == UINT64_MAX && at >= b.n)
            break; /* a tail that was never committed */
        snprintf(what, sizeof what, "symbols '%s': %zu bytes at %zu are damaged", name, at - from, from);
        damage(ctx, what);
    }
    if (bytes != UINT64_MAX && b.n < bytes) {
        snprintf(what, sizeof what, "symbols '%s' end at %zu of %llu bytes", name, b.n, (unsigned long long) bytes);
        damage(ctx, what);
    }
    if (bytes != UINT64_MAX)
        *ret_end = bytes;
    return 0;
}
