/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a copy of the whole store while it is in use, and copies single files; see engine.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/mem.h"
#include "store/engines/segment/engine.h"
#include "store/engines/segment/symbols/symbol_file.h"
#include "store/engines/segment/write/recovery.h"

enum { PIECE = 1 << 20, SECTOR = 4096 };

/* Reads n bytes at `at`, with zeros in place of sectors that the disk cannot read. */
static int read_sectors(int fd, char *p, size_t n, off_t at)
{
    int r = 0;

    memset(p, 0, n);
    for (size_t i = 0; r == 0 && i < n; i += SECTOR) {
        r = fd_pread_all(fd, p + i, MIN((size_t) SECTOR, n - i), at + (off_t) i);
        if (r == -EIO || r == -ENODATA)
            r = 0;
    }
    return r;
}

int file_copy(struct file_place from, struct file_place to, uint64_t bytes, bool damaged, struct err *e)
{
    _cleanup_(mem_freep) char *p = mem_alloc(PIECE);
    _cleanup_(fd_closep) int in = -1, out = -1;
    int r = p ? 0 : -ENOMEM;

    in = fd_open(from.dir, from.name, O_RDONLY, 0);
    out = fd_open(to.dir, to.name, O_WRONLY | O_CREAT | (damaged ? O_TRUNC : O_EXCL), 0644);
    if (in < 0 || out < 0)
        return err_set(e, in < 0 ? in : out, "cannot copy '%s': %m", from.name);
    for (uint64_t at = 0; r == 0 && at < bytes; at += PIECE) {
        size_t n = (size_t) MIN((uint64_t) PIECE, bytes - at);

        r = fd_pread_all(in, p, n, (off_t) at); /* a file shorter than recorded in the catalogue is an error */
        if (damaged && (r == -EIO || r == -ENODATA))
            r = read_sectors(in, p, n, (off_t) at);
        if (r == 0)
            r = fd_pwrite_all(out, p, n, (off_t) at);
    }
    if (r == 0)
        r = fd_sync(out);
    return r < 0 ? err_set(e, r, "cannot copy '%s': %m", from.name) : 0;
}

int lost_copy(struct engine *g, uint32_t tenant, int seg_dir, const struct segment_meta *m, struct err *e)
{
    _cleanup_(fd_closep) int lost = -1;
    char from[64], to[128];
    int r = fd_mkdir(g->dir_fd, "lost", 0755);

    if (r == 0)
        r = lost = fd_open(g->dir_fd, "lost", O_RDONLY | O_DIRECTORY, 0);
    if (r < 0)
        return err_set(e, r, "cannot create '%s/lost': %m", g->dir);
    segment_name(from, sizeof from, m->number);
    snprintf(to, sizeof to, "%u-%s", tenant, from);
    r = file_copy((struct file_place){seg_dir, from}, (struct file_place){lost, to}, m->bytes, true, e);
    if (r < 0)
        fd_unlink(lost, to);
    else
        r = fd_sync(lost);
    return r;
}

static int copy_tenant(struct engine *g, struct engine_tenant *t, const struct snapshot *snap, int dir,
                       struct catalog *to, struct err *e) _locked_(g->flush_lock)
{
    char name[64];
    int r, seg, sym;

