/* SPDX-License-Identifier: Apache-2.0 */
/* Writes sealed memtables into segments, and runs the thread that does so; see engine.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/meminfo.h"
#include "base/thread.h"
#include "store/engines/segment/engine.h"
#include "store/engines/segment/format/radix.h"
#include "store/engines/segment/symbols/symbol_file.h"

/* The output of one flush: a segment for every tenant, epoch and hour. */
struct flushing {
    struct engine *g;
    struct memtable *m;
    struct segment_meta *metas;
    struct segment **segments;
    struct symbols **symbols;
    size_t cap_metas, cap_segments, cap_symbols;
    struct catalog_epoch *epochs;
    size_t cap_epochs;
    uint32_t n, n_epochs;
    uint64_t next;
    bool unsure; /* the catalogue's sync failed: it is unknown whether it lists the segments */
};

static int grow_outputs(struct flushing *f)
{
    size_t need = (size_t) f->n + 1;

    if (array_reserve(f->metas, f->cap_metas, need, UINT32_MAX) < 0 ||
        array_reserve(f->segments, f->cap_segments, need, UINT32_MAX) < 0 ||
        array_reserve(f->symbols, f->cap_symbols, need, UINT32_MAX) < 0)
        return -ENOMEM;
    return 0;
}

static int sort_by_time(struct stored_profile **profs, uint32_t n)
{
    _cleanup_(mem_freep) struct radix *keys = mem_alloc((2 * (size_t) n + 1) * sizeof *keys);
    _cleanup_(mem_freep) struct stored_profile **sorted = mem_alloc((n + 1) * sizeof *sorted);

    if (!keys || !sorted)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        keys[i] = (struct radix){radix_signed(profs[i]->time_ns), i};
    radix_sort(keys, keys + n, n);
    for (uint32_t i = 0; i < n; i++)
        sorted[i] = profs[keys[i].index];
    memcpy(profs, sorted, n * sizeof *profs);
    return 0;
}

/* Copies profs with their numbers in the segment's own dictionary; rows are shared. In the arena. */
static int copy_profs(struct blob_remap *map, struct stored_profile *const *profs, uint32_t n, struct arena *a,
                      struct stored_profile **out)
{
    struct stored_profile *copies = arena_alloc(a, n * sizeof *copies);

    for (uint32_t i = 0; copies && i < n; i++) {
        struct stored_profile *p = out[i] = &copies[i];

        *p = *profs[i];
        p->header = blob_remap_header(map, profs[i]->header);
        if (p->header == UINT32_MAX)
            return -ENOMEM;
        if (!p->n_extras)
            continue;
        p->extras = arena_alloc(a, p->n_extras * sizeof *p->extras);
        for (uint32_t k = 0; p->extras && k < p->n_extras; k++) {
            p->extras[k] = profs[i]->extras[k];
            p->extras[k].attrs = blob_remap_set(map, profs[i]->extras[k].attrs);
            if (p->extras[k].attrs == UINT32_MAX)
                return -ENOMEM;
        }
        if (!p->extras)
            return -ENOMEM;
    }
    return copies ? 0 : -ENOMEM;
}

static int write_windows(struct segment_writer *w, struct stored_profile **profs, uint32_t n, struct err *e)
{
    int r = 0;

    for (uint32_t i = 0, j; r == 0 && i < n; i = j) {
        int64_t window = window_start(profs[i]->time_ns, WINDOW_5M);

        for (j = i; j < n && window_start(profs[j]->time_ns, WINDOW_5M) == window;)
            j++;
        r = segment_writer_window(w, window, profs + i, j - i, e);
    }
    return r;
}

/* The segment is written and renamed: opens it and adds it to the outputs, or removes it. */
static int add_output(struct flushing *f, struct engine_tenant *t, struct mempart *part, struct err *e)
{
    int r = segment_open(t->seg_dir, f->next, &f->g->lru, &f->segments[f->n], e);

    if (r < 0) {
        segment_discard(t->seg_dir, f->next);
        return r;
    }
    f->segments[f->n]->meta = f->metas[f->n];
    f->symbols[f->n] = part->symbols;
    f->n++;
    f->next++;
    return 0;
}

/* Writes the profs of one hour, in order of time, into one segment. Only the used part of the memtable's dictionary is
 * copied. */
static int write_hour(struct flushing *f, struct engine_tenant *t, struct mempart *part, struct stored_profile **profs,
                      uint32_t n, struct err *e)
{
    _cleanup_(segment_writer_freep) struct segment_writer *w = NULL;
    struct segment_writer_options o = {
        .dir = t->seg_dir,
        .meta = {.number = f->next, .tenant = t->number, .epoch = part->symbols->epoch, .log = f->m->log}};
    struct blob_remap map = {0};
    struct stored_profile **copies;
    struct arena a;
    int r = grow_outputs(f);

    arena_init(&a, 0);
    copies = arena_alloc(&a, n * sizeof *copies);
    if (r == 0)
        r = copies ? segment_writer_new(&o, &w, e) : -ENOMEM;
    if (r == 0)
        r = blob_remap_init(&map, &part->blobs, segment_writer_blobs(w));
    if (r == 0)
        r = copy_profs(&map, profs, n, &a, copies);
    if (r == 0)
        r = write_windows(w, copies, n, e);
    if (r == 0)
        r = segment_writer_finish(w, &f->metas[f->n], e);
    if (r == 0)
        r = add_output(f, t, part, e);
    blob_remap_done(&map);
    arena_done(&a);
    return r;
}

