/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the directories of the server and changes their owner to the server's user, without following the links of
 * other users. See serve_dirs.h. */
#include "serve/serve_dirs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "server/service_user.h"
#include "store/store_place.h"

enum { DEPTH_MAX = 16, LINKS_MAX = 16, PATH_BYTES = 4096 };

struct owner {
    uid_t uid;
    gid_t gid;
    dev_t device;
    bool is_trusted; /* so far only root could write here */
    uint64_t changed, kept;
};

/* --- opening --- */

/* Opens one component of a path; 1 with *ret_link filled if it is a link that root made. */
static int step(int at, const char *name, char ret_link[PATH_BYTES], int *ret)
{
    _cleanup_(fd_closep) int fd = fd_open(at, name, O_PATH | O_NOFOLLOW, 0);
    struct stat st;
    ssize_t n;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode)) {
        *ret = fd;
        fd = -1;
        return 0;
    }
    if (!S_ISLNK(st.st_mode))
        return -ENOTDIR;
    if (st.st_uid != 0 && st.st_uid != getuid())
        return -ELOOP;
    n = readlinkat(fd, "", ret_link, PATH_BYTES - 1);
    if (n < 0)
        return -errno;
    ret_link[n] = 0;
    return 1;
}

/* Walks to a directory; follows only links made by root or by the user who started this process. */
static int walk(const char *path, int *ret)
{
    _cleanup_(fd_closep) int at = fd_open(AT_FDCWD, path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY, 0);
    char rest[2 * PATH_BYTES], link[PATH_BYTES], more[PATH_BYTES];
    int links = 0;

    if (at < 0)
        return at;
    if (snprintf(rest, sizeof rest, "%s", path) >= PATH_BYTES)
        return -ENAMETOOLONG;
    for (char *p = rest; *p;) {
        char *end;
        int next = -1, r;

        p += strspn(p, "/");
        if (!*p)
            break;
        end = p + strcspn(p, "/");
        if (snprintf(more, sizeof more, "%s", end) >= PATH_BYTES)
            return -ENAMETOOLONG;
        *end = 0;
        r = step(at, p, link, &next);
        if (r < 0)
            return r;
        if (r > 0 && ++links > LINKS_MAX)
            return -ELOOP;
        if (r > 0 && link[0] == '/')
            next = fd_open(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0);
        if (next >= 0) {
            fd_close(at);
            at = next;
        }
        snprintf(rest, sizeof rest, "%s%s", r > 0 ? link : "", more);
        p = rest;
    }
    *ret = fd_open(at, ".", O_RDONLY | O_DIRECTORY, 0);
    return *ret < 0 ? *ret : 0;
}

int serve_dir_open(struct serve_dir *d, struct err *e)
{
    int r = walk(d->path, &d->fd);

    if (r < 0 && d->kind == SERVE_DIR_REACH) {
        d->fd = -1;
        return 0; /* the code that opens the file reports the error */
    }
    if (r == -ENOENT && d->kind == SERVE_DIR_DATA && geteuid() != 0) {
        d->fd = -1;
        return 0; /* created together with the first token, by the same user */
    }
    if (r == -ENOENT) {
        r = fd_mkdir_all(d->path, 0700);
        if (r < 0)
            return err_set(e, r, "cannot create '%s': %s", d->path, strerror(-r));
        r = walk(d->path, &d->fd);
    }
    if (r < 0)
        d->fd = -1;
    if (r == -ELOOP)
        return err_set(e, r, "cannot open '%s': the path contains a symbolic link of another user", d->path);
    return r < 0 ? err_set(e, r, "cannot open '%s': %s", d->path, strerror(-r)) : 0;
}

/* --- changing the owner --- */

static int give(int fd, const struct stat *st, struct owner *o)
{
    bool is_plain = S_ISDIR(st->st_mode) || (S_ISREG(st->st_mode) && (st->st_nlink == 1 || o->is_trusted));

    if (st->st_uid == o->uid)
        return 0;
    if (!is_plain || st->st_dev != o->device) {
        o->kept++;
        return 0;
    }
    if (fchownat(fd, "", o->uid, o->gid, AT_EMPTY_PATH) < 0)
        return -errno;
    o->changed++;
    return 0;
}

