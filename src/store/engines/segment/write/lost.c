/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments that the catalogue does not list, and the directory lost/.
 *
 * A crash may leave segments that no transaction listed: their data is in a log or in the segments they were made of,
 * and they are removed. When a segment was listed by a transaction that is now lost, opening rebuilds the catalogue.
 * Any other segment is unexplained (a file with a damaged footer, for instance) and is moved to lost/, from where a
 * rebuild restores it. lost/ is bounded: it keeps nothing that retention or a deletion covers, and at most LOST_BYTES
 * of the newest files.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/mem.h"
#include "store/engines/segment/write/recovery.h"

#define LOST_BYTES ((uint64_t) 1 << 30)
enum { LOST_SHARE = 16 }; /* of the limit of size */

/* --- numbers --- */

int numbers_add(struct numbers *n, uint64_t v)
{
    return array_push(n->v, n->n, n->cap, 1 << 26, v);
}

static int u64_cmp(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

    return x < y ? -1 : x > y;
}

void numbers_sort(struct numbers *n)
{
    if (n->n)
        qsort(n->v, n->n, sizeof *n->v, u64_cmp);
}

bool numbers_have(const struct numbers *n, uint64_t v)
{
    return n->n && bsearch(&v, n->v, n->n, sizeof *n->v, u64_cmp);
}

void numbers_done(struct numbers *n)
{
    mem_free(n->v);
    *n = (struct numbers){0};
}

/* --- directories --- */

/* Calls fn with each name in a directory below dir. Returns -ENOENT when there is no such directory. */
static int each_name(int dir, const char *path, int (*fn)(void *ctx, const char *name), void *ctx)
{
    int fd = fd_open(dir, path, O_RDONLY | O_DIRECTORY, 0), r = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (!d) {
        r = fd < 0 ? fd : -errno;
        fd_close(fd);
        return r;
    }
    while (r == 0 && (e = readdir(d)))
        r = fn(ctx, e->d_name);
    closedir(d);
    return r;
}

struct listing {
    bool clear;
    int dir;
    const char *suffix;
    struct numbers *ret;
};

static int list_name(void *ctx, const char *d_name)
{
    struct listing *l = ctx;
    struct str name = str_from(d_name);
    uint64_t number;

    if (l->clear && str_ends(name, STR(".tmp")))
        fd_unlink(l->dir, d_name);
    if (!str_ends(name, str_from(l->suffix)) ||
        str_to_u64(str_slice(name, 0, name.n - strlen(l->suffix)), 10, &number) < 0)
        return 0;
    return numbers_add(l->ret, number);
}

int recovery_list(const struct engine *g, int dir, const char *suffix, struct numbers *ret)
{
    struct listing l = {.clear = !g->config.read_only, .dir = dir, .suffix = suffix, .ret = ret};
    int r = dir < 0 ? 0 : each_name(dir, ".", list_name, &l);

    numbers_sort(ret);
    return r;
}

int recovery_list_kept(int dir, const char *suffix, struct numbers *ret)
{
    struct listing l = {.dir = dir, .suffix = suffix, .ret = ret};
    int r = dir < 0 ? 0 : each_name(dir, ".", list_name, &l);

    numbers_sort(ret);
    return r;
}

int recovery_segments(const struct engine *g, int dir, struct numbers *ret)
{
    uint32_t n = 0;
    int r = recovery_list(g, dir, ".seg", ret);

    if (r == 0)
        r = recovery_list_kept(dir, ".cold", ret);
    for (uint32_t i = 0; i < ret->n; i++)
        if (!i || ret->v[i] != ret->v[i - 1])
            ret->v[n++] = ret->v[i];
    ret->n = n;
    return r;
}

static int list_tenant(void *ctx, const char *name)
{
    struct listing *l = ctx;
    uint64_t number;
    char path[64];

    if (str_to_u64(str_from(name), 10, &number) < 0 || !number || number > TENANTS_MAX)
        return 0;
    snprintf(path, sizeof path, "%u/seg", (unsigned) number);
    return faccessat(l->dir, path, F_OK, 0) < 0 ? 0 : numbers_add(l->ret, number);
}

int recovery_tenants(struct engine *g, struct numbers *ret)
{
    int r = each_name(g->dir_fd, ".", list_tenant, &(struct listing){.dir = g->dir_fd, .ret = ret});

    numbers_sort(ret);
    return r;
}

struct sweep {
    struct engine *g;
    const char *dir;
};

static int remove_left_over(void *ctx, const char *name)
{
    const struct sweep *s = ctx;
    char path[512];

    if (fd_is_left_over(name) && snprintf(path, sizeof path, "%s/%s", s->dir, name) < (int) sizeof path)
        fd_unlink(s->g->dir_fd, path);
    return 0;
}