    snprintf(name, sizeof name, "%u", t->number);
    r = fd_mkdir(dir, name, 0755);
    snprintf(name, sizeof name, "%u/seg", t->number);
    if (r == 0)
        r = fd_mkdir(dir, name, 0755);
    seg = r == 0 ? fd_open(dir, name, O_RDONLY | O_DIRECTORY, 0) : -1;
    snprintf(name, sizeof name, "%u/sym", t->number);
    if (r == 0)
        r = fd_mkdir(dir, name, 0755);
    sym = r == 0 ? fd_open(dir, name, O_RDONLY | O_DIRECTORY, 0) : -1;
    if (seg < 0 || sym < 0)
        r = err_set(e, r < 0 ? r : -EIO, "cannot create directories of the snapshot");
    if (r == 0)
        r = catalog_add_tenant(to, t->number, t->name, e);
    for (struct engine_epoch *k = t->epochs; r == 0 && k; k = k->next) {
        struct catalog_epoch c = {t->number, k->epoch, k->bytes, k->born};

        symbol_file_name(name, sizeof name, k->epoch);
        if (k->bytes)
            r = file_copy((struct file_place){t->sym_dir, name}, (struct file_place){sym, name}, k->bytes, false, e);
        if (r == 0)
            r = catalog_commit(to, &(struct catalog_change){.epochs = &c, .n_epochs = 1}, e);
    }
    for (uint32_t i = 0; r == 0 && i < snap->n_segments; i++) {
        const struct segment_meta *m = &snap->segments[i].segment->meta;

        if (m->tenant != t->number)
            continue;
        segment_name(name, sizeof name, m->number);
        if (atomic_load(&snap->segments[i].segment->is_cold)) /* the copy does not depend on the object store */
            r = engine_fetch_file(g, snap->segments[i].segment, seg, name, e);
        else
            r = file_copy((struct file_place){t->seg_dir, name}, (struct file_place){seg, name}, m->bytes, false, e);
        if (r == 0)
            r = engine_flush_sealed(g, e); /* a long copy must not block incoming data */
        if (r == 0)
            r = catalog_commit(to, &(struct catalog_change){.added = m, .n_added = 1, .next = g->next_segment}, e);
    }
    fd_close(seg);
    fd_close(sym);
    return r;
}

/* An empty log after those that were flushed; without it, the copy would look like a store that has lost its last log. */
static int begin_log(int dir, uint64_t number, struct err *e)
{
    _cleanup_(fd_closep) int log_dir = -1;
    struct log log;
    int r = fd_mkdir(dir, "log", 0700);

    if (r == 0)
        r = log_dir = fd_open(dir, "log", O_RDONLY | O_DIRECTORY, 0);
    if (r < 0)
        return err_set(e, r, "cannot create the log of the copy: %m");
    r = log_create(log_dir, number, &log, e);
    if (r == 0)
        log_close(&log);
    return r;
}

/* Creates an independent store with everything that was acknowledged before the call. Writing and reading continue
 * during the copy; flushing and compaction wait. */
int engine_snapshot(struct store *s, const char *dir, struct err *e)
{
    struct engine *g = to_engine(s);
    _cleanup_(snapshot_unrefp) struct snapshot *snap = NULL;
    _cleanup_(catalog_closep) struct catalog *to = NULL;
    _cleanup_(fd_closep) int fd = -1;
    char path[4096];
    bool is_new;
    int r = engine_flush(s, e);

    if (r == 0)
        r = fd_mkdir_all(dir, 0700);
    if (r < 0)
        return err_set(e, r, "cannot create '%s': %m", dir);
    fd = fd_open(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0);
    snprintf(path, sizeof path, "%s/catalog.db", dir);
    if (fd < 0)
        return err_set(e, fd, "cannot open '%s': %m", dir);
    if (faccessat(fd, "catalog.db", F_OK, 0) == 0 || faccessat(fd, "FORMAT", F_OK, 0) == 0)
        return err_set(e, -EEXIST, "'%s' already contains a store", dir);
    pthread_mutex_lock(&g->flush_lock);
    snap = snapshot_get(g);
    r = catalog_open(path, &to, &is_new, e);
    if (r == 0) /* log numbers continue: tombstones and segments refer to them */
        r = catalog_commit(to, &(struct catalog_change){.log = catalog_meta(g->catalog, "log")}, e);
    for (uint32_t i = 0; r == 0 && i < engine_n_tenants(g); i++)
        r = copy_tenant(g, engine_tenant_at(g, i), snap, fd, to, e);
    for (uint32_t i = 0; r == 0 && i < snap->n_tombstones; i++)
        r = engine_keep_tombstone(to, snap->tombstones[i], e);
    if (r == 0)
        r = begin_log(fd, catalog_meta(g->catalog, "log") + 1, e);
    pthread_mutex_unlock(&g->flush_lock);
    snprintf(path, sizeof path, "%s/FORMAT", dir);
    return r < 0 ? r : fd_write_file(path, SEGMENT_FORMAT, strlen(SEGMENT_FORMAT), e);
}
