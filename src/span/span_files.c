/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the span index: NUMBER.spans in the tenant's directory, or memory files; see span_files.h. */
#include "span/span_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/mem.h"

enum {
    WINDOW = 256 << 10,
    FILES_MAX = 1 << 20,
    PATH_SIZE = SPAN_DIR_SIZE + 32,
    RESYNC_TRIES = 256,
    NUMBER_TRIES = 1000
};

static void path_of(const char *dir, uint64_t number, char *ret)
{
    snprintf(ret, PATH_SIZE, "%s/%016llx.spans", dir, (unsigned long long) number);
}

/* --- reading --- */

int span_reader_open(struct span_reader *r, const char *dir, const struct span_file *x)
{
    char path[PATH_SIZE];
    struct stat st;

    *r = (struct span_reader){.fd = -1, .size = x->size};
    if (x->fd >= 0) {
        r->fd = fcntl(x->fd, F_DUPFD_CLOEXEC, 0);
        return r->fd < 0 ? -errno : 0;
    }
    path_of(dir, x->number, path);
    r->fd = fd_open(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW, 0);
    if (r->fd < 0)
        return r->fd;
    if (fstat(r->fd, &st) < 0)
        return -errno;
    r->shorter = (uint64_t) st.st_size < r->size;
    r->size = MIN(r->size, (uint64_t) st.st_size);
    return 0;
}

void span_reader_done(struct span_reader *r)
{
    fd_close(r->fd);
    buf_done(&r->window);
    span_block_done(&r->block);
}

/* The bytes [at, at + n), or NULL with an error in *ret. */
static const char *bytes_at(struct span_reader *r, size_t n, int *ret)
{
    size_t want = (size_t) MIN((uint64_t) MAX(n, (size_t) WINDOW), r->size - r->at);

    if (r->at >= r->window_at && r->at + n <= r->window_at + r->window.n)
        return r->window.p + (r->at - r->window_at);
    buf_reset(&r->window);
    r->window_at = r->at;
    if (!buf_reserve(&r->window, want)) {
        *ret = -ENOMEM;
        return NULL;
    }
    *ret = fd_pread_all(r->fd, r->window.p, want, (off_t) r->at);
    if (*ret < 0)
        return NULL;
    r->window.n = want;
    return r->window.p;
}

int span_reader_head(struct span_reader *r, struct span_head *ret)
{
    const char *p;
    int rc = 0;

    if (r->size - r->at < SPAN_BLOCK_HEADER)
        return r->at == r->size ? 0 : -EBADMSG;
    p = bytes_at(r, SPAN_BLOCK_HEADER, &rc);
    if (!p)
        return rc;
    rc = span_head_read(p, ret);
    if (rc == 0 && ret->payload > r->size - r->at - SPAN_BLOCK_HEADER)
        rc = -EBADMSG;
    return rc < 0 ? rc : 1;
}

void span_reader_skip(struct span_reader *r, const struct span_head *h)
{
    r->at += SPAN_BLOCK_HEADER + (uint64_t) h->payload;
}

int span_reader_block(struct span_reader *r)
{
    struct span_head h;
    const char *p;
    int rc = span_reader_head(r, &h);

    if (rc <= 0)
        return rc < 0 ? rc : -EBADMSG;
    p = bytes_at(r, SPAN_BLOCK_HEADER + (size_t) h.payload, &rc);
    if (!p)
        return rc;
    rc = span_block_read(&r->block, p, SPAN_BLOCK_HEADER + (size_t) h.payload);
    if (rc == 0)
        span_reader_skip(r, &h);
    return rc;
}

/* Whether a whole block begins at this place: 1, 0, or an error. The reader stays there if so. */
static int is_whole(struct span_reader *r, uint64_t at)
{
    struct span_head h;
    const char *p;
    int rc;

    r->at = at;
    rc = span_reader_head(r, &h);
    if (rc != 1)
        return rc == -EBADMSG ? 0 : rc;
    p = bytes_at(r, SPAN_BLOCK_HEADER + (size_t) h.payload, &rc);
    if (!p)
        return rc;
    rc = span_block_read(&r->block, p, SPAN_BLOCK_HEADER + (size_t) h.payload);
    return rc == -EBADMSG ? 0 : rc < 0 ? rc : 1;
}