void recovery_remove_left_over(struct engine *g)
{
    struct numbers tenants = {0};
    char dir[32];

    each_name(g->dir_fd, ".", remove_left_over, &(struct sweep){g, "."});
    recovery_tenants(g, &tenants);
    for (uint32_t i = 0; i < tenants.n; i++) {
        snprintf(dir, sizeof dir, "%u", (unsigned) tenants.v[i]);
        each_name(g->dir_fd, dir, remove_left_over, &(struct sweep){g, dir});
    }
    numbers_done(&tenants);
}

/* --- what the catalogue lists --- */

static int add_listed(void *ctx, const struct segment_meta *m)
{
    return numbers_add(ctx, m->number);
}

static int add_removed(void *ctx, uint64_t number)
{
    return numbers_add(ctx, number);
}

int recovery_known(struct engine *g, struct recovery_known *ret)
{
    int r = catalog_segments(g->catalog, add_listed, &ret->listed);

    if (r == 0)
        r = catalog_removed(g->catalog, add_removed, &ret->removed);
    numbers_sort(&ret->listed);
    numbers_sort(&ret->removed);
    ret->flushed = catalog_meta(g->catalog, "log");
    return r;
}

void recovery_known_done(struct recovery_known *k)
{
    numbers_done(&k->listed);
    numbers_done(&k->removed);
}

static bool has_segment(int seg_dir, uint64_t number)
{
    char name[64];

    segment_name(name, sizeof name, number);
    if (faccessat(seg_dir, name, F_OK, 0) == 0)
        return true;
    segment_cold_name(name, sizeof name, number);
    return faccessat(seg_dir, name, F_OK, 0) == 0;
}

static bool has_log(struct engine *g, uint64_t number)
{
    char name[32];

    log_name(name, sizeof name, number);
    return faccessat(g->log_dir, name, F_OK, 0) == 0;
}

static enum unlisted classify(struct engine *g, int seg_dir, const struct segment_footer *f,
                              const struct recovery_known *k)
{
    bool all = f->n_replaced > 0;

    if (f->meta.t0 > f->meta.t1)
        return UNLISTED_DEAD; /* nothing was left of the segments it was made of */
    for (uint32_t i = 0; i < f->n_replaced; i++) {
        bool listed = numbers_have(&k->listed, f->replaced[i]), there = has_segment(seg_dir, f->replaced[i]);

        if (listed && !there)
            return UNLISTED_COMMITTED; /* it replaced this segment, whose file was removed */
        all = all && listed && there;
    }
    if (all)
        return UNLISTED_DEAD;
    if (f->meta.log > k->flushed)
        return has_log(g, f->meta.log) ? UNLISTED_DEAD : UNLISTED_COMMITTED;
    return UNLISTED_UNKNOWN;
}

int recovery_classify(struct engine *g, int seg_dir, uint64_t number, const struct recovery_known *k,
                      enum unlisted *ret)
{
    _cleanup_(segment_unrefp) struct segment *s = NULL;
    _cleanup_(segment_releasep) struct segment *used = NULL;
    const struct segment_footer *f;
    struct err e = {0};
    int r;

    *ret = UNLISTED_DEAD;
    if (numbers_have(&k->removed, number))
        return 0;
    r = segment_open(seg_dir, number, NULL, &s, &e);
    if (r == 0) {
        used = segment_use(s);
        r = segment_footer(s, &f, &e);
    }
    if (r == -ENOMEM)
        return r;
    *ret = r == -EPROTONOSUPPORT ? UNLISTED_NEWER : r < 0 ? UNLISTED_UNKNOWN : classify(g, seg_dir, f, k);
    return 0;
}

/* Calls fn with each segment of each tenant that the catalogue does not list. */
static int each_unlisted(struct engine *g, const struct recovery_known *k,
                         int (*fn)(void *ctx, uint32_t tenant, int seg_dir, uint64_t number, enum unlisted why),
                         void *ctx) _locked_(g->flush_lock)
{
    struct numbers tenants = {0};
    int r = recovery_tenants(g, &tenants);

    for (uint32_t t = 0; r == 0 && t < tenants.n; t++) {
        _cleanup_(fd_closep) int dir = -1;
        struct numbers files = {0};
        char path[32];

        snprintf(path, sizeof path, "%u/seg", (unsigned) tenants.v[t]);
        dir = fd_open(g->dir_fd, path, O_RDONLY | O_DIRECTORY, 0);
        r = dir < 0 ? dir : recovery_segments(g, dir, &files);
        for (uint32_t i = 0; r == 0 && i < files.n; i++) {
            enum unlisted why;

            g->next_segment = MAX(g->next_segment, files.v[i] + 1);
            if (numbers_have(&k->listed, files.v[i]))
                continue;
            r = recovery_classify(g, dir, files.v[i], k, &why);
            if (r == 0)
                r = fn(ctx, (uint32_t) tenants.v[t], dir, files.v[i], why);
        }
        numbers_done(&files);
    }
    numbers_done(&tenants);
    return r;
}

