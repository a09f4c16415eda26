/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes the store and reports its statistics; the state is in engine.h. */
#include "store/engines/segment/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/thread.h"
#include "store/engines/segment/format/vfs_sum.h"

int64_t engine_now(const struct engine *g)
{
    return g->config.now ? g->config.now() : clock_wall();
}

static int64_t elapsed(const struct engine *g)
{
    return g->config.elapsed ? g->config.elapsed() : g->config.now ? g->config.now() : clock_boot();
}

int64_t engine_keep_now(struct engine *g)
{
    int64_t now;

    pthread_mutex_lock(&g->lock);
    now = keep_clock_now(&g->clock, engine_now(g), elapsed(g));
    pthread_mutex_unlock(&g->lock);
    return now;
}

int64_t engine_believed(struct engine *g)
{
    int64_t now;

    pthread_mutex_lock(&g->lock);
    now = keep_clock_time(&g->clock, elapsed(g));
    pthread_mutex_unlock(&g->lock);
    return now;
}

/* How far the clock may have advanced while the store was closed without a user's confirmation: a quarter of the
 * shortest retention. */
static int64_t clock_credit(const struct store_config *c)
{
    int64_t keep = c->keep ? c->keep : 30 * 86400 * NS_PER_S;
    int64_t detail = c->keep_detail ? c->keep_detail : 7 * 86400 * NS_PER_S;
    int64_t shortest = 7 * 86400 * NS_PER_S; /* tools open a store without retention settings; the server has them */

    if (keep >= 0)
        shortest = MIN(shortest, keep);
    if (detail >= 0)
        shortest = MIN(shortest, detail);
    for (uint32_t i = 0; i < c->n_services; i++)
        shortest = MIN(shortest, MAX(c->services[i].keep, 0));
    return shortest / 4;
}

_unshared_ void engine_start_clock(struct engine *g)
{
    int64_t last = (int64_t) catalog_meta(g->catalog, "clock");
    struct snapshot *snap = g->snapshot; /* no other thread has access yet */

    g->clock_saved = last;
    for (uint32_t i = 0; !g->clock_saved && snap && i < snap->n_segments; i++)
        last = MAX(last, snap->segments[i].segment->meta.t1);
    keep_clock_start(&g->clock, last, engine_now(g), elapsed(g), clock_credit(&g->config));
}

void engine_save_clock(struct engine *g, bool at_once)
{
    int64_t now = engine_believed(g);

    if (g->config.read_only || (!at_once && now >= g->clock_saved && now - g->clock_saved < 3600 * NS_PER_S))
        return;
    if (catalog_set_clock(g->catalog, now, NULL) == 0) /* else later: too early a time is safe */
        g->clock_saved = now;
}

int engine_confirm(struct store *s, enum store_confirm what, struct err *e)
{
    struct engine *g = to_engine(s);

    if (g->config.read_only)
        return err_set(e, -EROFS, "the store is opened read-only");
    if (what == STORE_CONFIRM_DAMAGE)
        return engine_damage_seen(g, e);
    pthread_mutex_lock(&g->flush_lock);
    pthread_mutex_lock(&g->lock);
    keep_clock_confirm(&g->clock, engine_now(g), elapsed(g));
    pthread_mutex_unlock(&g->lock);
    engine_save_clock(g, true);
    pthread_mutex_unlock(&g->flush_lock);
    return 0;
}

_unshared_ static void engine_close(struct store *s)
{
    struct engine *g = to_engine(s);

    if (g->has_writer) {
        queue_close(&g->queue);
        pthread_join(g->writer_thread, NULL);
    }
    atomic_store(&g->closing, true);
    if (g->has_cold_thread) {
        objects_cancel(g->cold->objects);
        pthread_mutex_lock(&g->lock);
        pthread_cond_signal(&g->cold_wake);
        pthread_mutex_unlock(&g->lock);
        pthread_join(g->cold_thread, NULL);
    }
    if (g->has_flusher) {
        pthread_mutex_lock(&g->lock);
        pthread_cond_signal(&g->flush_wake);
        pthread_mutex_unlock(&g->lock);
        pthread_join(g->flusher_thread, NULL);
    }
    if (g->active && !atomic_load(&g->stopped) && !g->config.manual)
        engine_flush(s, NULL); /* may fail: the log has everything */
    if (g->active) {
        engine_save_clock(g, false);
        log_close(&g->log);
    }
    memtable_unref(g->active);
    snapshot_unref(g->snapshot);
    engine_tenants_free(g);
    engine_close_cold(g);
    catalog_close(g->catalog);
    engine_remove_catalog_copy(g);
    writer_free(g->writer);
    label_choice_done(&g->choice);
    queue_done(&g->queue);
    dedup_done(&g->dedup);
    cumulative_done(&g->cumulative);
    pthread_mutex_destroy(&g->lock);
    pthread_mutex_destroy(&g->write_lock);
    pthread_mutex_destroy(&g->flush_lock);
    pthread_cond_destroy(&g->flush_wake);
    pthread_cond_destroy(&g->cold_wake);
    engine_damage_done(g);
    lru_done(&g->lru);
    fd_close(g->log_dir);
    fd_close(g->dir_fd);
    fd_close(g->lock_fd);
    mem_free(g->dir);
    mem_free(g->place);
    mem_free(g);
}

