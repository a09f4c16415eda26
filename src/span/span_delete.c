/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deletes spans from the index, checks its files, and copies them; see span_index.h.
 *
 * A deletion runs on the writer thread, which alone changes files. A file that has spans to delete is written again
 * without them, beside the old one, synced, and put into its place; one that has nothing else is deleted. A reader that
 * has the old file open reads it to its end.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/mem.h"
#include "span/span_index_state.h"

enum { WRITE_AT_ONCE = 1 << 20, COPY_AT_ONCE = 1 << 20 };

/* --- deleting --- */

struct span_rewrite {
    struct span_index *x;
    struct span_files *files;
    const struct span_delete *what;
    struct span_reader reader;
    struct span_writer writer;
    struct span_file made;
    int fd;
    uint64_t deleted;
};

static bool is_deleted(const struct span_delete *d, const struct span_row *s)
{
    return s->start >= d->from && s->start < d->to && (!d->matches || d->matches(d->ctx, s));
}

/* Writes the blocks that are complete. */
static int write_out(struct span_rewrite *w)
{
    uint64_t at = w->made.size;
    struct str blocks = buf_str(&w->writer.out);
    int r = fd_pwrite_all(w->fd, blocks.p, blocks.n, (off_t) at);

    if (r == 0)
        r = span_file_note(&w->made, blocks);
    if (r == 0)
        span_traces_add_all(&w->made.traces, at, blocks.p, blocks.n);
    buf_reset(&w->writer.out);
    return r;
}

static int copy_block(struct span_rewrite *w)
{
    const struct span_block *b = &w->reader.block;
    int r;

    w->writer.received = b->head.received;
    for (uint32_t i = 0; i < b->head.n_rows; i++) {
        struct span_row s;

        span_block_row(b, i, &s);
        if (is_deleted(w->what, &s))
            w->deleted++;
        else
            span_writer_add(&w->writer, &s);
    }
    r = span_writer_end(&w->writer);
    return r == 0 && w->writer.out.n >= WRITE_AT_ONCE ? write_out(w) : r;
}

/* Copies what is kept into the new file. A damaged block is left out: nothing could be read of it anyway. */
static int copy_blocks(struct span_rewrite *w)
{
    struct span_head h;
    int r;

    while ((r = span_reader_head(&w->reader, &h)) != 0) {
        if (r == 1)
            r = span_reader_block(&w->reader);
        if (r == -EBADMSG)
            r = span_reader_resync(&w->reader);
        else if (r == 0)
            r = copy_block(w);
        else
            return r;
        if (r < 0)
            return r;
    }
    return write_out(w);
}

/* Puts the new file into the place of file i, or drops file i if nothing is left of it. */
static int put_in_place(struct span_rewrite *w, uint32_t i)
{
    struct span_file old = w->files->v[i];
    int r;

    if (!w->made.size) {
        span_files_replace(w->files, &old, w->fd, false);
        pthread_mutex_lock(&w->x->lock);
        span_files_drop(w->files, i);
        pthread_mutex_unlock(&w->x->lock);
        span_files_delete(w->files, &old);
        return w->files->dir[0] ? span_sync_dir(w->files->dir) : 0;
    }
    r = span_files_replace(w->files, &old, w->fd, true);
    if (r < 0)
        return r;
    pthread_mutex_lock(&w->x->lock);
    if (!w->files->dir[0]) {
        w->made.fd = w->fd;
        w->fd = -1;
    }
    w->files->bytes -= old.size - w->made.size;
    w->files->v[i] = w->made;
    w->made.traces = (struct span_traces){0};
    pthread_mutex_unlock(&w->x->lock);
    span_traces_done(&old.traces);
    fd_close(old.fd);
    return w->files->dir[0] ? span_sync_dir(w->files->dir) : 0;
}

