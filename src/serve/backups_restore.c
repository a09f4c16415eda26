/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the files of a backup into a directory, and checks each of them; see backups.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/dir_tree.h"
#include "base/fd.h"
#include "base/mem.h"
#include "objects/sigv4.h"
#include "serve/backups.h"
#include "serve/backups_hash.h"
#include "serve/backups_place.h"
#include "store/store_place.h"

enum { PIECE = 8 << 20, PATH_SIZE_ = 1024 };

static int copy_file(struct backups_place *p, const struct backups_file *f, int out, struct err *e)
{
    _cleanup_(mem_freep) char *piece = mem_alloc((size_t) MIN((uint64_t) PIECE, f->size) + 1);
    char name[BACKUPS_HEX + 16], hex[BACKUPS_HEX + 1];
    uint8_t hash[SHA256_SIZE];
    struct sha256 s;
    int r = piece ? 0 : -ENOMEM;

    snprintf(name, sizeof name, "files/%.*s", STR_FMT(f->sha256));
    sha256_init(&s);
    for (uint64_t at = 0; r == 0 && at < f->size; at += PIECE) {
        struct backups_part part = {name, at, (uint32_t) MIN((uint64_t) PIECE, f->size - at)};

        r = backups_place_read(p, &part, piece, e);
        if (r < 0)
            return r;
        sha256_add(&s, piece, part.len);
        r = fd_pwrite_all(out, piece, part.len, (off_t) at);
    }
    sha256_final(&s, hash);
    sigv4_hex(hash, hex);
    if (r == 0 && !str_is(f->sha256, hex))
        return err_set(e, -EBADMSG, "'%s' is damaged: its content has another checksum than its name", name);
    if (r == 0)
        r = fd_sync(out);
    return r < 0 ? err_set(e, r, "cannot write '%.*s': %m", STR_FMT(f->path)) : 0;
}

/* The paths of a backup are sorted: a directory comes before what is in it. No link is followed: there is none. */
static int restore_file(struct backups_place *p, const struct backups_file *f, int dir, struct err *e)
{
    char path[PATH_SIZE_];
    _cleanup_(fd_closep) int out = -1;
    int r = 0;

    snprintf(path, sizeof path, "%.*s", STR_FMT(f->path));
    if (f->sha256.n == 0)
        r = fd_mkdir(dir, path, 0700);
    else
        r = out = fd_open(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (r < 0)
        return err_set(e, r, "cannot create '%s': %m", path);
    return out < 0 ? 0 : copy_file(p, f, out, e);
}

static int sync_dirs(const struct backups_one *one, int dir)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < one->n_files; i++) {
        char path[PATH_SIZE_];
        int fd;

        if (one->files[i].sha256.n)
            continue;
        snprintf(path, sizeof path, "%.*s", STR_FMT(one->files[i].path));
        fd = fd_open(dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
        r = fd < 0 ? fd : fd_sync(fd);
        fd_close(fd);
    }
    return r == 0 ? fd_sync(dir) : r;
}

/* What makes the directory a store is written last. */
static int restore_all(struct backups_place *p, const struct backups_one *one, int dir, struct err *e)
{
    int r = 0;

    for (int mark = 0; r == 0 && mark < 2; mark++) {
        for (uint32_t i = 0; r == 0 && i < one->n_files; i++)
            if (str_is(one->files[i].path, STORE_PLACE_MARK) == (mark == 1))
                r = restore_file(p, &one->files[i], dir, e);
        if (r == 0)
            r = sync_dirs(one, dir);
    }
    return r;
}

static int check_empty(int fd, const char *dir, struct err *e)
{
    int list = fd_open(fd, ".", O_RDONLY | O_DIRECTORY, 0), n = 0;
    DIR *d = list < 0 ? NULL : fdopendir(list);

    if (!d) {
        fd_close(list);
        return err_set(e, list < 0 ? list : -ENOMEM, "cannot list '%s': %m", dir);
    }
    while (readdir(d))
        n++;
    closedir(d);
    return n <= 2 ? 0 : err_set(e, -ENOTEMPTY, "'%s' is not empty: a backup is restored into a new directory", dir);
}

int backups_restore(struct backups_place *p, const struct backups_one *one, const char *dir, struct err *e)
{
    _cleanup_(fd_closep) int fd = -1;
    int r = fd_mkdir_all(dir, 0700);

    fd = r < 0 ? r : fd_open(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return err_set(e, fd, "cannot create '%s': %m", dir);
    r = check_empty(fd, dir, e);
    if (r < 0)
        return r;
    r = restore_all(p, one, fd, e);
    if (r < 0)
        dir_remove((struct dir_place){AT_FDCWD, dir});
    return r;
}