static void engine_closep(struct engine **g)
{
    if (*g)
        engine_close(&(*g)->store);
}

/* FORMAT: a line with the format, and one with the version of wick that wrote to the store last, for those that cannot read it. */
static int read_format(struct engine *g, const char *path, bool *ret_current, struct err *e)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    int r = fd_read_file(path, 4096, &b, e);
    struct str text = buf_str(&b), first, second;

    if (r < 0)
        return r;
    *ret_current = str_is(text, SEGMENT_FORMAT);
    first = str_trim(str_cut(&text, '\n'));
    second = str_trim(str_cut(&text, '\n'));
    if (str_is(first, SEGMENT_FORMAT_NAME))
        return 0;
    if (!str_starts(first, STR("wick store ")))
        return err_set(e, -EPROTONOSUPPORT, "'%s' contains '%.*s', not '" SEGMENT_FORMAT_NAME "'", path,
                       (int) MIN(first.n, 60), first.p ? first.p : "");
    return err_set(e, -EPROTONOSUPPORT,
                   "'%s' has the format '%.*s' of %.*s; this is wick " WICK_VERSION
                   ", which supports '" SEGMENT_FORMAT_NAME
                   "': use the version that wrote it, or restore a backup of before the upgrade",
                   g->dir, (int) MIN(first.n, 60), first.p, second.n ? (int) MIN(second.n, 60) : 15,
                   second.n ? second.p : "a later version");
}

static int check_format(struct engine *g, struct err *e)
{
    bool current = false;
    char path[4096];
    int r;

    snprintf(path, sizeof path, "%s/FORMAT", g->dir);
    if (faccessat(g->dir_fd, "FORMAT", F_OK, 0) < 0) {
        if (g->config.read_only)
            return err_set(e, -ENOENT, "'%s' is not a store", g->dir);
        r = fd_write_file(path, SEGMENT_FORMAT, strlen(SEGMENT_FORMAT), e);
        return r < 0 ? r : fd_sync(g->dir_fd);
    }
    r = read_format(g, path, &current, e);
    if (r == 0 && !current && !g->config.read_only) /* only informs: the store opens on a full disk, too */
        (void) fd_write_file(path, SEGMENT_FORMAT, strlen(SEGMENT_FORMAT), NULL);
    return r;
}

