/* SPDX-License-Identifier: Apache-2.0 */
/* File operations (fd.h) over the table fd_ops: opening regular files, reading whole files, and replacing a file
 * atomically. */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/hash.h"

static int sys_sync(int fd, bool data_only)
{
    return data_only ? fdatasync(fd) : fsync(fd);
}

static int sys_open(int dirfd, const char *path, int flags, mode_t mode)
{
    return openat(dirfd, path, flags, mode);
}

static int sys_open_within(int dirfd, const char *path, uint64_t resolve)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = resolve};

    return (int) syscall(SYS_openat2, dirfd, path, &how, sizeof how);
}

static int sys_allocate(int fd, off_t off, off_t n)
{
    int r = posix_fallocate(fd, off, n);

    if (r) {
        errno = r;
        return -1;
    }
    return 0;
}

static int sys_space(int fd, uint64_t *ret_free, uint64_t *ret_total)
{
    struct statvfs v;

    if (fstatvfs(fd, &v) < 0)
        return -1;
    *ret_free = (uint64_t) v.f_bavail * v.f_frsize;
    *ret_total = (uint64_t) v.f_blocks * v.f_frsize;
    return 0;
}

const struct fd_ops fd_ops_system = {
    .open = sys_open,
    .open_within = sys_open_within,
    .stat = fstatat,
    .close = close,
    .pread = pread,
    .pwrite = pwrite,
    .read = read,
    .write = write,
    .sync = sys_sync,
    .truncate = ftruncate,
    .rename = renameat,
    .unlink = unlinkat,
    .mkdir = mkdirat,
    .allocate = sys_allocate,
    .space = sys_space,
};

const struct fd_ops *fd_ops = &fd_ops_system;

static _Atomic uint64_t exhausted;

int fd_open(int dirfd, const char *path, int flags, mode_t mode)
{
    int fd = fd_ops->open(dirfd, path, flags | O_CLOEXEC, mode);

    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
        exhausted++;
    return fd < 0 ? -errno : fd;
}

uint64_t fd_exhausted(void)
{
    return exhausted;
}

/* Opening a device may have side effects, and opening a FIFO waits for its writer: a path is therefore resolved with
 * O_PATH, which opens nothing, and only a regular file is then opened for reading. Takes ownership of `at`. */
