/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All file I/O of wick. Every system call that touches a file goes through the table fd_ops, which a test can replace
 * to record the calls, to make the n-th one fail, or to discard data that was never synced. Sockets are not files: see
 * src/net. Functions return 0 or a count, or a negative errno; the *_all forms never return a short read or write.
 */
#ifndef BASE_FD_H
#define BASE_FD_H

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"

struct fd_ops {
    int (*open)(int dirfd, const char *path, int flags, mode_t mode);
    int (*open_within)(int dirfd, const char *path, uint64_t resolve);     /* openat2() with O_PATH */
    int (*stat)(int dirfd, const char *path, struct stat *ret, int flags); /* fstatat() */
    int (*close)(int fd);
    ssize_t (*pread)(int fd, void *p, size_t n, off_t off);
    ssize_t (*pwrite)(int fd, const void *p, size_t n, off_t off);
    ssize_t (*read)(int fd, void *p, size_t n);
    ssize_t (*write)(int fd, const void *p, size_t n);
    int (*sync)(int fd, bool data_only); /* fsync or fdatasync, of files and of directories */
    int (*truncate)(int fd, off_t size);
    int (*rename)(int from_dir, const char *from, int to_dir, const char *to);
    int (*unlink)(int dirfd, const char *path, int flags);
    int (*mkdir)(int dirfd, const char *path, mode_t mode);
    int (*allocate)(int fd, off_t off, off_t n);                   /* posix_fallocate */
    int (*space)(int fd, uint64_t *ret_free, uint64_t *ret_total); /* bytes of the file system, for this user */
};

extern const struct fd_ops fd_ops_system;
extern const struct fd_ops *fd_ops; /* the table in use; set it before threads start */

int fd_open(int dirfd, const char *path, int flags, mode_t mode); /* always O_CLOEXEC */
uint64_t fd_exhausted(void); /* files that could not be opened because too many are open */
void fd_close(int fd);       /* ignores -1; keeps errno */
int fd_stat(int fd, struct stat *ret);
int fd_stat_path(const char *path, struct stat *ret); /* follows links */
ssize_t fd_read(int fd, void *p, size_t n);           /* 0 at the end */
ssize_t fd_pread(int fd, void *p, size_t n, off_t off);
int fd_pread_all(int fd, void *p, size_t n, off_t off); /* -ENODATA when the file is shorter */
void fd_will_need(int fd, off_t off, off_t n);          /* asks the kernel to read this part of the file soon */
int fd_write_all(int fd, const void *p, size_t n);
int fd_pwrite_all(int fd, const void *p, size_t n, off_t off);
int fd_sync(int fd);
int fd_datasync(int fd);
int fd_truncate(int fd, off_t size);
int fd_rename(int from_dir, const char *from, int to_dir, const char *to);
int fd_unlink(int dirfd, const char *path);
int fd_rmdir(int dirfd, const char *path);
int fd_mkdir(int dirfd, const char *path, mode_t mode); /* 0 if it already exists */
int fd_mkdir_all(const char *path, mode_t mode);        /* with parents */
int fd_allocate(int fd, off_t off, off_t n);
int fd_space(int fd, uint64_t *ret_free, uint64_t *ret_total);
/* Free inodes of the file system; *ret_total is 0 if it does not count them. */
int fd_files(int fd, uint64_t *ret_free, uint64_t *ret_total);
/* Opens a file for reading if it is a regular file: -EINVAL for a device, FIFO or directory, which is never opened. */
int fd_open_regular(const char *path);
/* Opens a regular file for reading by a path relative to another root (a container's): symbolic links, even absolute
 * ones and "..", never lead out of it. -EINVAL for anything that is not a regular file. */
int fd_open_in_root(const char *root, const char *path);
/* The same for a file of any kind, which is not opened: a descriptor of the kind O_PATH. */
int fd_find_in_root(const char *root, const char *path);
/* The same for a path that must stay below the folder: one that leads out of it, by ".." or a link, fails with
 * -EXDEV. */
int fd_open_beneath(const char *folder, const char *path);

/* Appends the whole file to b, at most limit bytes (-EFBIG). path "-" is standard input. */
int fd_read_file(const char *path, size_t limit, struct buf *b, struct err *e);
int fd_read_all(int fd, size_t limit, struct buf *b);
/* Replaces the file `name` in the directory dirfd: writes a new file beside it, syncs it, renames it over the old one
 * and syncs the directory, so that readers see either the old or the new content, even after a crash. The new file has
 * exactly this mode (regardless of the umask) and this owner before its name is visible; uid and gid -1 leave the owner
 * alone. It is created under a random name with O_EXCL|O_NOFOLLOW, so that another user who may write to the directory
 * cannot redirect the write. On failure the old file is untouched. */
struct fd_owner {
    mode_t mode;
    uid_t uid;
    gid_t gid;
};
int fd_replace(int dirfd, const char *name, const struct fd_owner *owner, const void *p, size_t n, struct err *e);
/* The same for a user's file: mode 0644 less the umask. Devices, pipes and links are written to in place, and path "-"
 * is standard output. */
int fd_write_file(const char *path, const void *p, size_t n, struct err *e);
/* Whether a name is that of a new file which neither of them could rename, because its process was killed: one that owns the
 * directory, and writes nothing to it at the moment, may remove it. */
bool fd_is_left_over(const char *name);

/* Raises the soft limit of open files, which is often 1024, to the hard limit. */
void fd_raise_limit(void);

/* True if r means that no space is left: bytes, inodes, or a user's quota. The condition may be temporary. */
static inline bool fd_is_full(int r)
{
    return r == -ENOSPC || r == -EDQUOT;
}

static inline void fd_closep(int *fd)
{
    fd_close(*fd);
}

#endif
