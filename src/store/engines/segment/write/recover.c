/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recovery at opening; see engine.h. The catalogue lists the valid segments and the valid length of symbol files; logs
 * after its position are replayed into memtables, exactly as they were written. Unlisted segments are handled in
 * lost.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/mem.h"
#include "store/engines/segment/format/wal_record.h"
#include "store/engines/segment/symbols/symbol_file.h"
#include "store/engines/segment/write/recovery.h"

/* --- what the catalogue lists --- */

static int load_tenant(void *ctx, uint32_t number, const char *name)
{
    struct engine_tenant *t;
    int r = engine_add_tenant(ctx, number, name, &t, NULL);

    if (r == 0)
        t->listed = true;
    return r;
}

static int load_epoch(void *ctx, const struct catalog_epoch *c)
{
    struct engine *g = ctx;
    struct engine_tenant *t = engine_tenant_number(g, c->tenant);
    struct engine_epoch *k;
    uint64_t end;
    int r = t ? engine_add_epoch(g, t, c->epoch, c->born, &k) : 0;

    if (!t || r < 0)
        return r;
    k->bytes = c->bytes;
    r = symbol_file_read(&(struct symbol_file){t->sym_dir, c->epoch, c->bytes}, k->symbols, &end, recovery_damage,
                         &(struct recovery_damage){g, c->tenant});
    pthread_mutex_lock(&g->write_lock);
    if (k->next)
        symbols_drop_maps(atomic_load(&k->next)->symbols);
    engine_count_memory(g, true);
    pthread_mutex_unlock(&g->write_lock);
    engine_page_out(g);
    return r;
}

struct loading {
    struct engine *g;
    struct segment **segments;
    struct symbols **symbols;
    size_t cap, cap2;
    uint32_t n;
};

_unshared_ static int load_segment(void *ctx, const struct segment_meta *m)
{
    struct loading *l = ctx;
    struct engine_tenant *t = engine_tenant_number(l->g, m->tenant);
    struct engine_epoch *k = t ? engine_find_epoch(t, m->epoch) : NULL;
    struct segment *s;
    struct err e = {0};
    int r;

    if (array_reserve(l->segments, l->cap, (size_t) l->n + 1, 1 << 24) < 0 ||
        array_reserve(l->symbols, l->cap2, (size_t) l->n + 1, 1 << 24) < 0)
        return -ENOMEM;
    if (!k) {
        engine_damagef(l->g, "segment %llu: its tenant or symbols are missing from the catalogue",
                       (unsigned long long) m->number);
        return 0;
    }
    r = segment_open(t->seg_dir, m->number, &l->g->lru, &s, &e);
    if (r == -EPROTONOSUPPORT) {
        engine_tell(l->g, "tenant %u: %s; its data is not shown", m->tenant, err_message(&e, r));
        l->g->stats.newer++;
        return 0;
    }
    if (r < 0) { /* reported, and the rest is served */
        engine_damagef(l->g, "tenant %u: %s", m->tenant, err_message(&e, r));
        return r == -ENOMEM ? r : 0;
    }
    if (s->meta.bytes != m->bytes)
        engine_damagef(l->g, "segment %llu: its size differs from the catalogue", (unsigned long long) m->number);
    s->meta = *m;
    segment_set_cold(s, l->g->cold);
    l->segments[l->n] = s;
    l->symbols[l->n++] = k->symbols;
    return 0;
}

_unshared_ static int load_segments(struct engine *g, struct err *e)
{
    struct loading l = {.g = g};
    int r = catalog_segments(g->catalog, load_segment, &l);

    g->next_segment = MAX(g->next_segment, MAX(1, catalog_meta(g->catalog, "next")));
    if (r == 0)
        r = snapshot_publish(
            g, &(struct snapshot_change){.added = l.segments, .added_symbols = l.symbols, .n_added = l.n});
    for (uint32_t i = 0; i < l.n; i++)
        segment_unref(l.segments[i]);
    mem_free(l.segments);
    mem_free(l.symbols);
    return r < 0 ? err_set(e, r, "cannot load the segments of '%s': %m", g->dir) : 0;
}

