/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether there is space to write, and a directory to write to. On a full file system (bytes, files, or a user's
 * quota), senders have to wait; queries still work, and retention works with the help of the reserve. A store whose
 * directory was deleted or replaced stops, since anything written to it would be lost.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "store/engines/segment/engine.h"

enum { FILES_MIN = 16, RESERVE_SHARE = 16 }; /* of the limit of size */

static uint64_t reserve_bytes(const struct engine *g)
{
    return MIN(g->config.reserve ? g->config.reserve : (uint64_t) 64 << 20, engine_size_limit(g) / RESERVE_SHARE);
}

void engine_make_reserve(struct engine *g)
{
    uint64_t size = reserve_bytes(g);
    _cleanup_(fd_closep) int fd = -1;
    uint64_t free, total;
    struct stat st;

    if (g->config.manual || fd_space(g->dir_fd, &free, &total) < 0 || free < 4 * size)
        return; /* a reserve must not be what fills the disk */
    fd = fd_open(g->dir_fd, "RESERVE", O_RDWR | O_CREAT, 0600);
    if (fd >= 0 && fstat(fd, &st) == 0 && (uint64_t) st.st_size < size)
        fd_allocate(fd, 0, (off_t) size);
}

void engine_release_reserve(struct engine *g)
{
    int fd = fd_open(g->dir_fd, "RESERVE", O_RDWR, 0);

    if (fd < 0)
        return;
    fd_truncate(fd, 0);
    fd_close(fd);
}

void engine_release_if_full(struct engine *g)
{
    uint64_t free, total;

    if (!g->config.read_only && fd_space(g->dir_fd, &free, &total) == 0 && free < (4 << 20))
        engine_release_reserve(g);
}

void engine_full_reason(struct engine *g, int r, char *out, size_t size)
{
    uint64_t free, total;

    if (r == -EDQUOT)
        snprintf(out, size, "the disk quota for '%.100s' is exhausted: nothing is stored until space is freed",
                 engine_place(g));
    else if (fd_files(g->dir_fd, &free, &total) == 0 && total && !free)
        snprintf(out, size, "the file system of '%.100s' has no free inodes: nothing is stored until some are freed",
                 engine_place(g));
    else
        snprintf(out, size, "no space left on the disk of '%.100s': nothing is stored until space is freed",
                 engine_place(g));
}

bool engine_is_low(struct engine *g, char *why, size_t size)
{
    double min = g->config.min_free ? g->config.min_free : 0.05;
    uint64_t free, total, held = 0;
    struct stat st;

    if (min < 0)
        return false;
    if (fstatat(g->dir_fd, "RESERVE", &st, 0) == 0 && !st.st_size) /* released: for retention, not for senders */
        held = reserve_bytes(g);
    if (fd_files(g->dir_fd, &free, &total) == 0 && total && free < FILES_MIN) {
        snprintf(why, size, "the file system of '%.100s' has no free inodes: nothing is stored until some are freed",
                 engine_place(g));
        return true;
    }
    if (fd_space(g->dir_fd, &free, &total) == 0 && total && (double) free < min * (double) total + (double) held) {
        snprintf(why, size, "the disk of '%.100s' is nearly full: nothing is stored until space is freed",
                 engine_place(g));
        return true;
    }
    return false;
}

/* The path of the directory according to the kernel: a server that dropped its privileges may not be able to look it
 * up. */
static bool find_place(struct engine *g, char out[static 4096])
{
    char link[64];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", g->dir_fd);
    n = readlink(link, out, 4095);
    out[MAX(n, 0)] = 0;
    return n > 0;
}

void engine_note_place(struct engine *g)
{
    char place[4096];

    if (find_place(g, place))
        g->place = mem_strdup(place);
}

const char *engine_place(const struct engine *g)
{
    return g->place ? g->place : g->dir;
}

bool engine_is_gone(struct engine *g, char *why, size_t size)
{
    struct stat open_one, named;
    char place[4096];
    const char *how = NULL;

    if (fstat(g->lock_fd, &open_one) == 0 && !open_one.st_nlink)
        how = "deleted";
    else if (g->place && find_place(g, place) && strcmp(place, g->place) != 0)
        how = str_ends(str_from(place), STR(" (deleted)")) ? "deleted" : "moved or replaced by another";
    else if (stat(g->dir, &named) == 0 && fstat(g->dir_fd, &open_one) == 0 &&
             (open_one.st_dev != named.st_dev || open_one.st_ino != named.st_ino))
        how = "replaced by another";
    if (how)
        snprintf(why, size,
                 "the store's directory '%.100s' was %s: nothing more is acknowledged until the server is restarted",
                 engine_place(g), how);
    return how != NULL;
}

bool engine_is_same(int fd, int dir, const char *name)
{
    struct stat open_one, named;

    if (fstat(fd, &open_one) < 0)
        return true; /* not known */
    if (fstatat(dir, name, &named, AT_SYMLINK_NOFOLLOW) < 0)
        return errno != ENOENT && errno != ENOTDIR;
    return open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

/* What is written to a log that the next start does not find would be lost. */
bool engine_log_is_gone(const struct engine *g)
{
    char name[32];

    if (g->log.fd < 0)
        return false;
    log_name(name, sizeof name, g->log.number);
    return !engine_is_same(g->log_dir, g->dir_fd, "log") || !engine_is_same(g->log.fd, g->log_dir, name);
}

void engine_find_problem(struct engine *g, const struct snapshot *snap, struct store_stats *ret)
{
    if (g->config.read_only) {
        snprintf(ret->problem, sizeof ret->problem, "the store is open for reading only");
        return;
    }
    if (ret->stopped) {
        pthread_mutex_lock(&g->lock);
        snprintf(ret->problem, sizeof ret->problem, "%s", g->stop_reason);
        pthread_mutex_unlock(&g->lock);
        return;
    }
    if (engine_is_gone(g, ret->problem, sizeof ret->problem) || engine_is_low(g, ret->problem, sizeof ret->problem))
        return;
    if (atomic_load(&g->no_log))
        engine_full_reason(g, -ENOSPC, ret->problem, sizeof ret->problem);
    else if (engine_is_behind(g, snap)) {
        pthread_mutex_lock(&g->lock);
        snprintf(ret->problem, sizeof ret->problem, "segments cannot be written%s%s",
                 g->trouble[0] ? ": " : " fast enough", g->trouble);
        pthread_mutex_unlock(&g->lock);
    }
}

void engine_trouble(struct engine *g, const char *what)
{
    bool is_new;

    pthread_mutex_lock(&g->lock);
    is_new = what && strcmp(g->trouble, what) != 0;
    snprintf(g->trouble, sizeof g->trouble, "%s", what ? what : "");
    pthread_mutex_unlock(&g->lock);
    if (is_new)
        engine_tell(g, "maintenance failed and will be retried: %s", what);
}