/* Returns 1 if the file was dropped, 0, or an error. */
static int rewrite_file(struct span_rewrite *w, uint32_t i)
{
    struct span_file file = w->files->v[i];
    uint32_t before = w->files->n;
    uint64_t deleted = w->deleted;
    int r;

    if (file.first >= w->what->to || file.last < w->what->from)
        return 0;
    w->made = (struct span_file){.number = file.number, .fd = -1};
    w->fd = -1;
    span_writer_init(&w->writer, 0, 0);
    r = span_reader_open(&w->reader, w->files->dir, &file);
    if (r == 0)
        r = span_files_create(w->files, &file, &w->fd);
    if (r == 0)
        r = copy_blocks(w);
    if (r == 0 && w->deleted > deleted)
        r = put_in_place(w, i);
    else if (w->fd >= 0)
        span_files_replace(w->files, &file, w->fd, false);
    span_traces_done(&w->made.traces);
    span_reader_done(&w->reader);
    span_writer_done(&w->writer);
    fd_close(w->fd);
    return r < 0 ? r : w->files->n < before;
}

void span_deletion_run(struct span_index *x, struct span_deletion *d)
{
    struct span_rewrite w = {.x = x, .what = d->what};
    struct span_tenant *t;
    int r = 0;

    pthread_mutex_lock(&x->lock);
    t = span_index_tenant(x, d->tenant);
    pthread_mutex_unlock(&x->lock);
    for (uint32_t i = 0; t && r >= 0 && i < t->files.n; i += r == 0) {
        w.files = &t->files;
        r = rewrite_file(&w, i);
    }
    if (w.deleted)
        span_index_forget_recent(x); /* they may be sent again */
    d->deleted = w.deleted;
    d->r = MIN(r, 0);
}

int span_index_delete(struct span_index *x, const char *tenant, const struct span_delete *what, uint64_t *ret_deleted,
                      struct err *e)
{
    struct span_deletion d = {.tenant = tenant, .what = what};

    if (ret_deleted)
        *ret_deleted = 0;
    if (!x)
        return 0;
    if (!x->started)
        return err_set(e, -EROFS, "the span index is open for reading only");
    pthread_mutex_lock(&x->lock);
    d.next = x->deletions;
    x->deletions = &d;
    pthread_cond_signal(&x->wake);
    while (!d.done)
        pthread_cond_wait(&x->deleted, &x->lock);
    pthread_mutex_unlock(&x->lock);
    if (ret_deleted)
        *ret_deleted = d.deleted;
    return d.r < 0 ? err_set(e, d.r, "cannot delete spans: %m") : 0;
}

/* --- checking --- */

struct checking_spans {
    void (*line)(void *ctx, bool problem, const char *text);
    void *ctx;
    uint64_t spans, bytes, files;
};

static int check_file(struct checking_spans *c, const char *dir, const struct span_file *file)
{
    struct span_file whole = *file;
    struct span_reader r;
    struct span_head h;
    char text[SPAN_DIR_SIZE + 100];
    uint32_t damaged = 0;
    int rc;

    whole.size = UINT64_MAX; /* to the end of the file, not of its whole blocks */
    rc = span_reader_open(&r, dir, &whole);
    c->files++;
    c->bytes += rc == 0 ? r.size : 0;
    while (rc >= 0 && (rc = span_reader_head(&r, &h)) != 0) {
        if (rc == 1)
            rc = span_reader_block(&r);
        if (rc == -EBADMSG) {
            damaged++;
            rc = span_reader_resync(&r);
        } else if (rc == 0) {
            c->spans += r.block.head.n_rows;
        }
    }
    span_reader_done(&r);
    if (rc < 0 || damaged) {
        if (rc < 0)
            snprintf(text, sizeof text, "%s/%016llx.spans: %s", dir, (unsigned long long) file->number, strerror(-rc));
        else
            snprintf(text, sizeof text, "%s/%016llx.spans: %u damaged place%s", dir, (unsigned long long) file->number,
                     damaged, damaged == 1 ? "" : "s");
        c->line(c->ctx, true, text);
    }
    return rc == -ENOMEM ? rc : 0;
}

