/* SPDX-License-Identifier: Apache-2.0 */
/* The SQLite VFS of the catalogue, with a checksum on each page; see vfs.h and vfs_sum.h. */
#include "store/engines/segment/format/vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "store/engines/segment/format/vfs_sum.h"

struct vfs_file {
    sqlite3_file base;
    int fd;
    bool is_new; /* its directory entry is not synced yet */
    bool delete_on_close;
    bool is_db;          /* the database itself, not its log */
    bool has_sums;       /* its pages end with their checksum */
    unsigned char *page; /* buffer for a page with its checksum */
    char path[PATH_MAX];
};

static bool is_page(const struct vfs_file *v, int n, sqlite3_int64 off)
{
    return v->is_db && n >= PAGE_MIN && n <= PAGE_MAX && (n & (n - 1)) == 0 && off % n == 0;
}

/* The first page shows whether there are checksums, both in its header and by having one, so that a single flipped bit
 * does not hide both. */
static void look_for_sums(struct vfs_file *v, const unsigned char *p, int n, sqlite3_int64 off)
{
    if (v->is_db && off == 0 && n > PAGE_RESERVED && p[PAGE_RESERVED] == PAGE_SUM)
        v->has_sums = true;
    if (is_page(v, n, off) && off == 0 && page_has_sum(p, (size_t) n))
        v->has_sums = true;
}

static int sync_dir(const char *path)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int fd, r;

    snprintf(dir, sizeof dir, "%.*s", slash ? (int) (slash - path) : 1, slash ? path : ".");
    fd = fd_open(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fd;
    r = fd_sync(fd);
    fd_close(fd);
    return r;
}

static int file_close(sqlite3_file *f)
{
    struct vfs_file *v = (struct vfs_file *) f;

    fd_close(v->fd);
    mem_free(v->page);
    if (v->delete_on_close)
        fd_unlink(AT_FDCWD, v->path);
    return SQLITE_OK;
}

static int file_read(sqlite3_file *f, void *p, int n, sqlite3_int64 off)
{
    struct vfs_file *v = (struct vfs_file *) f;
    int done = 0;

    while (done < n) {
        ssize_t r = fd_pread(v->fd, (char *) p + done, (size_t) (n - done), off + done);

        if (r < 0)
            return SQLITE_IOERR_READ;
        if (r == 0) {
            memset((char *) p + done, 0, (size_t) (n - done));
            return SQLITE_IOERR_SHORT_READ;
        }
        done += (int) r;
    }
    look_for_sums(v, p, n, off);
    return v->has_sums && is_page(v, n, off) && !page_is_sound(p, (size_t) n, off) ? SQLITE_IOERR_DATA : SQLITE_OK;
}

/* Returns a copy of the page with its checksum; NULL when memory runs out. */
static const void *add_sum(struct vfs_file *v, const void *p, int n, sqlite3_int64 off)
{
    if (!v->page)
        v->page = mem_alloc(PAGE_MAX);
    if (!v->page)
        return NULL;
    memcpy(v->page, p, (size_t) n);
    page_put_sum(v->page, (size_t) n, off);
    return v->page;
}

static int file_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 off)
{
    struct vfs_file *v = (struct vfs_file *) f;
    int r;

    look_for_sums(v, p, n, off);
    if (v->has_sums && is_page(v, n, off))
        p = add_sum(v, p, n, off);
    r = p ? fd_pwrite_all(v->fd, p, (size_t) n, off) : -ENOMEM;
    return fd_is_full(r) ? SQLITE_FULL : r < 0 ? SQLITE_IOERR_WRITE : SQLITE_OK;
}

static int file_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    return fd_truncate(((struct vfs_file *) f)->fd, size) < 0 ? SQLITE_IOERR_TRUNCATE : SQLITE_OK;
}

static int file_sync(sqlite3_file *f, int flags)
{
    struct vfs_file *v = (struct vfs_file *) f;

    if ((flags & SQLITE_SYNC_DATAONLY ? fd_datasync(v->fd) : fd_sync(v->fd)) < 0)
        return SQLITE_IOERR_FSYNC;
    if (v->is_new && sync_dir(v->path) < 0)
        return SQLITE_IOERR_DIR_FSYNC;
    v->is_new = false;
    return SQLITE_OK;
}

static int file_size(sqlite3_file *f, sqlite3_int64 *ret)
{
    struct stat st;

    if (fstat(((struct vfs_file *) f)->fd, &st) < 0)
        return SQLITE_IOERR_FSTAT;
    *ret = st.st_size;
    return SQLITE_OK;
}

