/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording file system under base/fd: calls go through to real files and are recorded; afterwards, the state that a
 * crash might leave on disk at any point can be reconstructed.
 *
 * The model assumes only what POSIX guarantees: bytes are durable once their file was synced, names once their
 * directory was. Any part of what was not synced may have reached the disk: none, all, some writes and not others (in
 * any order), or a write torn at a multiple of 512 bytes; of a directory's changes, any number of the first ones.
 *
 * It can also make the n-th changing call fail, once or from then on.
 */
#ifndef TESTS_CRASH_FS_H
#define TESTS_CRASH_FS_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"

enum crash_op_kind { CRASH_CREATE, CRASH_WRITE, CRASH_TRUNCATE, CRASH_SYNC, CRASH_RENAME, CRASH_UNLINK, CRASH_MKDIR };

struct crash_op {
    enum crash_op_kind kind;
    char path[192], to[192];
    uint32_t inode;
    off_t off;
    size_t n;
    char *data;
};

enum { CRASH_FDS = 4096, CRASH_INODES = 8192 };

static struct {
    const char *root;
    struct crash_op *ops;
    size_t n, cap;
    struct {
        char path[192];
        uint32_t inode; /* 0 = directory or not ours */
        off_t pos;
    } fds[CRASH_FDS];
    struct {
        char path[192];
        uint32_t inode;
    } names[CRASH_INODES]; /* live */
    uint32_t n_names, next_inode;
    bool recording;
    long fail_at; /* counts down modifying calls; the one that reaches 0 fails */
    int fail_errno;
    bool fail_sticky;
    long changes;
} crash;

static void crash_reset(const char *root)
{
    for (size_t i = 0; i < crash.n; i++)
        mem_free(crash.ops[i].data);
    mem_free(crash.ops);
    memset(&crash, 0, sizeof crash);
    crash.root = root;
    crash.next_inode = 1;
}

static bool crash_is_ours(const char *path)
{
    return crash.root && strncmp(path, crash.root, strlen(crash.root)) == 0;
}

static void crash_path(int dirfd, const char *path, char out[192])
{
    if (path[0] == '/' || dirfd == AT_FDCWD)
        snprintf(out, 192, "%s", path);
    else if (strcmp(path, ".") == 0)
        snprintf(out, 192, "%.191s", crash.fds[dirfd].path);
    else
        snprintf(out, 192, "%.120s/%.70s", crash.fds[dirfd].path, path);
}

static uint32_t *crash_name(const char *path)
{
    for (uint32_t i = 0; i < crash.n_names; i++)
        if (crash.names[i].inode && strcmp(crash.names[i].path, path) == 0)
            return &crash.names[i].inode;
    return NULL;
}

static void crash_set_name(const char *path, uint32_t inode)
{
    uint32_t *at = crash_name(path);

    if (at) {
        *at = inode;
        return;
    }
    snprintf(crash.names[crash.n_names].path, 192, "%s", path);
    crash.names[crash.n_names++].inode = inode;
}

static struct crash_op *crash_log(enum crash_op_kind kind, const char *path, uint32_t inode)
{
    struct crash_op *op;

    if (!crash.recording || !crash_is_ours(path))
        return NULL;
    if (crash.n == crash.cap) {
        crash.cap = crash.cap ? crash.cap * 2 : 256;
        crash.ops = mem_realloc_array(crash.ops, crash.cap, sizeof *crash.ops);
    }
    op = &crash.ops[crash.n++];
    memset(op, 0, sizeof *op);
    op->kind = kind;
    op->inode = inode;
    snprintf(op->path, sizeof op->path, "%s", path);
    return op;
}

/* Whether this modifying call should fail. */
static bool crash_fails(const char *path)
{
    if (!crash_is_ours(path))
        return false;
    crash.changes++;
    if (!crash.fail_at)
        return false;
    if (crash.fail_at > 1) {
        crash.fail_at--;
        return false;
    }
    if (!crash.fail_sticky)
        crash.fail_at = 0;
    errno = crash.fail_errno;
    return true;
}

static int crash_open(int dirfd, const char *path, int flags, mode_t mode)
{
    char full[192];
    struct stat st;
    bool is_new;
    int fd;

    crash_path(dirfd, path, full);
    is_new = stat(full, &st) < 0;
    if (is_new && flags & O_CREAT && crash_fails(full))
        return -1;
    fd = fd_ops_system.open(dirfd, path, flags, mode);
    if (fd < 0 || fd >= CRASH_FDS)
        return fd;
    snprintf(crash.fds[fd].path, 192, "%s", full);
    crash.fds[fd].pos = 0;
    crash.fds[fd].inode = 0;
    if (!crash_is_ours(full) || flags & O_DIRECTORY)
        return fd;
    if (is_new) {
        crash_set_name(full, crash.next_inode);
        crash_log(CRASH_CREATE, full, crash.next_inode++);
    } else if (flags & O_TRUNC && crash_name(full)) {
        crash_log(CRASH_TRUNCATE, full, *crash_name(full));
    }
    crash.fds[fd].inode = crash_name(full) ? *crash_name(full) : 0;
    return fd;
}