int span_reader_resync(struct span_reader *r)
{
    uint64_t from = r->at;
    struct span_head h;
    int rc = span_reader_head(r, &h), tries = 0;

    if (rc == 1) { /* only its content is damaged: the next one follows it */
        rc = is_whole(r, from + SPAN_BLOCK_HEADER + h.payload);
        if (rc != 0)
            return rc;
    }
    for (uint64_t at = from + 1; at + SPAN_BLOCK_HEADER <= r->size && tries < RESYNC_TRIES;) {
        const char *p, *hit;
        size_t n = (size_t) MIN(r->size - at, (uint64_t) WINDOW);

        r->at = at;
        p = bytes_at(r, n, &rc);
        if (!p)
            return rc;
        hit = memmem(p, n, SPAN_BLOCK_MAGIC, 4);
        if (!hit) {
            at += MAX(n, (size_t) 4) - 3; /* it may lie across two windows */
            continue;
        }
        at += (uint64_t) (hit - p);
        tries++;
        rc = is_whole(r, at);
        if (rc != 0)
            return rc;
        at++;
    }
    r->at = r->size;
    return 0;
}

/* --- opening --- */

static void note_head(struct span_file *x, const struct span_head *h, bool first)
{
    x->first = first ? h->first : MIN(x->first, h->first);
    x->last = first ? h->last : MAX(x->last, h->last);
    x->received_first = first ? h->received : x->received_first;
    x->received_last = h->received;
}

/* Adds the trace IDs of the block whose head was read last. */
static int note_traces(struct span_reader *r, const struct span_head *h, struct span_file *x)
{
    int rc = 0;
    const char *p = bytes_at(r, SPAN_BLOCK_HEADER + (size_t) h->payload, &rc);

    if (p)
        span_traces_add(&x->traces, r->at, h, p);
    return p ? 0 : rc;
}

/* Finds out up to where a file has whole blocks. The newest is read with its checksums: a crash may have left anything
 * at its end. Damage before a whole block is passed over, here and by every reader, and counted. */
static int scan_file(const char *dir, struct span_file *x, bool newest, struct span_found *found)
{
    struct span_reader r;
    struct span_head h;
    bool first = true;
    uint64_t end = 0;
    int rc = span_reader_open(&r, dir, x);

    while (rc >= 0 && (rc = span_reader_head(&r, &h)) != 0) {
        uint64_t at = r.at;

        if (rc == 1)
            rc = newest ? span_reader_block(&r) : 0;
        if (rc == 0) {
            r.at = at;
            rc = note_traces(&r, &h, x);
            span_reader_skip(&r, &h);
        }
        if (rc == -EBADMSG) {
            rc = span_reader_resync(&r);
            found->damaged += rc == 1;
            continue;
        }
        if (rc == 0) {
            note_head(x, &h, first);
            first = false;
            end = r.at;
        }
    }
    x->size = end;
    span_reader_done(&r);
    return rc;
}

static int by_number(const void *a, const void *b)
{
    const struct span_file *x = a, *y = b;

    return x->number < y->number ? -1 : x->number > y->number;
}

