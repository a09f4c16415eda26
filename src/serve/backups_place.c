/* SPDX-License-Identifier: Apache-2.0 */
/* Files of backups in a directory or in an object store; see backups_place.h. */
#include "serve/backups_place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>

#include "base/fd.h"
#include "base/mem.h"
#include "objects/objects.h"
#include "objects/s3_place.h"

enum { PIECE = 1 << 20, NAME_SIZE = 256 };
#define UNFINISHED ".part"

struct backups_place {
    struct object_store *objects; /* NULL: a directory */
    int dir, lock;
    char name[1024]; /* for messages, without options */
};

/* --- a directory --- */

static int open_dir(struct backups_place *p, const char *place, bool make, struct err *e)
{
    int r = make ? fd_mkdir_all(place, 0700) : 0;

    if (r < 0)
        return err_set(e, r, "cannot create '%s': %m", place);
    p->dir = fd_open(AT_FDCWD, place, O_RDONLY | O_DIRECTORY, 0);
    if (p->dir < 0)
        return err_set(e, p->dir, "cannot open '%s': %m", place);
    if (!make)
        return 0;
    p->lock = fd_open(p->dir, "LOCK", O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    if (p->lock < 0)
        return err_set(e, p->lock, "cannot open '%s/LOCK': %m", place);
    if (flock(p->lock, LOCK_EX | LOCK_NB) < 0)
        return err_set(e, -EBUSY, "another program is writing to '%s'", place);
    return 0;
}

static int copy_bytes(int from, uint64_t size, int to)
{
    _cleanup_(mem_freep) char *piece = mem_alloc(PIECE);
    int r = piece ? 0 : -ENOMEM;

    for (uint64_t at = 0; r == 0 && at < size; at += PIECE) {
        size_t n = (size_t) MIN((uint64_t) PIECE, size - at);

        r = fd_pread_all(from, piece, n, (off_t) at);
        if (r == 0)
            r = fd_pwrite_all(to, piece, n, (off_t) at);
    }
    return r == 0 ? fd_sync(to) : r;
}

/* Opens the folder of a name, and syncs the place if the folder is new. */
static int open_folder(struct backups_place *p, struct str *name)
{
    char folder[NAME_SIZE];
    struct str first = str_cut(name, '/');
    int r;

    snprintf(folder, sizeof folder, "%.*s", STR_FMT(first));
    r = fd_mkdir(p->dir, folder, 0700);
    if (r == 0)
        r = fd_sync(p->dir);
    return r < 0 ? r : fd_open(p->dir, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
}

static int put_in_dir(struct backups_place *p, const char *name, int fd, uint64_t size)
{
    struct str rest = str_from(name);
    _cleanup_(fd_closep) int folder = open_folder(p, &rest), out = -1;
    char part[NAME_SIZE + sizeof UNFINISHED];
    int r = MIN(folder, 0);

    snprintf(part, sizeof part, "%.*s" UNFINISHED, STR_FMT(rest));
    if (r == 0)
        r = out = fd_open(folder, part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    if (r < 0)
        return r;
    r = copy_bytes(fd, size, out);
    if (r == 0)
        r = fd_rename(folder, part, folder, rest.p);
    if (r < 0)
        fd_unlink(folder, part);
    return r < 0 ? r : fd_sync(folder);
}

static int read_in_dir(struct backups_place *p, const struct backups_part *part, void *to)
{
    _cleanup_(fd_closep) int fd = fd_open(p->dir, part->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    int r = fd < 0 ? fd : fd_pread_all(fd, to, part->len, (off_t) part->off);

    return r == -ENODATA ? -EBADMSG : r;
}

static int list_dir(struct backups_place *p, const char *folder, int (*fn)(void *ctx, struct str name, uint64_t size),
                    void *ctx)
{
    int fd = fd_open(p->dir, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0), r = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    if (!d) {
        fd_close(fd);
        return fd == -ENOENT ? 0 : fd < 0 ? fd : -ENOMEM;
    }
    for (struct dirent *x; r == 0 && (x = readdir(d));) {
        struct str name = str_from(x->d_name);
        struct stat st;

        if (x->d_name[0] != '.' && !str_ends(name, STR(UNFINISHED)) &&
            fstatat(fd, x->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            r = fn(ctx, name, (uint64_t) st.st_size);
    }
    closedir(d);
    return r;
}

/* --- an object store --- */

struct object_listing {
    int (*fn)(void *ctx, struct str name, uint64_t size);
    void *ctx;
    size_t skip;
};

static int on_object(void *ctx, const char *path, uint64_t size)
{
    struct object_listing *x = ctx;

    return x->fn(x->ctx, str_from(path + x->skip), size);
}

static int list_objects(struct backups_place *p, const char *folder, struct object_listing *x, struct err *e)
{
    _cleanup_(buf_done) struct buf path = BUF_INIT;

    objects_path(p->objects, folder, &path);
    buf_putc(&path, '/');
    x->skip = path.n;
    return buf_cstr(&path) ? objects_list(p->objects, path.p, on_object, x, e) : -ENOMEM;
}

/* --- either --- */

int backups_place_open(const char *place, bool make, struct backups_place **ret, struct err *e)
{
    _cleanup_(backups_place_closep) struct backups_place *p = mem_zalloc(sizeof *p);
    struct str shown = str_from(place);
    int r;

    if (!p)
        return -ENOMEM;
    p->dir = p->lock = -1;
    if (s3_is_place(shown))
        shown = str_cut(&shown, '?');
    snprintf(p->name, sizeof p->name, "%.*s", STR_FMT(shown));
    r = s3_is_place(shown) ? objects_open(place, &p->objects, e) : open_dir(p, place, make, e);
    if (r < 0)
        return r;
    *ret = TAKE(p);
    return 0;
}

void backups_place_close(struct backups_place *p)
{
    if (!p)
        return;
    objects_close(p->objects);
    fd_close(p->lock);
    fd_close(p->dir);
    mem_free(p);
}

static int fail(struct backups_place *p, const char *what, const char *name, int r, struct err *e)
{
    if (e && e->code) /* the object store says more */
        return err_prefix(e, r, "cannot %s '%s/%s': ", what, p->name, name);
    return err_set(e, r, "cannot %s '%s/%s': %m", what, p->name, name);
}

int backups_place_put(struct backups_place *p, const char *name, int fd, uint64_t size, struct err *e)
{
    _cleanup_(buf_done) struct buf path = BUF_INIT;
    int r;

    if (p->objects) {
        objects_path(p->objects, name, &path);
        r = buf_cstr(&path) ? objects_write(p->objects, path.p, fd, size, e) : -ENOMEM;
    } else {
        r = put_in_dir(p, name, fd, size);
    }
    return r < 0 ? fail(p, "write", name, r, e) : 0;
}

int backups_place_read(struct backups_place *p, const struct backups_part *part, void *to, struct err *e)
{
    _cleanup_(buf_done) struct buf path = BUF_INIT;
    struct object_part piece = {part->off, part->len, to};
    int r = 0;

    if (part->len == 0)
        return 0;
    if (p->objects) {
        objects_path(p->objects, part->name, &path);
        r = buf_cstr(&path) ? objects_read(p->objects, path.p, &piece, 1, e) : -ENOMEM;
    } else {
        r = read_in_dir(p, part, to);
    }
    return r < 0 ? fail(p, "read", part->name, r, e) : 0;
}

int backups_place_remove(struct backups_place *p, const char *name, struct err *e)
{
    _cleanup_(buf_done) struct buf path = BUF_INIT;
    int r;

    if (p->objects) {
        objects_path(p->objects, name, &path);
        r = buf_cstr(&path) ? objects_remove(p->objects, path.p, e) : -ENOMEM;
    } else {
        r = fd_unlink(p->dir, name);
        r = r == -ENOENT ? 0 : r;
    }
    return r < 0 ? fail(p, "remove", name, r, e) : 0;
}

int backups_place_list(struct backups_place *p, const char *folder,
                       int (*fn)(void *ctx, struct str name, uint64_t size), void *ctx, struct err *e)
{
    int r;

    if (p->objects)
        r = list_objects(p, folder, &(struct object_listing){.fn = fn, .ctx = ctx}, e);
    else
        r = list_dir(p, folder, fn, ctx);
    return r < 0 ? fail(p, "list", folder, r, e) : 0;
}