static int write_symbols(struct flushing *f, struct engine_tenant *t, struct mempart *part, struct err *e)
{
    struct engine_epoch *k = engine_find_epoch(t, part->symbols->epoch);
    struct catalog_epoch *out;
    int r = array_reserve(f->epochs, f->cap_epochs, (size_t) f->n_epochs + 1, UINT32_MAX);

    if (r < 0)
        return r;
    out = &f->epochs[f->n_epochs];
    *out = (struct catalog_epoch){t->number, k->epoch, k->bytes, k->born};
    if (part->defs.n)
        r = symbol_file_append(t->sym_dir, k->epoch, k->bytes, &part->defs, &out->bytes, e);
    f->n_epochs++;
    return r;
}

/* Lists the profs that are not deleted. */
static uint32_t list_profs(struct flushing *f, struct mempart *part, struct stored_profile **out)
{
    _cleanup_(snapshot_unrefp) struct snapshot *snap = snapshot_get(f->g);
    uint32_t n = 0;

    for (uint32_t i = 0; i < pinned_count(&part->profs); i++) {
        struct stored_profile *p = pinned_at(&part->profs, i);

        if (!tombstones_hide(snap->tombstones, snap->n_tombstones, part->symbols->tenant, f->m->log,
                             sym_series(part->symbols, p->series), p->time_ns))
            out[n++] = p;
    }
    return n;
}

static int write_part(struct flushing *f, struct mempart *part, struct err *e)
{
    struct engine_tenant *t = engine_tenant_number(f->g, part->symbols->tenant);
    uint32_t n = pinned_count(&part->profs);
    struct stored_profile **profs = mem_alloc((n + 1) * sizeof *profs);
    int r = profs ? write_symbols(f, t, part, e) : -ENOMEM;

    if (r == 0)
        n = list_profs(f, part, profs);
    if (r == 0)
        r = sort_by_time(profs, n);
    for (uint32_t i = 0, j; r == 0 && i < n; i = j) {
        int64_t hour = window_start(profs[i]->time_ns, WINDOW_1H);

        for (j = i; j < n && window_start(profs[j]->time_ns, WINDOW_1H) == hour;)
            j++;
        r = write_hour(f, t, part, profs + i, j - i, e);
    }
    if (r == 0)
        r = fd_sync(t->seg_dir);
    mem_free(profs);
    return r;
}

static int list_tenants(struct engine *g, struct err *e)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < engine_n_tenants(g); i++) {
        struct engine_tenant *t = engine_tenant_at(g, i);

        if (!t->listed) {
            r = catalog_add_tenant(g->catalog, t->number, t->name, e);
            t->listed = r == 0;
        }
    }
    return r;
}

/* Every step that can fail comes before the catalogue's transaction: after it, the segments belong to the store. */
_aliased_lock_ static int commit(struct flushing *f, struct err *e)
{
    struct engine *g = f->g;
    int64_t window = g->config.dedup_window ? g->config.dedup_window : 86400 * NS_PER_S;
    struct catalog_change change = {.added = f->metas,
                                    .n_added = f->n,
                                    .log = f->m->log,
                                    .epochs = f->epochs,
                                    .n_epochs = f->n_epochs,
                                    .keys = f->m->keys,
                                    .n_keys = f->m->n_keys,
                                    .keys_before = engine_keep_now(g) - window,
                                    .next = f->next,
                                    .unsure = &f->unsure};
    struct snapshot_room room = {0};
    int r = list_tenants(g, e);

    if (r == 0)
        r = snapshot_make_room(g, f->n, &room);
    if (r == 0)
        r = catalog_commit(g->catalog, &change, e);
    if (r < 0) {
        snapshot_room_done(&room);
        return r;
    }
    for (uint32_t i = 0; i < f->n_epochs; i++) {
        struct engine_tenant *t = engine_tenant_number(g, f->epochs[i].tenant);

        atomic_store(&engine_find_epoch(t, f->epochs[i].epoch)->bytes, f->epochs[i].bytes);
    }
    g->next_segment = f->next;
    snapshot_publish_in(
        &room, &(struct snapshot_change){
                   .added = f->segments, .added_symbols = f->symbols, .n_added = f->n, .remove_memtable = f->m});
    return 0;
}

static void remove_log(struct engine *g, uint64_t number)
{
    char name[32];

    log_name(name, sizeof name, number);
    fd_unlink(g->log_dir, name); /* the catalogue has its data; if this fails, the next opening removes it */
}