static int lock_dir(struct engine *g, struct err *e)
{
    g->lock_fd = fd_open(g->dir_fd, "LOCK", g->config.read_only ? O_RDONLY : O_RDWR | O_CREAT, 0644);
    if (g->lock_fd == -ENOENT && g->config.read_only) /* the store was never opened */
        return 0;
    if (g->lock_fd < 0)
        return err_set(e, g->lock_fd, "cannot open '%s/LOCK': %m", g->dir);
    if (flock(g->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return err_set(e, -EBUSY, "the store in '%s' is in use by another process", g->dir);
    return 0;
}

static int open_dir(struct engine *g, struct err *e)
{
    int r = g->config.read_only ? 0 : fd_mkdir_all(g->dir, 0755);

    if (r < 0)
        return err_set(e, r, "cannot make '%s': %m", g->dir);
    g->dir_fd = fd_open(AT_FDCWD, g->dir, O_RDONLY | O_DIRECTORY, 0);
    if (g->dir_fd < 0)
        return err_set(e, g->dir_fd, "cannot open '%s': %m", g->dir);
    if (g->config.read_only && faccessat(g->dir_fd, "FORMAT", F_OK, 0) < 0)
        return err_set(e, -ENOENT, "'%s' is not a store", g->dir);
    r = lock_dir(g, e);
    if (r == 0)
        r = check_format(g, e);
    if (r < 0)
        return r;
    r = g->config.read_only ? 0 : fd_mkdir(g->dir_fd, "log", 0755);
    if (r == 0)
        r = g->log_dir = fd_open(g->dir_fd, "log", O_RDONLY | O_DIRECTORY, 0);
    if (r >= 0 && !g->config.read_only)
        r = fd_sync(g->dir_fd);
    if (r == -ENOENT && g->config.read_only)
        r = 0;
    return r < 0 ? err_set(e, r, "cannot open '%s/log': %m", g->dir) : 0;
}

/* Checks the catalogue's WAL, since SQLite silently ignores frames after a bad one. */
static void look_at_wal(struct engine *g) _locked_(g->lock)
{
    char path[4096];
    int r;

    snprintf(path, sizeof path, "%s/catalog.db-wal", g->dir);
    r = vfs_check_wal(path);
    if (r == 2) {
        engine_damage(g, "catalogue: its log (catalog.db-wal) is damaged, and the latest changes cannot be read");
        g->catalog_damaged = true;
    }
    g->stats.torn += r == 1;
}

_unshared_ static int open_catalog(struct engine *g, struct err *e)
{
    char path[4096], aside[4200];
    bool is_new = false;
    int r;

    look_at_wal(g);
    if (g->config.read_only)
        return engine_open_catalog_copy(g, e);
    snprintf(path, sizeof path, "%s/catalog.db", g->dir);
    r = catalog_open(path, &g->catalog, &is_new, e);
    if (r == -EBADMSG) { /* moved aside, and rebuilt from the segments */
        engine_damage(g, err_message(e, r));
        r = fd_mkdir(g->dir_fd, "lost", 0755);
        snprintf(aside, sizeof aside, "%s/lost/catalog-%lld.db", g->dir, (long long) clock_wall());
        if (r == 0)
            r = fd_rename(AT_FDCWD, path, AT_FDCWD, aside);
        fd_unlink(g->dir_fd, "catalog.db-wal");
        if (r == 0)
            r = catalog_open(path, &g->catalog, &is_new, e);
        if (r < 0)
            return r;
        *e = (struct err){0};
    }
    if (r < 0)
        return r;
    if (is_new && faccessat(g->dir_fd, "1/seg", F_OK, 0) == 0)
        return engine_rebuild_catalog(g, e);
    return 0;
}

_unshared_ static int start_threads(struct engine *g, struct err *e)
{
    int r;

    g->flush_wanted = true; /* what was replayed is flushed at once: a server may be killed again soon */
    r = thread_start(&g->writer_thread, "wick-log", engine_writer_run, g, e);
    g->has_writer = r == 0;
    if (r == 0)
        r = thread_start(&g->flusher_thread, "wick-flush", engine_flusher_run, g, e);
    g->has_flusher = r == 0;
    if (r == 0 && g->cold && g->cold->objects) {
        r = thread_start(&g->cold_thread, "wick-cold", engine_cold_run, g, e);
        g->has_cold_thread = r == 0;
    }
    return r;
}

static int engine_check_config(const struct store_config *c, struct err *e)
{
    int r = c->cold ? objects_check_place(c->cold, e) : 0;

    return r < 0 ? err_prefix(e, r, "store.cold: ") : 0;
}

_unshared_ static int engine_open(const struct store_config *c, struct store **ret, struct err *e)
{
    _cleanup_(engine_closep) struct engine *g = mem_zalloc(sizeof *g);
    struct err own = {0};
    int r;

    e = e ? e : &own;
    if (!g)
        return err_set(e, -ENOMEM, "out of memory");
    if (!c->dir)
        return err_set(e, -EINVAL, "the engine segment requires a directory");
    g->config = *c;
    g->opening = true;
    pinned_init(&g->tenants, sizeof(struct engine_tenant *));
    g->cpus = (uint32_t) MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
    g->dir_fd = g->log_dir = g->lock_fd = -1;
    g->log.fd = -1;
    pthread_mutex_init(&g->lock, NULL);
    pthread_mutex_init(&g->write_lock, NULL);
    pthread_mutex_init(&g->flush_lock, NULL);
    pthread_mutex_init(&g->damage.lock, NULL);
    pthread_cond_init(&g->flush_wake, NULL);
    pthread_cond_init(&g->cold_wake, NULL);
    lru_init(&g->lru, c->cache ? c->cache : (size_t) 256 << 20);
    intake_limits_init(&g->limits, c);
    g->choice = (struct label_choice){.allow = g->limits.allow, .values = c->label_values};
    g->limits.choice = &g->choice;
    dedup_init(&g->dedup, c->dedup_max ? c->dedup_max : 1000000, c->dedup_window ? c->dedup_window : 86400 * NS_PER_S);
    r = queue_init(&g->queue, QUEUE_MAX);
    g->dir = mem_strdup(c->dir);
    if (r == 0)
        r = g->dir ? writer_new(&g->writer) : -ENOMEM;
    if (r == 0)
        r = open_dir(g, e);
    if (r == 0) {
        engine_note_place(g);
        engine_release_if_full(g);
        engine_damage_load(g);
        r = engine_open_cold(g, e);
    }
    if (r == 0)
        r = open_catalog(g, e);
    if (r == 0)
        r = engine_recover(g, e);
    if (r == 0)
        engine_start_clock(g);
    if (r == 0 && !c->read_only)
        r = engine_begin_log(g, e);
    if (r == 0 && !c->read_only && !c->manual) {
        engine_make_reserve(g);
        r = start_threads(g, e);
    }
    if (r < 0)
        return r;
    g->opening = false;
    pthread_mutex_lock(&g->flush_lock);
    engine_measure(g);
    pthread_mutex_lock(&g->write_lock);
    engine_count_memory(g, true);
    pthread_mutex_unlock(&g->write_lock);
    pthread_mutex_unlock(&g->flush_lock);
    *ret = &TAKE(g)->store;
    return 0;
}

/* --- statistics --- */

static uint64_t dir_bytes(int dir, const char *path)
{
    struct stat st;

    return fstatat(dir, path, &st, 0) == 0 ? (uint64_t) st.st_size : 0;
}

static void add_tenant_stats(struct engine *g, struct engine_tenant *t, struct store_stats *ret)
{
    for (struct engine_epoch *k = t->epochs; k; k = k->next) {
        ret->symbol_bytes += k->bytes;
        ret->series += pinned_count(&k->symbols->series);
        ret->services += pinned_count(&k->symbols->services);
        ret->locations += pinned_count(&k->symbols->locations);
        for (uint32_t i = 0; i < pinned_count(&k->symbols->services); i++)
            ret->stacks += pinned_count(&sym_service(k->symbols, i)->nodes);
    }
    (void) g;
}

/* Extends *t0..*t1 to the data that is not in a segment yet. */
static void memtable_times(const struct memtable *m, int64_t *t0, int64_t *t1)
{
    for (struct mempart *p = atomic_load(&m->parts); p; p = atomic_load(&p->next)) {
        uint32_t n = pinned_count(&p->profs);

        for (uint32_t i = 0; i < n; i++) {
            const struct stored_profile *f = pinned_at(&p->profs, i);

            *t0 = MIN(*t0, f->time_ns);
            *t1 = MAX(*t1, f->time_ns);
        }
    }
}

/* Adds up the bytes of segments by part. This reads every chunk, so only tools use it. */
static void add_parts(const struct snapshot *snap, struct store_stats *ret)
{
    static const char *const names[SECTIONS] = {"totals", "profiles", "extra", "links", "detail"};
    uint64_t sizes[SECTIONS] = {0},
             rest = ret->segment_bytes - ret->cold_bytes; /* those in the object store are not read */

    for (uint32_t i = 0; i < snap->n_segments; i++)
        segment_sections(snap->segments[i].segment, sizes);
    for (int i = 0; i < SECTIONS; i++) {
        ret->parts[i].name = names[i];
        ret->parts[i].bytes = sizes[i];
        rest -= sizes[i];
    }
    ret->parts[SECTIONS].name = "index";
    ret->parts[SECTIONS].bytes = rest;
}

static void add_cold_stats(struct engine *g, struct store_stats *ret)
{
    struct objects_stats o;

    objects_stats(g->cold->objects, &o);
    ret->cold_rounds = o.rounds;
    ret->cold_requests = o.requests;
    ret->cold_read = o.bytes_read;
    ret->cold_written = o.bytes_written;
    pthread_mutex_lock(&g->lock);
    snprintf(ret->cold_problem, sizeof ret->cold_problem, "%s", g->cold_problem);
    pthread_mutex_unlock(&g->lock);
}

/* Counts what is on the disk; a flusher does so now and then. */
static void measure_alone(struct engine *g)
{
    if (g->has_flusher)
        return;
    pthread_mutex_lock(&g->flush_lock);
    engine_measure(g);
    pthread_mutex_unlock(&g->flush_lock);
}

static int engine_stats(struct store *s, struct store_stats *ret)
{
    struct engine *g = to_engine(s);
    _cleanup_(snapshot_unrefp) struct snapshot *snap = snapshot_get(g);
    int64_t ahead;

    pthread_mutex_lock(&g->lock);
    *ret = g->stats;
    for (uint32_t i = 0; i < engine_n_tenants(g); i++)
        add_tenant_stats(g, engine_tenant_at(g, i), ret);
    pthread_mutex_unlock(&g->lock);
    engine_damage_stats(g, ret);
    ret->oldest_ns = INT64_MAX;
    ret->newest_ns = INT64_MIN;
    for (uint32_t i = 0; i < snap->n_segments; i++) {
        const struct segment_meta *m = &snap->segments[i].segment->meta;

        ret->segments++;
        ret->segment_bytes += m->bytes;
        if (atomic_load(&snap->segments[i].segment->is_cold)) {
            ret->cold_segments++;
            ret->cold_bytes += m->bytes;
        }
        ret->stored_samples += m->rows;
        ret->stored_profiles += m->profiles;
        ret->oldest_ns = MIN(ret->oldest_ns, m->t0);
        ret->newest_ns = MAX(ret->newest_ns, m->t1);
    }
    engine_find_problem(g, snap, ret);
    ahead = engine_now(g) - engine_believed(g);
    ret->clock_ahead_ns = MAX(ahead, 0);
    ret->deletions = snap->n_tombstones;
    ret->cache_bytes = lru_bytes(&g->lru);
    ret->memory_bytes += ret->cache_bytes + atomic_load(&g->dictionary) + atomic_load(&g->answering);
    if (g->config.read_only)
        add_parts(snap, ret);
    for (uint32_t i = 0; i < snap->n_memtables; i++) {
        char name[40];

        snprintf(name, sizeof name, "log/%012llu.log", (unsigned long long) snap->memtables[i]->log);
        ret->log_bytes += dir_bytes(g->dir_fd, name);
        ret->memory_bytes += snap->memtables[i]->bytes;
        memtable_times(snap->memtables[i], &ret->oldest_ns, &ret->newest_ns);
    }
    if (ret->newest_ns < ret->oldest_ns)
        ret->oldest_ns = ret->newest_ns = 0;
    ret->catalog_bytes = dir_bytes(g->dir_fd, "catalog.db") + dir_bytes(g->dir_fd, "catalog.db-wal");
    if (g->cold && g->cold->objects)
        add_cold_stats(g, ret);
    ret->disk_bytes = ret->segment_bytes - ret->cold_bytes + ret->symbol_bytes + ret->log_bytes + ret->catalog_bytes +
                      atomic_load(&g->paged);
    measure_alone(g);
    ret->beside_bytes = atomic_load(&g->disk_beside);
    return 0;
}

int engine_disk(struct store *s, const char *tenant, struct store_disk *ret)
{
    struct engine *g = to_engine(s);
    const struct engine_tenant *t = engine_find_tenant(g, tenant);

    measure_alone(g);
    *ret =
        (struct store_disk){.limit = g->config.tenant_limit ? g->config.tenant_limit(g->config.tenant_ctx, tenant) : 0};
    if (t)
        ret->profiles = atomic_load(&t->disk);
    if (g->config.tenant_beside)
        ret->beside = g->config.tenant_beside(g->config.tenant_ctx, tenant);
    return 0;
}

const struct store_ops store_segment = {
    .name = "segment",
    .in_dir = true,
    .help = "on disk: a log, segments and a catalogue",
    .takes_cold = true,
    .open = engine_open,
    .check_config = engine_check_config,
    .close = engine_close,
    .append = engine_append,
    .select = engine_select,
    .table = engine_table,
    .spans = engine_spans,
    .moments = engine_moments,
    .cube = engine_cube,
    .callers = engine_callers,
    .series = engine_series,
    .each_series = engine_each_series,
    .attributes = engine_attributes,
    .profiles = engine_profiles,
    .export = engine_export,
    .name_later = engine_name_later,
    .delete = engine_delete,
    .retain = engine_retain,
    .set_retention = engine_set_retention,
    .flush = engine_flush,
    .snapshot = engine_snapshot,
    .stats = engine_stats,
    .disk = engine_disk,
    .check = engine_check,
    .confirm = engine_confirm,
};