/* --- logs --- */

struct replay {
    struct engine *g;
    struct memtable *m;
    uint64_t number;
};

static int replay_keys(struct replay *x, struct record *rec)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < rec->n_keys; i++) {
        struct id128 key;
        int64_t time;

        r = record_read_key(rec, &key, &time);
        if (r == 0)
            r = dedup_add(&x->g->dedup, key, time);
        if (r == 0)
            r = memtable_add_key(x->m, key, time);
    }
    return r;
}

static int find_part(struct replay *x, const struct record *rec, struct mempart **ret)
{
    struct engine *g = x->g;
    struct engine_tenant *t = engine_tenant_number(g, rec->tenant);
    struct engine_epoch *k;
    char name[128];
    int r = 0;

    if (!t) {
        snprintf(name, sizeof name, "%.*s", STR_FMT(rec->name));
        r = engine_add_tenant(g, rec->tenant, name, &t, NULL);
    }
    k = r == 0 ? engine_find_epoch(t, rec->epoch) : NULL;
    if (r == 0 && !k)
        r = engine_add_epoch(g, t, rec->epoch, engine_now(g), &k);
    return r < 0 ? r : memtable_part(x->m, k->symbols, ret);
}

_unshared_ static int replay_record(void *ctx, uint64_t lsn, const void *payload, size_t n)
{
    struct replay *x = ctx;
    struct mempart *part;
    struct record rec;
    int r = record_parse(payload, n, &rec);

    x->g->lsn = MAX(x->g->lsn, lsn);
    if (r == 0)
        r = find_part(x, &rec, &part);
    if (r == 0)
        r = symbols_apply(part->symbols, rec.symbols.p, rec.symbols.n);
    if (r == 0) {
        buf_put(&part->defs, rec.symbols.p, rec.symbols.n);
        r = blobs_apply(&part->blobs, rec.blobs.p, rec.blobs.n);
    }
    if (r == 0)
        r = replay_keys(x, &rec);
    for (uint32_t i = 0; r == 0 && i < rec.n_profs; i++) {
        uint32_t before = part->n_added;

        r = record_read_prof(&rec, part);
        if (r == 0) {
            const struct stored_profile *p = pinned_at(&part->profs, before);

            x->m->n_profs++;
            x->m->n_rows += p->n_rows;
            x->m->bytes += p->n_rows * sizeof(struct row) + sizeof *p;
        }
    }
    if (r == -EBADMSG || r == -EINVAL) { /* the CRC was right: invalid data was written, or an older record was lost */
        engine_damagef(x->g, "log %llu: record %llu is invalid and was skipped", (unsigned long long) x->number,
                       (unsigned long long) lsn);
        r = 0;
    }
    return r;
}

static void replay_damage(void *ctx, bool tail, const char *what)
{
    struct replay *x = ctx;

    if (!tail) {
        engine_damagef(x->g, "log %llu: %s", (unsigned long long) x->number, what);
        return;
    }
    pthread_mutex_lock(&x->g->lock);
    x->g->stats.torn++;
    pthread_mutex_unlock(&x->g->lock);
}

static int replay_log(struct engine *g, uint64_t number, struct err *e)
{
    struct replay x = {.g = g, .number = number};
    struct log_reader reader = {replay_record, replay_damage, &x};
    off_t end;
    int r = memtable_new(number, &x.m);

    if (r < 0)
        return r;
    r = log_read(g->log_dir, number, &reader, &end, e);
    for (struct mempart *p = x.m->parts; p; p = p->next)
        mempart_publish(p);
    atomic_store(&x.m->sealed, true);
    if (r == 0)
        r = snapshot_publish(g, &(struct snapshot_change){.add_memtable = x.m});
    memtable_unref(x.m);
    return r;
}

/* A log is created and synced before the previous one is flushed, so none is ever missing, except when the disk was
 * full when the store was opened and the reserve was released. */