static int find_committed(void *ctx, uint32_t tenant, int seg_dir, uint64_t number, enum unlisted why)
{
    (void) ctx;
    (void) tenant;
    (void) seg_dir;
    (void) number;
    return why == UNLISTED_COMMITTED ? 1 : 0;
}

_unshared_ int recovery_is_stale(struct engine *g)
{
    struct recovery_known k = {0};
    int r = recovery_known(g, &k);

    if (r == 0)
        r = each_unlisted(g, &k, find_committed, NULL);
    recovery_known_done(&k);
    return r;
}

struct clearing {
    struct engine *g;
    bool log_damaged;
};

static int clear_one(void *ctx, uint32_t tenant, int seg_dir, uint64_t number, enum unlisted why)
{
    struct clearing *c = ctx;
    char name[64];

    segment_name(name, sizeof name, number);
    switch (why) {
    case UNLISTED_DEAD:
        if (!c->log_damaged)
            return segment_discard(seg_dir, number), 0; /* on failure, removed at the next opening */
        return lost_put(c->g, tenant, seg_dir, number);
    case UNLISTED_NEWER:
        engine_tell(c->g, "tenant %u: segment '%s' was written by a later version of wick; it is ignored and kept",
                    tenant, name);
        return 0;
    default:
        engine_damagef(c->g, "tenant %u: segment '%s' is not in the catalogue and %s", tenant, name,
                       faccessat(seg_dir, name, F_OK, 0) == 0 ? "was moved to lost/" : "is kept in the object store");
        return lost_put(c->g, tenant, seg_dir, number);
    }
}

/* Syncs directories: removed files must not reappear after a crash once the record of their removal is gone. */
static int sync_removed(struct engine *g)
{
    struct numbers tenants = {0};
    int r = recovery_tenants(g, &tenants);

    for (uint32_t i = 0; r == 0 && i < tenants.n; i++) {
        _cleanup_(fd_closep) int dir = -1;
        char path[32];

        snprintf(path, sizeof path, "%u/seg", (unsigned) tenants.v[i]);
        dir = fd_open(g->dir_fd, path, O_RDONLY | O_DIRECTORY, 0);
        r = dir < 0 ? dir : fd_sync(dir);
    }
    numbers_done(&tenants);
    return r;
}

_unshared_ int recovery_clear_unlisted(struct engine *g, bool log_damaged)
{
    struct recovery_known k = {0};
    int r = recovery_known(g, &k);

    if (r == 0)
        r = each_unlisted(g, &k, clear_one, &(struct clearing){g, log_damaged});
    if (r == 0 && k.removed.n && sync_removed(g) == 0)
        catalog_forget_removed(g->catalog);
    recovery_known_done(&k);
    return r;
}

/* --- lost/ --- */

int lost_put(struct engine *g, uint32_t tenant, int seg_dir, uint64_t number)
{
    char from[64], to[128];
    int r = fd_mkdir(g->dir_fd, "lost", 0755);

    segment_name(from, sizeof from, number);
    snprintf(to, sizeof to, "lost/%u-%s", tenant, from);
    if (r == 0)
        r = fd_rename(seg_dir, from, g->dir_fd, to);
    if (r == -ENOENT) /* it is in the object store, and stays there */
        r = 0;
    return fd_is_full(r) ? 0 : r; /* it stays there unlisted until there is space */
}

struct lost_file {
    char name[160];
    uint32_t tenant;
    uint64_t number; /* of a segment; 0: some other file */
    uint64_t bytes;
    int64_t changed;
};

struct lost_files {
    struct engine *g;
    struct lost_file *v;
    size_t cap;
    uint32_t n;
};

static int add_lost(void *ctx, const char *name)
{
    struct lost_files *l = ctx;
    struct lost_file f = {0};
    struct str rest = str_from(name), first;
    uint64_t tenant;
    char path[192];
    struct stat st;

    snprintf(path, sizeof path, "lost/%.150s", name);
    if (name[0] == '.' || rest.n >= sizeof f.name || fstatat(l->g->dir_fd, path, &st, 0) < 0 || !S_ISREG(st.st_mode))
        return 0;
    memcpy(f.name, name, rest.n + 1);
    first = str_cut(&rest, '-');
    if (str_ends(rest, STR(".seg")) && str_to_u64(first, 10, &tenant) == 0 && tenant <= TENANTS_MAX &&
        str_to_u64(str_slice(rest, 0, rest.n - 4), 10, &f.number) == 0)
        f.tenant = (uint32_t) tenant;
    f.bytes = (uint64_t) st.st_size;
    f.changed = (int64_t) st.st_mtim.tv_sec;
    if (array_push(l->v, l->n, l->cap, 1 << 20, f) < 0)
        return -ENOMEM;
    return 0;
}

