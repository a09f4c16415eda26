/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retention by size; see engine.h. What counts is what `du` shows: every file below the store's directory (segments, symbols,
 * log, catalogue, lost/, the reserve, and what the server keeps there: spans, uploaded files, state) except snapshots/, which are
 * the operator's, and the symbols that were moved to files without names. A tenant is charged with its own directory and with what the server keeps for it beside.
 *
 * A tenant over its own limit loses its oldest segments. If everything together is over the limit of the store, the tenant with
 * the most loses its oldest, so that none can displace the data of those who have less. A symbol file counts as gone with the
 * last segment that needs it; retain_epochs() removes it. What cannot be dropped here never costs more than three quarters of
 * a limit: profiles keep the last quarter.
 *
 * All of it runs under flush_lock.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/mem.h"
#include "store/engines/segment/engine.h"
#include "store/store_place.h"

enum { DEPTH_MAX = 8, BLOCK = 4096 };
#define LIMIT_DEFAULT ((uint64_t) 10 << 30)

uint64_t engine_size_limit(const struct engine *g)
{
    return g->config.keep_bytes ? g->config.keep_bytes : LIMIT_DEFAULT;
}

uint64_t engine_tenant_limit(const struct engine *g, const struct engine_tenant *t)
{
    uint64_t own = atomic_load(&t->disk_limit);

    return own ? own : engine_size_limit(g);
}

static uint64_t own_limit(const struct engine *g, const struct engine_tenant *t)
{
    return g->config.tenant_limit ? g->config.tenant_limit(g->config.tenant_ctx, t->name) : 0;
}

/* --- counting --- */

typedef void (*entry_fn)(void *ctx, const char *name, uint64_t bytes);

/* Calls fn for each entry of a directory, with everything below it, and for the directory itself, with the name ".". Files that
 * disappear meanwhile do not count. */
static void each_entry(int at, const char *path, int depth, entry_fn fn, void *ctx);

static void add_entry(void *ctx, const char *name, uint64_t bytes)
{
    (void) name;
    *(uint64_t *) ctx += bytes;
}