static int give_all(int dir, struct owner *o, int depth);

static int give_entry(int dir, const char *name, struct owner *o, int depth)
{
    _cleanup_(fd_closep) int fd = fd_open(dir, name, O_PATH | O_NOFOLLOW, 0), below = -1;
    struct stat st;
    int r;

    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode) && st.st_dev == o->device && depth < DEPTH_MAX) {
        below = fd_open(fd, ".", O_RDONLY | O_DIRECTORY, 0);
        r = below < 0 ? below : give_all(below, o, depth + 1);
        below = -1; /* closed by give_all() */
        if (r < 0)
            return r;
    }
    return give(fd, &st, o);
}

/* Gives away everything in a directory; closes it. */
static int give_all(int dir, struct owner *o, int depth)
{
    DIR *d = fdopendir(dir);
    int r = 0;

    if (!d) {
        r = -errno;
        fd_close(dir);
        return r;
    }
    for (struct dirent *f; r == 0 && (f = readdir(d));)
        if (strcmp(f->d_name, ".") != 0 && strcmp(f->d_name, "..") != 0)
            r = give_entry(dirfd(d), f->d_name, o, depth);
    closedir(d);
    return r;
}

static bool is_empty(int dir)
{
    int fd = fd_open(dir, ".", O_RDONLY | O_DIRECTORY, 0);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    bool empty = d != NULL;

    for (struct dirent *f; empty && (f = readdir(d));)
        empty = strcmp(f->d_name, ".") == 0 || strcmp(f->d_name, "..") == 0;
    if (d)
        closedir(d);
    return empty;
}

static bool has_file(int dir, const char *name)
{
    struct stat st;

    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

/* True if a directory of another user may be given away: it must not be, for example, a home directory named by
 * mistake. */
static bool is_ours(const struct serve_dir *d, const struct stat *st)
{
    if (is_empty(d->fd) || service_user_is_own(st->st_uid))
        return true;
    return d->kind == SERVE_DIR_STORE ? has_file(d->fd, STORE_PLACE_MARK) : d->kind == SERVE_DIR_DATA;
}

static int give_contents(struct serve_dir *d, const struct stat *st, struct owner *o)
{
    int r = 0;

    if (d->kind == SERVE_DIR_STORE)
        r = give_all(fd_open(d->fd, ".", O_RDONLY | O_DIRECTORY, 0), o, 0);
    else if (d->file && has_file(d->fd, d->file))
        r = give_entry(d->fd, d->file, o, DEPTH_MAX);
    if (r < 0 || d->kind == SERVE_DIR_FILE)
        return r;
    r = give(d->fd, st, o);
    if (r == 0 && (st->st_mode & 077) && fchmod(d->fd, 0700) < 0)
        r = -errno;
    return r;
}

int serve_dir_hand_over(struct serve_dir *d, uid_t uid, gid_t gid, const char *name, struct err *e)
{
    struct owner o = {.uid = uid, .gid = gid};
    struct stat st;
    int r;

    if (d->kind == SERVE_DIR_REACH)
        return 0;
    if (fstat(d->fd, &st) < 0)
        return err_set(e, -errno, "cannot stat '%s': %m", d->path);
    o.device = st.st_dev;
    o.is_trusted = st.st_uid == 0 && !(st.st_mode & 022);
    if (d->kind != SERVE_DIR_FILE && st.st_uid != uid && !is_ours(d, &st))
        return err_set(e, -EACCES,
                       "'%s' belongs to another user and is not a store of wick; run chown -R %s '%s', choose another "
                       "directory, or set user: \"\" to stay root",
                       d->path, name, d->path);
    r = give_contents(d, &st, &o);
    if (r < 0)
        return err_set(e, r, "cannot change the owner of '%s' to user %s: %s", d->path, name, strerror(-r));
    d->given = o.changed;
    d->left = o.kept;
    return 0;
}