static void flushing_done(struct flushing *f)
{
    for (uint32_t i = 0; f->segments && i < f->n; i++)
        segment_unref(f->segments[i]);
    mem_free(f->metas);
    mem_free(f->segments);
    mem_free(f->symbols);
    mem_free(f->epochs);
}

static int flush_memtable(struct engine *g, struct memtable *m, struct err *e) _locked_(g->flush_lock)
{
    _cleanup_(flushing_done) struct flushing f = {.g = g, .m = m, .next = g->next_segment};
    int r = 0;

    for (struct mempart *p = m->parts; r == 0 && p; p = p->next)
        r = write_part(&f, p, e);
    if (r == 0)
        r = commit(&f, e);
    if (f.unsure) { /* with these files and this log, the store is correct whether or not the transaction is on disk */
        g->next_segment = f.next;
        engine_stop(g, "the catalogue", r);
        return r;
    }
    if (r < 0) { /* the catalogue does not list these files, and their numbers are reused: remove them */
        for (uint32_t i = 0; i < f.n; i++)
            atomic_store(&f.segments[i]->dead, true);
        return r;
    }
    remove_log(g, m->log);
    pthread_mutex_lock(&g->lock);
    g->stats.flushes++;
    pthread_mutex_unlock(&g->lock);
    return 0;
}

/* The oldest memtable when it is sealed, or NULL. */
static struct memtable *oldest_sealed(struct engine *g)
{
    struct memtable *m = NULL;

    pthread_mutex_lock(&g->lock);
    if (g->snapshot->n_memtables && atomic_load(&g->snapshot->memtables[0]->sealed))
        m = memtable_ref(g->snapshot->memtables[0]);
    pthread_mutex_unlock(&g->lock);
    return m;
}

int engine_flush_sealed(struct engine *g, struct err *e)
{
    int r = 0;

    while (r == 0) {
        _cleanup_(memtable_unrefp) struct memtable *m = atomic_load(&g->stopped) ? NULL : oldest_sealed(g);

        if (!m)
            break;
        r = flush_memtable(g, m, e);
        if (fd_is_full(r))
            engine_release_reserve(g);
    }
    return r;
}

int engine_flush(struct store *s, struct err *e)
{
    struct engine *g = to_engine(s);
    int r = 0;

    if (g->config.read_only)
        return 0;
    pthread_mutex_lock(&g->flush_lock);
    pthread_mutex_lock(&g->write_lock);
    if (!atomic_load(&g->stopped))
        r = engine_seal(g, e);
    pthread_mutex_unlock(&g->write_lock);
    if (r == 0)
        r = engine_flush_sealed(g, e);
    pthread_mutex_unlock(&g->flush_lock);
    return r;
}

/* --- the thread --- */

static void wait_for_work(struct engine *g)
{
    pthread_mutex_lock(&g->lock);
    if (!g->flush_wanted && !atomic_load(&g->closing))
        thread_wait(&g->flush_wake, &g->lock, clock_mono() + NS_PER_S);
    g->flush_wanted = false;
    pthread_mutex_unlock(&g->lock);
}

static void seal_if_old(struct engine *g)
{
    pthread_mutex_lock(&g->write_lock);
    engine_need_log(g); /* if there is no space yet, later */
    if (!atomic_load(&g->stopped) && engine_log_is_gone(g))
        engine_replace_log(g);
    if (!atomic_load(&g->stopped) && g->active->created && clock_mono() - g->active->created > WINDOW_5M)
        engine_seal(g, NULL);
    pthread_mutex_unlock(&g->write_lock);
}

static uint64_t count_flushes(struct engine *g)
{
    uint64_t n;

    pthread_mutex_lock(&g->lock);
    n = g->stats.flushes;
    pthread_mutex_unlock(&g->lock);
    return n;
}

void *engine_flusher_run(void *arg)
{
    struct engine *g = arg;
    uint64_t flushed = 0;

    while (!atomic_load(&g->closing)) {
        struct err e = {0};
        int64_t now = clock_mono();
        int r;

        wait_for_work(g);
        seal_if_old(g);
        pthread_mutex_lock(&g->flush_lock);
        r = engine_flush_sealed(g, &e);
        engine_page_out(g);
        if (r == 0)
            r = engine_compact(g, false, &e);
        pthread_mutex_unlock(&g->flush_lock);
        if (r == 0 && flushed != count_flushes(g)) { /* a memtable was flushed */
            flushed = count_flushes(g);
            meminfo_trim();
            r = engine_drop_old(g, &e);
        }
        if (now - g->retained > 60 * NS_PER_S) {
            g->retained = now;
            if (r == 0 || fd_is_full(r))
                r = engine_retain(&g->store, false, &e);
        }
        if (r == -EBADMSG)
            engine_damage(g, err_message(&e, r));
        else
            engine_trouble(g, r < 0 ? err_message(&e, r) : NULL);
    }
    return NULL;
}