static int newest_first(const void *a, const void *b)
{
    const struct lost_file *x = a, *y = b;

    return x->changed > y->changed ? -1 : x->changed < y->changed;
}

static int list_lost(struct engine *g, struct lost_files *ret)
{
    int r;

    *ret = (struct lost_files){.g = g};
    r = each_name(g->dir_fd, "lost", add_lost, ret);
    if (ret->n)
        qsort(ret->v, ret->n, sizeof *ret->v, newest_first);
    return r == -ENOENT ? 0 : r;
}

int lost_bring_back(struct engine *g)
{
    struct lost_files l;
    int r;

    if (g->config.read_only)
        return 0;
    r = list_lost(g, &l);
    for (uint32_t i = 0; r == 0 && i < l.n; i++) {
        char from[192], dir[32], to[192], name[64];

        if (!l.v[i].number)
            continue;
        snprintf(from, sizeof from, "lost/%s", l.v[i].name);
        snprintf(dir, sizeof dir, "%u", l.v[i].tenant);
        segment_name(name, sizeof name, l.v[i].number);
        snprintf(to, sizeof to, "%u/seg/%s", l.v[i].tenant, name);
        if (faccessat(g->dir_fd, to, F_OK, 0) == 0)
            continue;
        r = fd_mkdir(g->dir_fd, dir, 0755);
        snprintf(dir, sizeof dir, "%u/seg", l.v[i].tenant);
        if (r == 0)
            r = fd_mkdir(g->dir_fd, dir, 0755);
        if (r == 0)
            r = fd_rename(g->dir_fd, from, g->dir_fd, to);
    }
    mem_free(l.v);
    return r;
}

/* Whether retention or a deletion covers some of it. A file that can no longer be read is judged by its modification
 * time. */
static bool is_unwanted(struct engine *g, const struct snapshot *snap, const struct lost_file *f, int64_t before)
{
    _cleanup_(segment_unrefp) struct segment *s = NULL;
    _cleanup_(segment_releasep) struct segment *used = NULL;
    _cleanup_(fd_closep) int dir = fd_open(g->dir_fd, "lost", O_RDONLY | O_DIRECTORY, 0);
    const struct segment_footer *footer;

    if (f->number && dir >= 0 && segment_open_lost(dir, f->tenant, f->number, &s, NULL) == 0)
        used = segment_use(s);
    if (!s || segment_footer(s, &footer, NULL) < 0) /* unreadable: its contents are unknown */
        return f->changed < before / NS_PER_S || (f->number && snap->n_tombstones);
    for (uint32_t i = 0; i < snap->n_tombstones; i++)
        if (tombstone_concerns(snap->tombstones[i], f->tenant, footer->meta.log, footer->meta.t0, footer->meta.t1))
            return true;
    return footer->meta.t1 < before;
}

void engine_bound_lost(struct engine *g)
{
    _cleanup_(snapshot_unrefp) struct snapshot *snap = snapshot_get(g);
    int64_t keep = g->config.keep ? g->config.keep : 30 * 86400 * NS_PER_S;
    int64_t before = keep < 0 ? INT64_MIN : engine_keep_now(g) - keep;
    uint64_t limit = MIN(LOST_BYTES, engine_size_limit(g) / LOST_SHARE), bytes = 0;
    struct lost_files l;

    if (list_lost(g, &l) == 0)
        for (uint32_t i = 0; i < l.n; i++) {
            char path[192];

            bytes += l.v[i].bytes;
            snprintf(path, sizeof path, "lost/%s", l.v[i].name);
            if (bytes > limit || is_unwanted(g, snap, &l.v[i], before)) {
                fd_unlink(g->dir_fd, path);
                bytes -= l.v[i].bytes;
            }
        }
    mem_free(l.v);
}

void engine_each_lost(struct engine *g, void (*fn)(void *ctx, const char *name, uint64_t bytes), void *ctx)
{
    struct lost_files l;

    if (list_lost(g, &l) == 0)
        for (uint32_t i = 0; i < l.n; i++)
            fn(ctx, l.v[i].name, l.v[i].bytes);
    mem_free(l.v);
}