static int file_lock(sqlite3_file *f, int level)
{
    (void) f;
    (void) level;
    return SQLITE_OK;
}

static int file_reserved(sqlite3_file *f, int *ret)
{
    (void) f;
    *ret = 0;
    return SQLITE_OK;
}

static int file_control(sqlite3_file *f, int op, void *arg)
{
    (void) f;
    if (op != SQLITE_FCNTL_PERSIST_WAL)
        return SQLITE_NOTFOUND;
    if (*(int *) arg < 0)
        *(int *) arg = 1; /* keeps the empty log file: opening on a full disk must not need a new one */
    return SQLITE_OK;
}

static int file_sector(sqlite3_file *f)
{
    (void) f;
    return 512;
}

static int file_characteristics(sqlite3_file *f)
{
    (void) f;
    return 0;
}

static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_lock,
    .xCheckReservedLock = file_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector,
    .xDeviceCharacteristics = file_characteristics,
};

static int vfs_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *f, int flags, int *ret_flags)
{
    struct vfs_file *v = (struct vfs_file *) f;
    int how = flags & SQLITE_OPEN_READONLY ? O_RDONLY : O_RDWR;
    struct stat st;

    (void) vfs;
    *v = (struct vfs_file){.fd = -1, .is_db = flags & SQLITE_OPEN_MAIN_DB};
    if (!path || strlen(path) >= sizeof v->path)
        return SQLITE_CANTOPEN;
    snprintf(v->path, sizeof v->path, "%s", path);
    v->is_new = flags & SQLITE_OPEN_CREATE && stat(path, &st) < 0;
    v->delete_on_close = flags & SQLITE_OPEN_DELETEONCLOSE;
    if (flags & SQLITE_OPEN_CREATE)
        how |= O_CREAT;
    if (flags & SQLITE_OPEN_EXCLUSIVE)
        how |= O_EXCL;
    v->fd = fd_open(AT_FDCWD, path, how, 0644);
    if (v->fd < 0)
        return fd_is_full(v->fd) ? SQLITE_FULL : SQLITE_CANTOPEN;
    v->base.pMethods = &methods;
    if (ret_flags)
        *ret_flags = flags;
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *path, int sync)
{
    int r = fd_unlink(AT_FDCWD, path);

    (void) vfs;
    if (r == -ENOENT)
        return SQLITE_IOERR_DELETE_NOENT;
    if (r < 0 || (sync && sync_dir(path) < 0))
        return SQLITE_IOERR_DELETE;
    return SQLITE_OK;
}

static int vfs_access(sqlite3_vfs *vfs, const char *path, int flags, int *ret)
{
    struct stat st;

    (void) vfs;
    *ret = stat(path, &st) == 0 && (flags != SQLITE_ACCESS_EXISTS || st.st_size > 0);
    return SQLITE_OK;
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *path, int n, char *out)
{
    (void) vfs;
    return snprintf(out, (size_t) n, "%s", path) >= n ? SQLITE_CANTOPEN : SQLITE_OK;
}

static int vfs_random(sqlite3_vfs *vfs, int n, char *out)
{
    (void) vfs;
    memset(out, 0, (size_t) n); /* only for temporary names, and salts of a log no attacker sees */
    return n;
}

static int vfs_sleep(sqlite3_vfs *vfs, int us)
{
    (void) vfs;
    return us;
}

static int vfs_time(sqlite3_vfs *vfs, double *ret)
{
    (void) vfs;
    *ret = 2440587.5 + (double) clock_wall() / 86400e9;
    return SQLITE_OK;
}

static int vfs_last_error(sqlite3_vfs *vfs, int n, char *out)
{
    (void) vfs;
    (void) n;
    (void) out;
    return 0;
}

static sqlite3_vfs the_vfs = {
    .iVersion = 1,
    .szOsFile = sizeof(struct vfs_file),
    .mxPathname = PATH_MAX,
    .zName = "wick",
    .xOpen = vfs_open,
    .xDelete = vfs_delete,
    .xAccess = vfs_access,
    .xFullPathname = vfs_full_path,
    .xRandomness = vfs_random,
    .xSleep = vfs_sleep,
    .xCurrentTime = vfs_time,
    .xGetLastError = vfs_last_error,
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int registered;

static void register_once(void)
{
    registered = sqlite3_initialize() == SQLITE_OK && sqlite3_vfs_register(&the_vfs, 0) == SQLITE_OK;
}

const char *vfs_register(void)
{
    pthread_once(&once, register_once);
    return registered ? the_vfs.zName : NULL;
}