static int list_files(struct span_files *f, DIR *d)
{
    struct dirent *entry;

    while ((entry = readdir(d))) {
        struct str name = str_from(entry->d_name);
        struct span_file x = {.fd = -1};
        struct stat st;
        int r;

        if (name.n != 16 + 6 || !str_ends(name, STR(".spans")) || !hex_number(str_slice(name, 0, 16), &x.number) ||
            fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
            continue;
        x.size = (uint64_t) st.st_size;
        r = array_push(f->v, f->n, f->cap, FILES_MAX, x);
        if (r < 0)
            return r;
    }
    if (f->n)
        qsort(f->v, f->n, sizeof *f->v, by_number);
    return 0;
}

static int cut_off(const char *dir, const struct span_file *x)
{
    char path[PATH_SIZE];
    int fd, r;

    path_of(dir, x->number, path);
    fd = fd_open(AT_FDCWD, path, O_WRONLY | O_NOFOLLOW, 0);
    if (fd < 0)
        return fd;
    r = fd_truncate(fd, (off_t) x->size);
    fd_close(fd);
    return r;
}

int span_files_open(struct span_files *f, const char *dir, bool read_only, struct span_found *found, struct err *e)
{
    DIR *d;
    int r;

    *f = (struct span_files){0};
    if (snprintf(f->dir, sizeof f->dir, "%s", dir) >= (int) sizeof f->dir)
        return err_set(e, -ENAMETOOLONG, "'%s': the path is too long", dir);
    d = opendir(dir);
    if (!d)
        return errno == ENOENT ? 0 : err_set(e, -errno, "cannot read '%s': %m", dir);
    r = list_files(f, d);
    closedir(d);
    for (uint32_t i = 0; r == 0 && i < f->n; i++) {
        bool newest = i + 1 == f->n;
        uint64_t size = f->v[i].size;

        f->newest = f->v[i].number;
        r = scan_file(dir, &f->v[i], newest, found);
        f->bytes += f->v[i].size;
        if (r < 0 || f->v[i].size == size)
            continue;
        found->torn += newest;
        found->damaged += !newest;
        if (newest && !read_only)
            r = cut_off(dir, &f->v[i]);
    }
    return r < 0 ? err_set(e, r, "cannot read the spans in '%s': %m", dir) : 0;
}

void span_files_done(struct span_files *f)
{
    for (uint32_t i = 0; i < f->n; i++) {
        fd_close(f->v[i].fd);
        span_traces_done(&f->v[i].traces);
    }
    mem_free(f->v);
    *f = (struct span_files){0};
}

/* --- writing --- */

/* The names in a directory must survive a crash, too. */
int span_sync_dir(const char *dir)
{
    int fd = fd_open(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0), r;

    if (fd < 0)
        return fd;
    r = fd_sync(fd);
    fd_close(fd);
    return r;
}

int span_make_dir(const char *dir)
{
    char parent[SPAN_DIR_SIZE];
    char *slash;
    int r;

    if (access(dir, F_OK) == 0)
        return 0;
    snprintf(parent, sizeof parent, "%s", dir);
    slash = strrchr(parent, '/');
    r = fd_mkdir_all(dir, 0700);
    if (r < 0 || !slash)
        return r;
    slash[slash == parent] = 0;
    return span_sync_dir(parent);
}

static int begin_file(struct span_files *f, struct span_file *x, int *ret_fd, struct err *e)
{
    char path[PATH_SIZE];
    int r;

    *x = (struct span_file){.number = f->newest + 1, .fd = -1};
    if (!f->dir[0]) {
        x->fd = memfd_create("spans", MFD_CLOEXEC);
        *ret_fd = x->fd < 0 ? -1 : x->fd;
        return x->fd < 0 ? err_set(e, -errno, "cannot create a memory file: %m") : 0;
    }
    r = span_make_dir(f->dir);
    if (r < 0)
        return err_set(e, r, "cannot create '%s': %m", f->dir);
    for (int i = 0; i < NUMBER_TRIES; i++) { /* a file that could not be deleted after an error may be there */
        path_of(f->dir, x->number, path);
        *ret_fd = fd_open(AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
        if (*ret_fd != -EEXIST)
            break;
        x->number++;
    }
    if (*ret_fd < 0)
        return err_set(e, *ret_fd, "cannot create '%s': %m", path);
    r = span_sync_dir(f->dir);
    if (r < 0) {
        fd_close(*ret_fd);
        fd_unlink(AT_FDCWD, path);
        return err_set(e, r, "cannot sync '%s': %m", f->dir);
    }
    return 0;
}

static int open_newest(const struct span_files *f, const struct span_file *x, int *ret_fd, struct err *e)
{
    char path[PATH_SIZE];

    if (x->fd >= 0) {
        *ret_fd = x->fd;
        return 0;
    }
    path_of(f->dir, x->number, path);
    *ret_fd = fd_open(AT_FDCWD, path, O_RDWR | O_NOFOLLOW, 0);
    return *ret_fd < 0 ? err_set(e, *ret_fd, "cannot open '%s': %m", path) : 0;
}

int span_file_note(struct span_file *x, struct str blocks)
{
    while (blocks.n) {
        struct span_head h;
        int r = blocks.n < SPAN_BLOCK_HEADER ? -EBADMSG : span_head_read(blocks.p, &h);

        if (r < 0)
            return r;
        note_head(x, &h, x->size == 0);
        x->size += SPAN_BLOCK_HEADER + (uint64_t) h.payload;
        blocks = str_slice(blocks, SPAN_BLOCK_HEADER + (size_t) h.payload, blocks.n);
    }
    return 0;
}

static bool is_ended(const struct span_file *x, struct str blocks, const struct span_limits *l)
{
    struct span_head h;

    return (x->size && x->size + blocks.n > l->size) ||
           (x->size && l->age > 0 && blocks.n >= SPAN_BLOCK_HEADER && span_head_read(blocks.p, &h) == 0 &&
            h.received - x->received_first > l->age);
}

int span_files_append(struct span_files *f, struct str blocks, const struct span_limits *l, struct span_file *ret,
                      struct err *e)
{
    bool fresh = !f->n || is_ended(&f->v[f->n - 1], blocks, l);
    struct span_file x = fresh ? (struct span_file){0} : f->v[f->n - 1];
    uint64_t at = x.size;
    int fd = -1, r = fresh ? begin_file(f, &x, &fd, e) : open_newest(f, &x, &fd, e);

    if (r < 0)
        return r;
    r = fd_pwrite_all(fd, blocks.p, blocks.n, (off_t) at);
    if (r == 0 && l->sync && f->dir[0])
        r = fd_datasync(fd);
    if (r == 0)
        r = span_file_note(&x, blocks);
    if (r < 0) {
        fd_truncate(fd, (off_t) at);
        err_set(e, r, "cannot write spans: %m");
    }
    if (x.fd < 0 || (r < 0 && fresh))
        fd_close(fd);
    if (r == 0)
        *ret = x;
    else if (fresh && f->dir[0]) {
        char path[PATH_SIZE];

        path_of(f->dir, x.number, path);
        fd_unlink(AT_FDCWD, path);
    }
    return r;
}

int span_files_publish(struct span_files *f, const struct span_file *x, struct span_traces *traces)
{
    int r = 0;

    if (f->n && f->v[f->n - 1].number == x->number) {
        f->bytes += x->size - f->v[f->n - 1].size;
        f->v[f->n - 1] = *x;
    } else {
        f->bytes += x->size;
        f->newest = x->number;
        r = array_push(f->v, f->n, f->cap, FILES_MAX, *x);
    }
    if (r == 0)
        span_traces_join(&f->v[f->n - 1].traces, traces);
    return r;
}

struct span_file span_files_drop(struct span_files *f, uint32_t i)
{
    struct span_file x = f->v[i];

    memmove(f->v + i, f->v + i + 1, (f->n - i - 1) * sizeof *f->v);
    f->n--;
    f->bytes -= x.size;
    return x;
}

int span_files_create(const struct span_files *f, const struct span_file *x, int *ret_fd)
{
    char path[PATH_SIZE + 8];

    if (!f->dir[0]) {
        *ret_fd = memfd_create("spans", MFD_CLOEXEC);
        return *ret_fd < 0 ? -errno : 0;
    }
    path_of(f->dir, x->number, path);
    snprintf(path + strlen(path), sizeof path - strlen(path), ".new");
    *ret_fd = fd_open(AT_FDCWD, path, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    return MIN(*ret_fd, 0);
}

int span_files_replace(const struct span_files *f, const struct span_file *x, int fd, bool keep)
{
    char path[PATH_SIZE], new_path[PATH_SIZE + 8];
    int r = 0;

    if (!f->dir[0])
        return 0;
    path_of(f->dir, x->number, path);
    snprintf(new_path, sizeof new_path, "%s.new", path);
    if (keep)
        r = fd_datasync(fd);
    if (keep && r == 0)
        r = fd_rename(AT_FDCWD, new_path, AT_FDCWD, path);
    if (!keep || r < 0)
        fd_unlink(AT_FDCWD, new_path);
    return r;
}

void span_files_delete(const struct span_files *f, struct span_file *x)
{
    char path[PATH_SIZE];

    span_traces_done(&x->traces);
    if (x->fd >= 0) {
        fd_close(x->fd);
        return;
    }
    path_of(f->dir, x->number, path);
    fd_unlink(AT_FDCWD, path);
}
