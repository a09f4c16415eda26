/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See engine.h: opening. The catalogue says which segments and how much of the symbols count; logs behind its position
 * are read into memtables again, exactly as they were written. Segments that nobody lists are moved to lost/.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/mem.h"
#include "store/engines/segment/engine.h"
#include "store/engines/segment/format/wal_record.h"
#include "store/engines/segment/symbols/symbol_file.h"

struct numbers {
    uint64_t *v;
    size_t cap;
    uint32_t n;
};

static int u64_cmp(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

    return x < y ? -1 : x > y;
}

/* Numbers of the files NUMBER.suffix in dir, sorted. Half-written ones (.tmp) are removed on the way. */
static int list_files(int dir, const char *suffix, struct numbers *ret)
{
    int fd = fd_open(dir, ".", O_RDONLY | O_DIRECTORY, 0), r = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (!d) {
        fd_close(fd);
        return fd < 0 ? fd : -errno;
    }
    while (r == 0 && (e = readdir(d))) {
        struct str name = str_from(e->d_name);
        uint64_t number;

        if (str_ends(name, STR(".tmp")))
            fd_unlink(dir, e->d_name);
        if (!str_ends(name, str_from(suffix)) ||
            str_to_u64(str_slice(name, 0, name.n - strlen(suffix)), 10, &number) < 0)
            continue;
        r = mem_grow((void **) &ret->v, &ret->cap, (size_t) ret->n + 1, sizeof *ret->v, 1 << 24);
        if (r == 0)
            ret->v[ret->n++] = number;
    }
    closedir(d);
    if (ret->n)
        qsort(ret->v, ret->n, sizeof *ret->v, u64_cmp);
    return r;
}

struct damaged {
    struct engine *g;
    uint32_t tenant;
};

static void damage_fn(void *ctx, const char *what)
{
    struct damaged *d = ctx;

    engine_damagef(d->g, "tenant %u: %s", d->tenant, what);
}

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
    return symbol_file_read(t->sym_dir, c->epoch, c->bytes, k->symbols, &end, damage_fn,
                            &(struct damaged){g, c->tenant});
}

struct loading {
    struct engine *g;
    struct segment **segments;
    struct symbols **symbols;
    uint64_t *numbers; /* listed, there or not */
    uint32_t *tenants;
    size_t cap, cap2, cap3, cap4;
    uint32_t n, n_numbers;
};

static int load_segment(void *ctx, const struct segment_meta *m)
{
    struct loading *l = ctx;
    struct engine_tenant *t = engine_tenant_number(l->g, m->tenant);
    struct engine_epoch *k = t ? engine_find_epoch(t, m->epoch) : NULL;
    struct segment *s;
    struct err e = {0};
    int r;

    if (mem_grow((void **) &l->numbers, &l->cap3, (size_t) l->n_numbers + 1, sizeof *l->numbers, 1 << 24) < 0 ||
        mem_grow((void **) &l->tenants, &l->cap4, (size_t) l->n_numbers + 1, sizeof *l->tenants, 1 << 24) < 0 ||
        mem_grow((void **) &l->segments, &l->cap, (size_t) l->n + 1, sizeof *l->segments, 1 << 24) < 0 ||
        mem_grow((void **) &l->symbols, &l->cap2, (size_t) l->n + 1, sizeof *l->symbols, 1 << 24) < 0)
        return -ENOMEM;
    l->tenants[l->n_numbers] = m->tenant;
    l->numbers[l->n_numbers++] = m->number;
    if (!k) {
        engine_damagef(l->g, "segment %llu: its tenant or symbols are not in the catalogue",
                       (unsigned long long) m->number);
        return 0;
    }
    r = segment_open(t->seg_dir, m->number, &l->g->lru, &s, &e);
    if (r < 0) { /* named, and the rest is served */
        engine_damage(l->g, err_message(&e, r));
        return r == -ENOMEM ? r : 0;
    }
    if (s->meta.bytes != m->bytes)
        engine_damagef(l->g, "segment %llu: it has not the size that the catalogue says",
                       (unsigned long long) m->number);
    s->meta = *m;
    l->segments[l->n] = s;
    l->symbols[l->n++] = k->symbols;
    return 0;
}