static void find_missing_logs(struct engine *g, uint64_t flushed, const struct numbers *files)
{
    uint64_t next = flushed + 1, last = files->n ? files->v[files->n - 1] : 0;
    struct stat st;

    if (g->catalog_rebuilt || (!flushed && !files->n))
        return;
    if (last < next && fstatat(g->dir_fd, "RESERVE", &st, 0) == 0 && !st.st_size)
        return;
    for (; next <= MAX(last, flushed + 1) && next < flushed + 1000; next++)
        if (!numbers_have(files, next))
            engine_damagef(g, "log %llu is missing: data acknowledged last is not shown", (unsigned long long) next);
}

static int replay_logs(struct engine *g, struct err *e) _locked_(g->write_lock)
{
    uint64_t flushed = catalog_meta(g->catalog, "log");
    struct numbers files = {0};
    int r = recovery_list(g, g->log_dir, ".log", &files);

    if (r == 0)
        find_missing_logs(g, flushed, &files);
    g->next_log = flushed + 1;
    for (uint32_t i = 0; r == 0 && i < files.n; i++) {
        char name[32];

        g->next_log = MAX(g->next_log, files.v[i] + 1);
        if (files.v[i] > flushed) {
            r = replay_log(g, files.v[i], e);
        } else if (!g->config.read_only) {
            log_name(name, sizeof name, files.v[i]);
            fd_unlink(g->log_dir, name);
        }
    }
    numbers_done(&files);
    return r;
}

/* --- pending deletions --- */

_unshared_ static int load_deletion(void *ctx, const struct catalog_deletion *d)
{
    _cleanup_(tombstone_unrefp) struct tombstone *t = NULL;
    struct engine *g = ctx;
    struct err e = {0};
    int r = tombstone_new(d, &t, &e);

    if (r < 0 && r != -ENOMEM) {
        engine_damagef(g, "catalogue: invalid deletion: %s", err_message(&e, r));
        return 0;
    }
    g->next_log = MAX(g->next_log, d->log + 1); /* data that arrives from now on is not affected */
    return r < 0 ? r : snapshot_publish(g, &(struct snapshot_change){.add_tombstone = t});
}

/* A catalogue that has lost a transaction is rebuilt. A read-only opener gets a report and sees only what the catalogue
 * lists. */
static int check_catalog(struct engine *g, struct err *e)
{
    int r = g->catalog_damaged ? 1 : recovery_is_stale(g);

    if (r <= 0)
        return r;
    if (g->config.read_only) {
        engine_damage(g, "catalogue: its latest changes are lost, and some segments are not shown; start the server or "
                         "run 'wick store check --rebuild'");
        return 0;
    }
    if (!g->catalog_damaged)
        engine_damage(g, "catalogue: its latest changes are lost");
    return engine_rebuild_catalog(g, e);
}

_unshared_ int engine_recover(struct engine *g, struct err *e)
{
    uint64_t before;
    int r = check_catalog(g, e);

    if (r == 0)
        r = catalog_tenants(g->catalog, load_tenant, g);
    if (r == 0)
        r = catalog_epochs(g->catalog, load_epoch, g);
    if (r == 0)
        r = load_segments(g, e);
    if (r == 0)
        r = catalog_load_dedup(g->catalog, &g->dedup);
    if (r == -EBADMSG) {
        engine_damage(g, "catalogue: invalid deduplication keys: data that is sent again may be stored twice");
        r = 0;
    }
    before = g->damage.n + g->damage.more;
    if (r == 0)
        r = replay_logs(g, e);
    if (r == 0 && !g->config.read_only)
        recovery_remove_left_over(g);
    if (r == 0 && !g->config.read_only)
        r = recovery_clear_unlisted(g, g->damage.n + g->damage.more > before);
    if (r == 0)
        r = catalog_deletions(g->catalog, load_deletion, g);
    return r < 0 && (!e || !e->code) ? err_set(e, r, "cannot open the store in '%s': %m", g->dir) : r;
}