/* Nothing writes to an index that was opened to be read. */
_unshared_ int span_index_check(struct span_index *x, void (*line)(void *ctx, bool problem, const char *text),
                                void *ctx, struct err *e)
{
    struct checking_spans c = {.line = line, .ctx = ctx};
    char text[160];
    int r = 0;

    if (!x->read_only)
        return err_set(e, -EBUSY, "the span index is in use");
    for (struct span_tenant *t = x->tenants; t; t = t->next)
        for (uint32_t i = 0; r == 0 && i < t->files.n; i++)
            r = check_file(&c, t->files.dir, &t->files.v[i]);
    if (r < 0)
        return r;
    snprintf(text, sizeof text, "span index: %llu spans in %llu files, %llu bytes", (unsigned long long) c.spans,
             (unsigned long long) c.files, (unsigned long long) c.bytes);
    if (c.files)
        line(ctx, false, text);
    return 0;
}

/* --- copying --- */

static int copy_file(const char *from, const char *to, const struct span_file *file, char *chunk)
{
    char path[SPAN_DIR_SIZE + 32];
    struct span_reader r;
    uint64_t at = 0;
    int fd = -1, rc = span_reader_open(&r, from, file);

    snprintf(path, sizeof path, "%s/%016llx.spans", to, (unsigned long long) file->number);
    if (rc == 0) {
        fd = fd_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
        rc = MIN(fd, 0);
    }
    while (rc == 0 && at < r.size) {
        size_t n = (size_t) MIN(r.size - at, (uint64_t) COPY_AT_ONCE);

        rc = fd_pread_all(r.fd, chunk, n, (off_t) at);
        if (rc == 0)
            rc = fd_pwrite_all(fd, chunk, n, (off_t) at);
        at += n;
    }
    if (rc == 0)
        rc = fd_sync(fd);
    fd_close(fd);
    span_reader_done(&r);
    return rc;
}

/* The list of a tenant's files as it is now; their traces stay with the index. The writer goes on meanwhile. */
static int list_files(struct span_index *x, const struct span_tenant *t, struct span_file **ret, uint32_t *ret_n)
{
    pthread_mutex_lock(&x->lock);
    *ret_n = t->files.n;
    *ret = mem_zalloc_array((size_t) t->files.n + 1, sizeof **ret);
    if (*ret && t->files.n)
        memcpy(*ret, t->files.v, t->files.n * sizeof **ret);
    pthread_mutex_unlock(&x->lock);
    return *ret ? 0 : -ENOMEM;
}

static int copy_tenant(struct span_index *x, const struct span_tenant *t, const char *dir, char *chunk)
{
    _cleanup_(mem_freep) struct span_file *files = NULL;
    const char *name = strrchr(t->files.dir, '/');
    char to[SPAN_DIR_SIZE];
    uint32_t n;
    int r;

    if (!name || snprintf(to, sizeof to, "%s%s", dir, name) >= (int) sizeof to)
        return -ENAMETOOLONG;
    r = list_files(x, t, &files, &n);
    if (r == 0 && n)
        r = span_make_dir(to);
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        r = copy_file(t->files.dir, to, &files[i], chunk);
        r = r == -ENOENT ? 0 : r; /* retention has deleted it */
    }
    return r == 0 && n ? span_sync_dir(to) : r;
}

int span_index_copy(struct span_index *x, const char *dir, struct err *e)
{
    _cleanup_(mem_freep) char *chunk = mem_alloc(COPY_AT_ONCE);
    struct span_tenant *t;
    int r = chunk ? 0 : -ENOMEM;

    if (!x->dir[0])
        return err_set(e, -ENOTSUP, "the span index is in memory");
    if (r == 0 && access(dir, F_OK) == 0)
        r = -EEXIST;
    if (r == 0)
        r = span_make_dir(dir);
    pthread_mutex_lock(&x->lock);
    t = x->tenants; /* new ones are added in front, and none is removed */
    pthread_mutex_unlock(&x->lock);
    for (; r == 0 && t; t = t->next)
        r = copy_tenant(x, t, dir, chunk);
    return r < 0 ? err_set(e, r, "cannot copy the span index to '%s': %m", dir) : 0;
}