/* The catalogue gives its segments in the order of their numbers, each of which it has once. */
static bool is_listed(const struct loading *l, uint32_t tenant, uint64_t number)
{
    const uint64_t *at = l->n_numbers ? bsearch(&number, l->numbers, l->n_numbers, sizeof number, u64_cmp) : NULL;

    return at && l->tenants[at - l->numbers] == tenant;
}

static int move_lost(struct engine *g, struct engine_tenant *t, uint64_t number)
{
    char from[64], to[128];
    int r = fd_mkdir(g->dir_fd, "lost", 0755);

    segment_name(from, sizeof from, number);
    snprintf(to, sizeof to, "lost/%u-%s", t->number, from);
    if (r == 0)
        r = fd_rename(t->seg_dir, from, g->dir_fd, to);
    return r;
}

static int find_lost(struct engine *g, const struct loading *l)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < engine_n_tenants(g); i++) {
        struct engine_tenant *t = engine_tenant_at(g, i);
        struct numbers files = {0};

        r = list_files(t->seg_dir, ".seg", &files);
        for (uint32_t k = 0; r == 0 && k < files.n; k++) {
            g->next_segment = MAX(g->next_segment, files.v[k] + 1);
            if (!is_listed(l, t->number, files.v[k]))
                r = move_lost(g, t, files.v[k]);
        }
        mem_free(files.v);
    }
    return r;
}