static ssize_t crash_pwrite(int fd, const void *p, size_t n, off_t off)
{
    struct crash_op *op;

    if (crash_fails(crash.fds[fd].path))
        return -1;
    op = crash_log(CRASH_WRITE, crash.fds[fd].path, crash.fds[fd].inode);
    if (op) {
        op->off = off;
        op->n = n;
        op->data = mem_dup(p, n);
    }
    return fd_ops_system.pwrite(fd, p, n, off);
}

static ssize_t crash_write(int fd, const void *p, size_t n)
{
    ssize_t r = crash_pwrite(fd, p, n, crash.fds[fd].pos);

    if (r > 0)
        crash.fds[fd].pos += r;
    return r;
}

static int crash_sync(int fd, bool data_only)
{
    if (crash_fails(crash.fds[fd].path))
        return -1;
    crash_log(CRASH_SYNC, crash.fds[fd].path, crash.fds[fd].inode);
    (void) data_only;
    return 0;
}

static int crash_truncate(int fd, off_t size)
{
    struct crash_op *op;

    if (crash_fails(crash.fds[fd].path))
        return -1;
    op = crash_log(CRASH_TRUNCATE, crash.fds[fd].path, crash.fds[fd].inode);
    if (op)
        op->off = size;
    return fd_ops_system.truncate(fd, size);
}

static int crash_rename(int from_dir, const char *from, int to_dir, const char *to)
{
    char a[192], b[192];
    struct crash_op *op;
    uint32_t *at;
    int r;

    crash_path(from_dir, from, a);
    crash_path(to_dir, to, b);
    if (crash_fails(a))
        return -1;
    r = fd_ops_system.rename(from_dir, from, to_dir, to);
    at = r == 0 ? crash_name(a) : NULL;
    if (at) {
        uint32_t inode = *at;

        op = crash_log(CRASH_RENAME, a, inode);
        if (op)
            snprintf(op->to, sizeof op->to, "%s", b);
        *at = 0;
        crash_set_name(b, inode);
    }
    return r;
}

static int crash_unlink(int dirfd, const char *path, int flags)
{
    char full[192];
    uint32_t *at;
    int r;

    crash_path(dirfd, path, full);
    if (crash_fails(full))
        return -1;
    r = fd_ops_system.unlink(dirfd, path, flags);
    at = r == 0 ? crash_name(full) : NULL;
    if (at) {
        crash_log(CRASH_UNLINK, full, *at);
        *at = 0;
    }
    return r;
}

static int crash_mkdir(int dirfd, const char *path, mode_t mode)
{
    char full[192];
    int r;

    crash_path(dirfd, path, full);
    r = fd_ops_system.mkdir(dirfd, path, mode);
    if (r == 0 && crash_is_ours(full) && strcmp(full, crash.root) != 0)
        crash_log(CRASH_MKDIR, full, 0);
    return r;
}

static int crash_space(int fd, uint64_t *ret_free, uint64_t *ret_total)
{
    (void) fd;
    *ret_free = *ret_total = 1ull << 40;
    return 0;
}

static struct fd_ops crash_ops;

static void crash_install(void)
{
    crash_ops = fd_ops_system;
    crash_ops.open = crash_open;
    crash_ops.pwrite = crash_pwrite;
    crash_ops.write = crash_write;
    crash_ops.sync = crash_sync;
    crash_ops.truncate = crash_truncate;
    crash_ops.rename = crash_rename;
    crash_ops.unlink = crash_unlink;
    crash_ops.mkdir = crash_mkdir;
    crash_ops.space = crash_space;
    fd_ops = &crash_ops;
}

/* --- reconstructing the disk --- */

struct crash_inode {
    char *data;
    size_t n, cap;
};

struct crash_disk {
    struct crash_inode *inodes; /* by number */
    struct {
        char path[192];
        uint32_t inode; /* 0 = gone; UINT32_MAX = a directory */
    } names[CRASH_INODES];
    uint32_t n_names;
};

enum crash_mode { CRASH_NONE, CRASH_ALL, CRASH_SOME, CRASH_TORN, CRASH_MODES };

static void disk_write(struct crash_inode *i, off_t off, const char *p, size_t n)
{
    if ((size_t) off + n > i->cap) {
        i->cap = ((size_t) off + n) * 2;
        i->data = mem_realloc(i->data, i->cap);
    }
    if ((size_t) off > i->n)
        memset(i->data + i->n, 0, (size_t) off - i->n);
    memcpy(i->data + off, p, n);
    if ((size_t) off + n > i->n)
        i->n = (size_t) off + n;
}