static int reopen_regular(int at)
{
    _cleanup_(fd_closep) int path_only = at;
    char path[40];
    struct stat st;

    if (at < 0)
        return at;
    if (fd_stat(at, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    /* thread-self: /proc/self is empty once the first thread of the process has ended, and the SDK keeps running */
    snprintf(path, sizeof path, "/proc/thread-self/fd/%d", path_only);
    return fd_open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
}

int fd_open_regular(const char *path)
{
    return reopen_regular(fd_open(AT_FDCWD, path, O_PATH, 0));
}

static int find_within(const char *folder, const char *path, uint64_t resolve)
{
    _cleanup_(fd_closep) int dir = fd_open(AT_FDCWD, folder, O_PATH | O_DIRECTORY, 0);
    int fd;

    if (dir < 0)
        return dir;
    fd = fd_ops->open_within(dir, path, resolve | RESOLVE_NO_MAGICLINKS);
    return fd < 0 ? -errno : fd;
}

int fd_find_in_root(const char *root, const char *path)
{
    return find_within(root, path, RESOLVE_IN_ROOT);
}

int fd_open_in_root(const char *root, const char *path)
{
    return reopen_regular(find_within(root, path, RESOLVE_IN_ROOT));
}

int fd_open_beneath(const char *folder, const char *path)
{
    return reopen_regular(find_within(folder, path, RESOLVE_BENEATH));
}

void fd_close(int fd)
{
    int saved = errno;

    if (fd >= 0)
        fd_ops->close(fd);
    errno = saved;
}

int fd_stat(int fd, struct stat *ret)
{
    return fd_ops->stat(fd, "", ret, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

int fd_stat_path(const char *path, struct stat *ret)
{
    return fd_ops->stat(AT_FDCWD, path, ret, 0) < 0 ? -errno : 0;
}

ssize_t fd_read(int fd, void *p, size_t n)
{
    ssize_t r;

    do
        r = fd_ops->read(fd, p, n);
    while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : r;
}

ssize_t fd_pread(int fd, void *p, size_t n, off_t off)
{
    ssize_t r;

    do
        r = fd_ops->pread(fd, p, n, off);
    while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : r;
}

int fd_pread_all(int fd, void *p, size_t n, off_t off)
{
    for (size_t done = 0; done < n;) {
        ssize_t r = fd_pread(fd, (char *) p + done, n - done, off + (off_t) done);

        if (r < 0)
            return (int) r;
        if (r == 0)
            return -ENODATA;
        done += (size_t) r;
    }
    return 0;
}

void fd_will_need(int fd, off_t off, off_t n)
{
    posix_fadvise(fd, off, n, POSIX_FADV_WILLNEED);
}

int fd_write_all(int fd, const void *p, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t r = fd_ops->write(fd, (const char *) p + done, n - done);

        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return -errno;
        done += (size_t) r;
    }
    return 0;
}

int fd_pwrite_all(int fd, const void *p, size_t n, off_t off)
{
    for (size_t done = 0; done < n;) {
        ssize_t r = fd_ops->pwrite(fd, (const char *) p + done, n - done, off + (off_t) done);

        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return -errno;
        done += (size_t) r;
    }
    return 0;
}

int fd_sync(int fd)
{
    return fd_ops->sync(fd, false) < 0 ? -errno : 0;
}

int fd_datasync(int fd)
{
    return fd_ops->sync(fd, true) < 0 ? -errno : 0;
}

int fd_truncate(int fd, off_t size)
{
    return fd_ops->truncate(fd, size) < 0 ? -errno : 0;
}

int fd_rename(int from_dir, const char *from, int to_dir, const char *to)
{
    return fd_ops->rename(from_dir, from, to_dir, to) < 0 ? -errno : 0;
}

int fd_unlink(int dirfd, const char *path)
{
    return fd_ops->unlink(dirfd, path, 0) < 0 ? -errno : 0;
}

int fd_rmdir(int dirfd, const char *path)
{
    return fd_ops->unlink(dirfd, path, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int fd_mkdir(int dirfd, const char *path, mode_t mode)
{
    return fd_ops->mkdir(dirfd, path, mode) < 0 && errno != EEXIST ? -errno : 0;
}

int fd_mkdir_all(const char *path, mode_t mode)
{
    char tmp[4096];
    size_t n = strlen(path);
    int r;

    if (n >= sizeof tmp)
        return -ENAMETOOLONG;
    memcpy(tmp, path, n + 1);
    for (size_t i = 1; i < n; i++) {
        if (tmp[i] != '/')
            continue;
        tmp[i] = 0;
        r = fd_mkdir(AT_FDCWD, tmp, mode);
        if (r < 0)
            return r;
        tmp[i] = '/';
    }
    return fd_mkdir(AT_FDCWD, tmp, mode);
}

int fd_allocate(int fd, off_t off, off_t n)
{
    return fd_ops->allocate(fd, off, n) < 0 ? -errno : 0;
}

int fd_space(int fd, uint64_t *ret_free, uint64_t *ret_total)
{
    return fd_ops->space(fd, ret_free, ret_total) < 0 ? -errno : 0;
}

int fd_files(int fd, uint64_t *ret_free, uint64_t *ret_total)
{
    struct statvfs v;

    if (fstatvfs(fd, &v) < 0)
        return -errno;
    *ret_free = v.f_favail;
    *ret_total = v.f_files;
    return 0;
}

int fd_read_all(int fd, size_t limit, struct buf *b)
{
    struct stat st;
    size_t step = 65536;

    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 && (size_t) st.st_size <= limit)
        step = (size_t) st.st_size + 1; /* one read for the content, and one that returns the end of the file */
    for (;;) {
        char *p = buf_reserve(b, step);
        ssize_t r;

        if (!p)
            return buf_error(b);
        r = fd_read(fd, p, step);
        if (r <= 0)
            return (int) r;
        b->n += (size_t) r;
        if (b->n > limit)
            return -EFBIG;
        step = MAX(65536, b->cap - b->n);
    }
}

int fd_read_file(const char *path, size_t limit, struct buf *b, struct err *e)
{
    bool standard = strcmp(path, "-") == 0;
    _cleanup_(fd_closep) int fd = standard ? -1 : fd_open(AT_FDCWD, path, O_RDONLY, 0);
    int r;

    if (!standard && fd < 0)
        return err_set(e, fd, "cannot open '%s': %m", path);
    r = fd_read_all(standard ? STDIN_FILENO : fd, limit, b);
    if (r == -EFBIG)
        return err_set(e, r, "'%s' is larger than the limit of %zu bytes", path, limit);
    if (r < 0)
        return err_set(e, r, "cannot read '%s': %m", path);
    return 0;
}

/* Devices, pipes and links (/dev/stdout is one) are written to, never replaced. */
static int write_in_place(const char *path, const void *p, size_t n, struct err *e)
{
    int fd = fd_open(AT_FDCWD, path, O_WRONLY | O_TRUNC, 0644), r;

    if (fd < 0)
        return err_set(e, fd, "cannot open '%s': %m", path);
    r = fd_write_all(fd, p, n);
    fd_close(fd);
    return r < 0 ? err_set(e, r, "cannot write '%s': %m", path) : 0;
}

/* A new name in the directory of `name`: random, so that no other user can occupy it beforehand. The kernel of a machine that has
 * just been started may have no random bytes yet: then it is only different from those of other processes. Returns 0 or
 * -ENAMETOOLONG. */
static int random_name(const char *name, char *ret, size_t size)
{
    uint64_t r;

    if (getrandom(&r, sizeof r, GRND_NONBLOCK) != (ssize_t) sizeof r)
        r = hash64_u64((uint64_t) clock_mono() ^ (uint64_t) getpid() << 40);
    return snprintf(ret, size, "%s.tmp%016llx", name, (unsigned long long) r) >= (int) size ? -ENAMETOOLONG : 0;
}

bool fd_is_left_over(const char *name)
{
    static const char hex[] = "0123456789abcdef";
    size_t n = strlen(name);

    return n > 20 && strncmp(name + n - 20, ".tmp", 4) == 0 && strspn(name + n - 16, hex) == 16;
}

static int fill(int fd, const struct fd_owner *owner, const void *p, size_t n)
{
    int r;

    if (owner && (owner->uid != (uid_t) -1 || owner->gid != (gid_t) -1) && fchown(fd, owner->uid, owner->gid) < 0)
        return -errno;
    if (owner && fchmod(fd, owner->mode) < 0) /* after fchown(), which clears mode bits */
        return -errno;
    r = fd_write_all(fd, p, n);
    return r < 0 ? r : fd_sync(fd);
}

/* owner NULL: mode and owner as open() sets them. */
static int replace(int dirfd, const char *name, const struct fd_owner *owner, const void *p, size_t n)
{
    char tmp[4096];
    int r = random_name(name, tmp, sizeof tmp), fd;

    if (r < 0)
        return r;
    fd = fd_open(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, owner ? 0600 : 0644);
    if (fd < 0)
        return fd;
    r = fill(fd, owner, p, n);
    fd_close(fd);
    if (r == 0)
        r = fd_rename(dirfd, tmp, dirfd, name);
    if (r < 0)
        fd_unlink(dirfd, tmp);
    return r;
}

int fd_replace(int dirfd, const char *name, const struct fd_owner *owner, const void *p, size_t n, struct err *e)
{
    _cleanup_(fd_closep) int dir = fd_open(dirfd, ".", O_RDONLY | O_DIRECTORY, 0); /* dirfd may be O_PATH */
    int r = replace(dirfd, name, owner, p, n);

    if (r == 0 && dir >= 0)
        r = fd_sync(dir);
    return r < 0 ? err_set(e, r, "cannot write '%s': %m", name) : 0;
}

int fd_write_file(const char *path, const void *p, size_t n, struct err *e)
{
    struct stat st;
    int r;

    if (strcmp(path, "-") == 0) {
        r = fd_write_all(STDOUT_FILENO, p, n);
        return r < 0 ? err_set(e, r, "cannot write to standard output: %m") : 0;
    }
    if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return write_in_place(path, p, n, e);
    r = replace(AT_FDCWD, path, NULL, p, n);
    return r < 0 ? err_set(e, r, "cannot write '%s': %m", path) : 0;
}

void fd_raise_limit(void)
{
    struct rlimit l;

    if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
        l.rlim_cur = l.rlim_max;
        setrlimit(RLIMIT_NOFILE, &l);
    }
}