static int load_segments(struct engine *g, struct err *e)
{
    struct loading l = {.g = g};
    int r = catalog_segments(g->catalog, load_segment, &l);

    g->next_segment = MAX(1, catalog_meta(g->catalog, "next"));
    if (r == 0 && !g->config.read_only)
        r = find_lost(g, &l);
    if (r == 0)
        r = snapshot_publish(
            g, &(struct snapshot_change){.added = l.segments, .added_symbols = l.symbols, .n_added = l.n});
    for (uint32_t i = 0; i < l.n; i++)
        segment_unref(l.segments[i]);
    mem_free(l.segments);
    mem_free(l.symbols);
    mem_free(l.numbers);
    mem_free(l.tenants);
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

static int replay_record(void *ctx, uint64_t lsn, const void *payload, size_t n)
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
            const struct prof *p = stable_at(&part->profs, before);

            x->m->n_profs++;
            x->m->n_rows += p->n_rows;
            x->m->bytes += p->n_rows * sizeof(struct row) + sizeof *p;
        }
    }
    if (r == -EBADMSG || r == -EINVAL) { /* the CRC was right: we wrote nonsense, or an older record was lost */
        engine_damagef(x->g, "log %llu: record %llu makes no sense and is left out", (unsigned long long) x->number,
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

static int replay_logs(struct engine *g, struct err *e)
{
    uint64_t flushed = catalog_meta(g->catalog, "log");
    struct numbers files = {0};
    int r = list_files(g->log_dir, ".log", &files);

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
    mem_free(files.v);
    return r;
}

/* --- without a catalogue --- */

struct rebuilding {
    struct segment_meta *metas;
    size_t cap, cap_dead;
    uint64_t *dead; /* replaced by others */
    uint32_t n, n_dead;
    uint64_t log;
};

static int look_at_segment(struct engine *g, struct engine_tenant *t, uint64_t number, struct rebuilding *b)
{
    _cleanup_(segment_unrefp) struct segment *s = NULL;
    _cleanup_(segment_releasep) struct segment *used = NULL;
    const struct segment_footer *f;
    struct err e = {0};
    int r = segment_open(t->seg_dir, number, NULL, &s, &e);

    if (r == 0) {
        used = segment_use(s);
        r = segment_footer(s, &f, &e);
    }
    if (r < 0) {
        engine_damage(g, err_message(&e, r));
        return r == -ENOMEM ? r : 0;
    }
    if (mem_grow((void **) &b->metas, &b->cap, (size_t) b->n + 1, sizeof *b->metas, 1 << 24) < 0 ||
        mem_grow((void **) &b->dead, &b->cap_dead, (size_t) b->n_dead + f->n_replaced, sizeof *b->dead, 1 << 26) < 0)
        return -ENOMEM;
    b->metas[b->n] = f->meta;
    b->metas[b->n].number = number;
    b->metas[b->n++].bytes = s->meta.bytes;
    b->log = MAX(b->log, f->meta.log);
    for (uint32_t i = 0; i < f->n_replaced; i++)
        b->dead[b->n_dead++] = f->replaced[i];
    return 0;
}

static int rebuild_tenant(struct engine *g, uint32_t number, struct err *e)
{
    struct engine_tenant *t;
    struct numbers seg = {0}, sym = {0};
    struct rebuilding b = {0};
    char name[64];
    int r;

    snprintf(name, sizeof name, number == 1 ? "" : "tenant-%u", number);
    r = engine_add_tenant(g, number, name, &t, e);
    if (r == 0)
        r = catalog_add_tenant(g->catalog, number, name, e);
    if (r == 0)
        r = list_files(t->seg_dir, ".seg", &seg);
    for (uint32_t i = 0; r == 0 && i < seg.n; i++)
        r = look_at_segment(g, t, seg.v[i], &b);
    if (r == 0)
        r = list_files(t->sym_dir, ".sym", &sym);
    for (uint32_t i = 0; r == 0 && i < sym.n; i++) {
        _cleanup_(symbols_unrefp) struct symbols *s = NULL;
        struct catalog_epoch k = {number, (uint32_t) sym.v[i], 0, engine_now(g)};

        r = symbols_new(number, k.epoch, &s);
        if (r == 0)
            r = symbol_file_read(t->sym_dir, k.epoch, UINT64_MAX, s, &k.bytes, damage_fn, &(struct damaged){g, number});
        if (r == 0)
            r = catalog_commit(g->catalog, &(struct catalog_change){.epochs = &k, .n_epochs = 1}, e);
    }
    for (uint32_t i = 0; r == 0 && i < b.n; i++) {
        bool dead = false;

        for (uint32_t k = 0; k < b.n_dead; k++)
            dead |= b.dead[k] == b.metas[i].number;
        if (!dead)
            r = catalog_commit(g->catalog,
                               &(struct catalog_change){
                                   .added = &b.metas[i], .n_added = 1, .next = b.metas[i].number + 1, .log = b.log},
                               e);
    }
    mem_free(seg.v);
    mem_free(sym.v);
    mem_free(b.metas);
    mem_free(b.dead);
    return r;
}

/* The catalogue is gone: segments say what they hold and what they replaced, symbol files how long they are. Tenants'
 * names and the deduplication window are lost. */
int engine_rebuild_catalog(struct engine *g, struct err *e)
{
    int r = 0;

    for (uint32_t number = 1; r == 0 && number <= TENANTS_MAX; number++) {
        char name[32];

        snprintf(name, sizeof name, "%u/seg", number);
        if (faccessat(g->dir_fd, name, F_OK, 0) < 0)
            break;
        r = rebuild_tenant(g, number, e);
    }
    engine_tenants_free(g);
    return r;
}

/* --- deletions that were not carried out yet --- */

static int load_deletion(void *ctx, const struct catalog_deletion *d)
{
    _cleanup_(tombstone_unrefp) struct tombstone *t = NULL;
    struct engine *g = ctx;
    struct err e = {0};
    int r = tombstone_new(d->id, d->tenant, d->log, d->from, d->to, d->selector, &t, &e);

    if (r < 0 && r != -ENOMEM) {
        engine_damagef(g, "catalogue: a deletion makes no sense: %s", err_message(&e, r));
        return 0;
    }
    g->next_log = MAX(g->next_log, d->log + 1); /* what comes in now is not meant */
    return r < 0 ? r : snapshot_publish(g, &(struct snapshot_change){.add_tombstone = t});
}

int engine_recover(struct engine *g, struct err *e)
{
    int r = catalog_tenants(g->catalog, load_tenant, g);

    if (r == 0)
        r = catalog_epochs(g->catalog, load_epoch, g);
    if (r == 0)
        r = load_segments(g, e);
    if (r == 0)
        r = catalog_load_dedup(g->catalog, &g->dedup);
    if (r == -EBADMSG) {
        engine_damage(g, "catalogue: keys of deduplication make no sense: what is sent again may be stored twice");
        r = 0;
    }
    if (r == 0)
        r = replay_logs(g, e);
    if (r == 0)
        r = catalog_deletions(g->catalog, load_deletion, g);
    return r < 0 && (!e || !e->code) ? err_set(e, r, "cannot open the store in '%s': %m", g->dir) : r;
}