static void disk_apply(struct crash_disk *d, const struct crash_op *op, size_t keep_from, size_t keep_n)
{
    struct crash_inode *i = &d->inodes[op->inode];

    if (op->kind == CRASH_WRITE && keep_n)
        disk_write(i, op->off + (off_t) keep_from, op->data + keep_from, keep_n);
    if (op->kind == CRASH_TRUNCATE) {
        if ((size_t) op->off > i->n)
            disk_write(i, op->off, "", 0);
        i->n = (size_t) op->off;
    }
}

static void disk_name(struct crash_disk *d, const char *path, uint32_t inode)
{
    for (uint32_t i = 0; i < d->n_names; i++)
        if (strcmp(d->names[i].path, path) == 0) {
            d->names[i].inode = inode;
            return;
        }
    snprintf(d->names[d->n_names].path, 192, "%s", path);
    d->names[d->n_names++].inode = inode;
}

static void disk_apply_name(struct crash_disk *d, const struct crash_op *op)
{
    if (op->kind == CRASH_CREATE)
        disk_name(d, op->path, op->inode);
    else if (op->kind == CRASH_UNLINK)
        disk_name(d, op->path, 0);
    else if (op->kind == CRASH_MKDIR)
        disk_name(d, op->path, UINT32_MAX);
    else if (op->kind == CRASH_RENAME) {
        disk_name(d, op->path, 0);
        disk_name(d, op->to, op->inode);
    }
}

static bool is_in_dir(const char *path, const char *dir)
{
    size_t n = strlen(dir);

    return strncmp(path, dir, n) == 0 && path[n] == '/' && !strchr(path + n + 1, '/');
}

static bool is_name_op(const struct crash_op *op)
{
    return op->kind == CRASH_CREATE || op->kind == CRASH_UNLINK || op->kind == CRASH_RENAME || op->kind == CRASH_MKDIR;
}

/* Whether op i was made durable by a sync among the later ops, up to k. */
static bool is_synced(size_t i, size_t k)
{
    const struct crash_op *op = &crash.ops[i];

    for (size_t j = i + 1; j < k; j++) {
        const struct crash_op *s = &crash.ops[j];

        if (s->kind != CRASH_SYNC)
            continue;
        if (is_name_op(op) ? is_in_dir(op->path, s->path) : s->inode && s->inode == op->inode)
            return true;
    }
    return false;
}

/* Writes a possible state of the disk after the first k calls to the directory `to`, which represents the root. */
static void crash_make(size_t k, enum crash_mode mode, uint64_t seed, const char *to)
{
    struct crash_disk *d = mem_zalloc(sizeof *d);
    char stop[CRASH_INODES / 64][192];
    uint32_t n_stop = 0;
    uint64_t rnd = seed * 0x9e3779b97f4a7c15ull + 12345;

    d->inodes = mem_zalloc_array(CRASH_INODES, sizeof *d->inodes);
    for (size_t i = 0; i < k; i++) {
        const struct crash_op *op = &crash.ops[i];
        bool durable, keep;

        if (op->kind == CRASH_SYNC)
            continue;
        durable = is_synced(i, k);
        rnd ^= rnd << 13;
        rnd ^= rnd >> 7;
        rnd ^= rnd << 17;
        keep = durable || mode == CRASH_ALL || (mode >= CRASH_SOME && rnd >> 40 & 1);
        if (is_name_op(op)) { /* within a directory, changes reach the disk in order */
            char dir[192];
            bool stopped = false;

            snprintf(dir, sizeof dir, "%.*s", (int) (strrchr(op->path, '/') - op->path), op->path);
            for (uint32_t s = 0; s < n_stop; s++)
                stopped |= strcmp(stop[s], dir) == 0;
            if (keep && (durable || !stopped))
                disk_apply_name(d, op);
            else if (!stopped && n_stop < ARRAY_SIZE(stop))
                snprintf(stop[n_stop++], 192, "%s", dir);
        } else if (keep) {
            size_t from = 0, n = op->n;

            if (!durable && mode == CRASH_TORN && op->kind == CRASH_WRITE && n > 512) {
                n = (rnd >> 20) % (n / 512 + 1) * 512;
                if (rnd >> 33 & 1) { /* the end was written but the beginning was not */
                    from = n;
                    n = op->n - from;
                }
            }
            disk_apply(d, op, from, op->kind == CRASH_WRITE ? n : 0);
        }
    }
    mkdir(to, 0755);
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < d->n_names; i++) {
            char path[512];
            int fd;

            snprintf(path, sizeof path, "%s%s", to, d->names[i].path + strlen(crash.root));
            if (d->names[i].inode == UINT32_MAX) {
                if (pass == 0)
                    mkdir(path, 0755);
                continue;
            }
            if (pass == 0 || !d->names[i].inode)
                continue;
            fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
            if (fd >= 0) {
                const struct crash_inode *x = &d->inodes[d->names[i].inode];

                if (x->n && write(fd, x->data, x->n) != (ssize_t) x->n)
                    abort();
                close(fd);
            }
        }
    for (uint32_t i = 0; i < CRASH_INODES; i++)
        mem_free(d->inodes[i].data);
    mem_free(d->inodes);
    mem_free(d);
}

#endif