static void each_entry(int at, const char *path, int depth, entry_fn fn, void *ctx)
{
    int fd = fd_open(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    if (!d) {
        fd_close(fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(d));) {
        uint64_t below = 0;
        struct stat st;

        if (strcmp(entry->d_name, "..") == 0 || fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (S_ISDIR(st.st_mode) && strcmp(entry->d_name, ".") != 0 && depth < DEPTH_MAX)
            each_entry(fd, entry->d_name, depth + 1, add_entry, &below);
        else
            below = (uint64_t) st.st_blocks * 512;
        fn(ctx, entry->d_name, below);
    }
    closedir(d);
}

struct measuring {
    struct engine *g;
    uint64_t all, beside;
};

static void add_measured(void *ctx, const char *name, uint64_t bytes)
{
    struct measuring *m = ctx;
    uint64_t number;

    if (strcmp(name, STORE_PLACE_SNAPSHOTS) == 0)
        return;
    m->all += bytes;
    if (str_to_u64(str_from(name), 10, &number) == 0) {
        struct engine_tenant *t = engine_tenant_number(m->g, (uint32_t) number);

        if (t)
            atomic_store(&t->disk, bytes);
    } else if (strcmp(name, "log") != 0 && !str_starts(str_from(name), STR("catalog.db"))) {
        m->beside += bytes;
    }
}

static uint64_t paged_bytes(const struct engine_tenant *t)
{
    uint64_t sum = 0;

    for (struct engine_epoch *k = t->epochs; k; k = k->next)
        sum += k->symbols->out;
    return sum;
}

uint64_t engine_measure(struct engine *g)
{
    uint64_t limit = engine_size_limit(g);
    struct measuring m = {g, 0, 0};

    each_entry(g->dir_fd, ".", 0, add_measured, &m);
    for (uint32_t i = 0; i < engine_n_tenants(g); i++) {
        struct engine_tenant *t = engine_tenant_at(g, i);
        uint64_t own = own_limit(g, t), paged = paged_bytes(t);

        atomic_fetch_add(&t->disk, paged);
        atomic_store(&t->disk_limit, own ? MIN(own, limit) : limit);
        m.all += paged;
    }
    atomic_store(&g->disk_beside, m.beside);
    return m.all;
}

/* --- dropping --- */

/* A tenant while segments are dropped. */
struct share {
    uint64_t bytes;  /* everything that it is charged with */
    uint64_t yields; /* of these: local segments, and symbols that no segment in the object store needs */
    uint32_t next;   /* in the list of segments: what is before it is gone, or not its own */
};

struct size_pass {
    struct engine *g;
    struct snapshot *snap;
    const struct snapshot_segment **order; /* oldest first; NULL: dropped */
    struct share *shares;                  /* as tenants are numbered in the table */
    uint32_t n;
    uint64_t all, yields;
};

static int age_cmp(const void *a, const void *b)
{
    const struct segment_meta *x = &(*(const struct snapshot_segment *const *) a)->segment->meta;
    const struct segment_meta *y = &(*(const struct snapshot_segment *const *) b)->segment->meta;

    return x->t1 < y->t1 ? -1 : x->t1 > y->t1;
}

/* Segments in the object store do not count against the limit of size. */
static uint64_t local_bytes(const struct segment *s)
{
    return atomic_load(&s->is_cold) ? 0 : ALIGN_UP(s->meta.bytes, (uint64_t) BLOCK);
}

/* Whether a segment or a memtable needs the symbols; only segments in the object store, if cold. */
static bool is_needed(const struct size_pass *p, const struct symbols *symbols, bool cold)
{
    for (uint32_t i = 0; i < p->snap->n_segments; i++)
        if (p->order[i] && p->order[i]->symbols == symbols && (!cold || atomic_load(&p->order[i]->segment->is_cold)))
            return true;
    for (uint32_t i = 0; !cold && i < p->snap->n_memtables; i++)
        for (struct mempart *m = p->snap->memtables[i]->parts; m; m = m->next)
            if (m->symbols == symbols)
                return true;
    return false;
}

static uint64_t epoch_bytes(const struct engine_epoch *k)
{
    return ALIGN_UP(k->bytes, (uint64_t) BLOCK) + k->symbols->out;
}

/* The epoch of these symbols if it goes with the last segment: it is not the one being written. */
static const struct engine_epoch *past_epoch(struct engine_tenant *t, const struct symbols *symbols)
{
    struct engine_epoch *k = t->epochs ? t->epochs->next : NULL;

    while (k && k->symbols != symbols)
        k = k->next;
    return k;
}

_unshared_ static int begin_pass(struct size_pass *p)
{
    struct engine *g = p->g;

    p->all = engine_measure(g);
    p->n = engine_n_tenants(g);
    p->snap = snapshot_get(g);
    p->shares = mem_zalloc_array((size_t) p->n + 1, sizeof *p->shares);
    p->order = mem_zalloc_array((size_t) p->snap->n_segments + 1, sizeof *p->order);
    if (!p->shares || !p->order)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->snap->n_segments; i++)
        p->order[i] = &p->snap->segments[i];
    qsort(p->order, p->snap->n_segments, sizeof *p->order, age_cmp);
    for (uint32_t i = 0; i < p->n; i++) {
        struct engine_tenant *t = engine_tenant_at(g, i);
        struct share *s = &p->shares[i];

        s->bytes = s->yields = atomic_load(&t->disk);
        for (struct engine_epoch *k = t->epochs; k; k = k->next)
            if (is_needed(p, k->symbols, true))
                s->yields -= MIN(s->yields, epoch_bytes(k));
        p->yields += s->yields;
        if (g->config.tenant_beside)
            s->bytes += g->config.tenant_beside(g->config.tenant_ctx, t->name);
    }
    return 0;
}

static void end_pass(struct size_pass *p)
{
    snapshot_unref(p->snap);
    mem_free(p->shares);
    mem_free(p->order);
}

/* The tenant's oldest segment that is on this disk, or n_segments. */
static uint32_t oldest_of(struct size_pass *p, uint32_t tenant)
{
    uint32_t number = engine_tenant_at(p->g, tenant)->number, *i = &p->shares[tenant].next;

    while (*i < p->snap->n_segments &&
           (!p->order[*i] || p->order[*i]->segment->meta.tenant != number || !local_bytes(p->order[*i]->segment)))
        ++*i;
    return *i;
}

static int drop_oldest(struct engine *g, struct size_pass *p, uint32_t tenant, struct err *e) _locked_(g->flush_lock)
{
    uint32_t i = oldest_of(p, tenant);
    const struct snapshot_segment *s = p->order[i];
    const struct engine_epoch *k = past_epoch(engine_tenant_at(g, tenant), s->symbols);
    uint64_t freed = local_bytes(s->segment);
    int r = engine_drop_segment(g, s->segment, e);

    if (r < 0)
        return r;
    p->order[i] = NULL;
    if (k && !is_needed(p, k->symbols, false))
        freed += epoch_bytes(k);
    p->shares[tenant].bytes -= MIN(freed, p->shares[tenant].bytes);
    p->shares[tenant].yields -= MIN(freed, p->shares[tenant].yields);
    p->all -= MIN(freed, p->all);
    p->yields -= MIN(freed, p->yields);
    pthread_mutex_lock(&g->lock);
    g->stats.dropped_bytes += freed;
    pthread_mutex_unlock(&g->lock);
    return 0;
}

/* The tenant with the most that has a segment to drop; n if there is none. */
static uint32_t largest(struct size_pass *p)
{
    uint32_t found = p->n;

    for (uint32_t i = 0; i < p->n; i++)
        if ((found == p->n || p->shares[i].bytes > p->shares[found].bytes) && oldest_of(p, i) < p->snap->n_segments)
            found = i;
    return found;
}

int engine_retain_size(struct engine *g, struct err *e)
{
    _cleanup_(end_pass) struct size_pass p = {.g = g};
    uint64_t limit = engine_size_limit(g);
    int r = begin_pass(&p);

    for (uint32_t i = 0; r == 0 && i < p.n; i++) {
        uint64_t own = engine_tenant_limit(g, engine_tenant_at(g, i));
        const struct share *s = &p.shares[i];

        while (r == 0 && own < limit && s->bytes > own && s->yields > own / 4 && oldest_of(&p, i) < p.snap->n_segments)
            r = drop_oldest(g, &p, i, e);
    }
    while (r == 0 && p.all > limit && p.yields > limit / 4) {
        uint32_t i = largest(&p);

        if (i == p.n)
            break;
        r = drop_oldest(g, &p, i, e);
    }
    return r;
}
