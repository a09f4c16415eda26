/* SPDX-License-Identifier: Apache-2.0 */
/* Copies, moves and removes whole directories, see dir_tree.h. */
#include "base/dir_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"

enum { PIECE = 1 << 20, DEPTH_MAX = 16 };

/* --- copying --- */

struct dir_copying {
    char *piece;
    int depth;
    struct err *e;
};

static int fail(struct dir_copying *c, const char *name, int r)
{
    return err_set(c->e, r, "cannot copy '%s': %m", name);
}

static int copy_bytes(int in, int out, char *piece)
{
    for (;;) {
        ssize_t n = fd_read(in, piece, PIECE);
        int r = n <= 0 ? (int) n : fd_write_all(out, piece, (size_t) n);

        if (n <= 0 || r < 0)
            return r < 0 ? r : fd_sync(out);
    }
}

static int copy_any(struct dir_copying *c, struct dir_place from, struct dir_place to);

/* Everything but "index", or only that. */
static int copy_entries(struct dir_copying *c, int in, int out, bool index)
{
    int list = fd_open(in, ".", O_RDONLY | O_DIRECTORY, 0), r = 0;
    DIR *d = list < 0 ? NULL : fdopendir(list);

    if (!d) {
        fd_close(list);
        return list < 0 ? list : -ENOMEM;
    }
    for (struct dirent *x; r == 0 && (x = readdir(d));) {
        struct str name = str_from(x->d_name);

        if (str_is(name, ".") || str_is(name, "..") || str_ends(name, STR(".part")) || str_is(name, "index") != index)
            continue;
        r = copy_any(c, (struct dir_place){in, x->d_name}, (struct dir_place){out, x->d_name});
        r = r == -ENOENT ? 0 : r;
    }
    closedir(d);
    return r;
}

static int copy_dir(struct dir_copying *c, int in, struct dir_place to)
{
    _cleanup_(fd_closep) int out = -1;
    int r = c->depth >= DEPTH_MAX ? -ELOOP : fd_mkdir(to.at, to.path, 0700);

    if (r == 0)
        r = out = fd_open(to.at, to.path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (r < 0)
        return fail(c, to.path, r);
    c->depth++;
    r = copy_entries(c, in, out, false);
    if (r == 0)
        r = copy_entries(c, in, out, true);
    c->depth--;
    return r == 0 ? fd_sync(out) : r;
}

static int copy_any(struct dir_copying *c, struct dir_place from, struct dir_place to)
{
    _cleanup_(fd_closep) int in = fd_open(from.at, from.path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    _cleanup_(fd_closep) int out = -1;
    struct stat st;
    int r;

    if (in == -ENOENT || in == -ELOOP)
        return -ENOENT;
    r = in < 0 ? in : fd_stat(in, &st);
    if (r < 0)
        return fail(c, from.path, r);
    if (S_ISDIR(st.st_mode))
        return copy_dir(c, in, to);
    if (!S_ISREG(st.st_mode))
        return 0;
    r = out = fd_open(to.at, to.path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, st.st_mode & 0777);
    if (r >= 0)
        r = copy_bytes(in, out, c->piece);
    return r < 0 ? fail(c, from.path, r) : 0;
}

int dir_copy(struct dir_place from, struct dir_place to, struct err *e)
{
    _cleanup_(mem_freep) char *piece = mem_alloc(PIECE);
    struct dir_copying c = {.piece = piece, .e = e};

    return piece ? copy_any(&c, from, to) : -ENOMEM;
}

/* --- removing and moving --- */

static int remove_any(struct dir_place what, int depth)
{
    int fd, r = fd_unlink(what.at, what.path);
    DIR *d;

    if (r != -EISDIR && r != -EPERM)
        return r;
    r = fd = depth >= DEPTH_MAX ? -ELOOP : fd_open(what.at, what.path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd < 0)
        return r;
    d = fdopendir(fd);
    if (!d) {
        fd_close(fd);
        return -ENOMEM;
    }
    r = 0;
    for (struct dirent *x; r == 0 && (x = readdir(d));)
        if (strcmp(x->d_name, ".") != 0 && strcmp(x->d_name, "..") != 0)
            r = remove_any((struct dir_place){fd, x->d_name}, depth + 1);
    closedir(d);
    return r == 0 ? fd_rmdir(what.at, what.path) : r;
}

int dir_remove(struct dir_place what)
{
    return remove_any(what, 0);
}

int dir_move(struct dir_place from, struct dir_place to, struct err *e)
{
    int r = fd_rename(from.at, from.path, to.at, to.path);

    if (r == 0)
        return 0;
    if (r != -EXDEV)
        return err_set(e, r, "cannot move '%s' to '%s': %m", from.path, to.path);
    r = dir_copy(from, to, e);
    if (r == 0)
        r = dir_remove(from);
    return r < 0 && e && !e->code ? err_set(e, r, "cannot remove '%s': %m", from.path) : r;
}
