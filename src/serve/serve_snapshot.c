/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a copy of the store while the server runs, see serve_snapshot.h. */
#include "serve/serve_snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/dir_tree.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "serve/backups.h"
#include "serve/serve_state.h"
#include "serve/store_backup.h"
#include "store/store.h"
#include "store/store_place.h"

#define UNFINISHED ".part"

static bool is_same_dir(struct serve *s, struct str dir)
{
    char path[SERVE_PATH_SIZE];
    struct stat a, b;

    if (str_is(dir, s->store_dir))
        return true;
    if (dir.n >= sizeof path)
        return false;
    snprintf(path, sizeof path, "%.*s", STR_FMT(dir));
    return fd_stat_path(path, &a) == 0 && fd_stat_path(s->reached_store, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

/* The copy must not be what fills the disk: the store itself refuses data when less than a twentieth of it is free. */
static int check_room(struct serve *s, uint64_t *ret_bytes, struct err *e)
{
    _cleanup_(fd_closep) int dir = fd_open(AT_FDCWD, s->reached_store, O_RDONLY | O_DIRECTORY, 0);
    uint64_t free, total, needed;
    struct store_stats st = {0};
    int r = dir < 0 ? dir : fd_space(dir, &free, &total);

    if (r == 0)
        r = s->store->ops->stats(s->store, &st);
    if (r < 0)
        return err_set(e, r, "cannot look at '%s': %m", s->store_dir);
    *ret_bytes = needed = st.disk_bytes + st.cold_bytes + st.beside_bytes;
    if (free < total / 20 || free - total / 20 < needed)
        return err_set(e, -ENOSPC, "a snapshot takes about %llu MiB, and only %llu MiB of '%s' are free",
                       (unsigned long long) (needed >> 20), (unsigned long long) (free >> 20), s->store_dir);
    return 0;
}

static int make_locked(struct serve *s, struct buf *out, struct err *e)
{
    char name[BACKUPS_NAME_SIZE], dir[SERVE_PATH_SIZE + 80], part[SERVE_PATH_SIZE + 90];
    uint64_t bytes = 0;
    bool first = true;
    int r = backups_make_name(clock_wall(), name);

    if (r == 0)
        r = check_room(s, &bytes, e);
    if (r < 0)
        return r;
    snprintf(dir, sizeof dir, "%s/" STORE_PLACE_SNAPSHOTS, s->reached_store);
    r = fd_mkdir_all(dir, 0700);
    if (r < 0)
        return err_set(e, r, "cannot create '%s': %m", dir);
    snprintf(dir, sizeof dir, "%s/" STORE_PLACE_SNAPSHOTS "/%s", s->reached_store, name);
    snprintf(part, sizeof part, "%s" UNFINISHED, dir);
    r = store_backup_make(&(struct store_backup){s->store, s->traces.index, s->reached_store, part}, e);
    if (r == 0)
        r = dir_move((struct dir_place){AT_FDCWD, part}, (struct dir_place){AT_FDCWD, dir}, e);
    if (r < 0) {
        dir_remove((struct dir_place){AT_FDCWD, part});
        return r;
    }
    buf_putc(out, '{');
    json_put_key_text(out, &first, "name", name);
    snprintf(dir, sizeof dir, "%s/" STORE_PLACE_SNAPSHOTS "/%s", s->store_dir, name);
    json_put_key_text(out, &first, "dir", dir);
    json_put_key_u64(out, &first, "bytes", bytes);
    buf_puts(out, "}\n");
    log_info("made the snapshot '%s'", dir);
    return 0;
}

static int make(void *ctx, struct str store, struct buf *out, struct err *e)
{
    struct serve *s = ctx;
    int r;

    if (store.n && !is_same_dir(s, store))
        return err_set(e, -EINVAL, "this server's store is '%s', not '%.*s'", s->store_dir, STR_FMT(store));
    if (atomic_exchange(&s->in_snapshot, true))
        return err_set(e, -EAGAIN, "another snapshot is being made");
    r = make_locked(s, out, e);
    atomic_store(&s->in_snapshot, false);
    return r;
}

/* Removes those that were not finished. */
static void clean(const char *store)
{
    char path[SERVE_PATH_SIZE + 32];
    DIR *d;
    int fd;

    snprintf(path, sizeof path, "%s/" STORE_PLACE_SNAPSHOTS, store);
    fd = fd_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        fd_close(fd);
        return;
    }
    for (struct dirent *x; (x = readdir(d));)
        if (str_ends(str_from(x->d_name), STR(UNFINISHED)))
            dir_remove((struct dir_place){fd, x->d_name});
    closedir(d);
}

const struct snapshots *serve_snapshots(struct serve *s)
{
    if (!s->store->ops->in_dir || !s->store->ops->snapshot)
        return NULL;
    clean(s->reached_store);
    s->snapshots = (struct snapshots){make, s};
    return &s->snapshots;
}
