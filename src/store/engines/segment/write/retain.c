/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retention; see engine.h. It drops whole segments by age and by size (retain_size.c); a service's part of a segment when
 * that service has a shorter retention; and detail and links after theirs. Each step is one catalogue transaction.
 * Deletions by users are in delete.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/mem.h"
#include "model/semconv.h"
#include "store/engines/segment/engine.h"
#include "store/engines/segment/symbols/symbol_file.h"

int engine_drop_segment(struct engine *g, struct segment *s, struct err *e)
{
    uint64_t number = s->meta.number;
    struct snapshot_room room;
    int r = snapshot_make_room(g, 0, &room);

    if (r == 0)
        r = catalog_commit(g->catalog, &(struct catalog_change){.removed = &number, .n_removed = 1}, e);
    if (r == 0)
        snapshot_publish_in(&room, &(struct snapshot_change){.removed = &number, .n_removed = 1});
    else
        snapshot_room_done(&room);
    return r;
}

static int retain_age(struct engine *g, int64_t now, struct err *e) _locked_(g->flush_lock)
{
    _cleanup_(snapshot_unrefp) struct snapshot *snap = snapshot_get(g);
    int64_t keep = g->config.keep ? g->config.keep : 30 * 86400 * NS_PER_S;
    int r = 0;

    for (uint32_t i = 0; r == 0 && keep >= 0 && i < snap->n_segments; i++)
        if (snap->segments[i].segment->meta.t1 < now - keep)
            r = engine_drop_segment(g, snap->segments[i].segment, e);
    return r;
}

static int retain_age_and_size(struct engine *g, int64_t now, struct err *e) _locked_(g->flush_lock)
{
    int r = retain_age(g, now, e);

    return r < 0 ? r : engine_retain_size(g, e);
}

/* --- parts of segments --- */

struct keeping {
    const struct store_config *config;
    int64_t now;
};

static int64_t service_cutoff(const struct keeping *k, const struct sym_series *s)
{
    struct str name = labels_get(&s->labels, STR(SEMCONV_SERVICE_NAME));
    int64_t cutoff = INT64_MIN;

    for (uint32_t i = 0; i < k->config->n_services; i++)
        if (str_is(name, k->config->services[i].service))
            cutoff = MAX(cutoff, k->now - k->config->services[i].keep);
    return cutoff;
}

static bool keep_by_service(void *ctx, const struct sym_series *s, int64_t time_ns)
{
    return time_ns >= service_cutoff(ctx, s);
}

/* Whether the segment has data that is too old for its service: the last time of a whole series is. */
static int has_victims(struct snapshot_segment *s, const struct rewrite *w, struct err *e)
{
    _cleanup_(segment_releasep) _unused_ struct segment *used = segment_use(s->segment);
    const struct segment_footer *f;
    int r = segment_footer(used, &f, e);

    for (uint32_t i = 0; r == 0 && i < f->n_series; i++)
        if (f->series[i].series < pinned_count(&s->symbols->series) &&
            !w->keep(w->ctx, sym_series(s->symbols, f->series[i].series), f->series[i].last))
            return 1;
    return r;
}

/* Whether a rewrite failed in a way that leaves the segment as it is: it is unreadable, or it is in the object store, which
 * cannot be reached at present. */
static bool stays(struct engine *g, int r, const struct err *e)
{
    if (r == -EREMOTEIO)
        engine_cold_problem(g, err_message(e, r));
    return r == -EBADMSG || r == -EREMOTEIO;
}

static int retain_services(struct engine *g, struct rewrite *w, struct err *e) _locked_(g->flush_lock)
{
    _cleanup_(snapshot_unrefp) struct snapshot *snap = snapshot_get(g);
    int r = 0;

    for (uint32_t i = 0; r >= 0 && i < snap->n_segments; i++) {
        r = has_victims(&snap->segments[i], w, e);
        if (r == -EBADMSG) {
            engine_damage(g, err_message(e, r));
            r = 0;
        }
        if (r <= 0)
            continue;
        w->inputs = &snap->segments[i].segment;
        w->n = 1;
        w->symbols = snap->segments[i].symbols;
        w->level = snap->segments[i].segment->meta.level;
        r = engine_rewrite(g, engine_tenant_number(g, snap->segments[i].segment->meta.tenant), w, e);
        r = stays(g, r, e) ? 0 : r;
    }
    return MIN(r, 0);
}

/* Whether a deletion must be carried out in it first. */
static bool is_concerned(const struct snapshot *snap, const struct segment_meta *m)
{
    for (uint32_t i = 0; i < snap->n_tombstones; i++)
        if (tombstone_concerns(snap->tombstones[i], m->tenant, m->log, m->t0, m->t1))
            return true;
    return false;
}

static int retain_detail(struct engine *g, int64_t now, struct err *e) _locked_(g->flush_lock)
{
    _cleanup_(snapshot_unrefp) struct snapshot *snap = snapshot_get(g);
    int64_t keep = g->config.keep_detail ? g->config.keep_detail : 7 * 86400 * NS_PER_S;
    int r = 0;

    for (uint32_t i = 0; keep >= 0 && r == 0 && i < snap->n_segments; i++) {
        const struct segment_meta *m = &snap->segments[i].segment->meta;
        struct rewrite w = {.inputs = &snap->segments[i].segment,
                            .n = 1,
                            .symbols = snap->segments[i].symbols,
                            .level = m->level,
                            .drop_detail = true};

        if (m->has_detail && m->t1 < now - keep && !is_concerned(snap, m)) /* sums are not cut as precisely as rows */
            r = engine_rewrite(g, engine_tenant_number(g, m->tenant), &w, e);
        r = stays(g, r, e) ? 0 : r;
    }
    return r;
}

static bool epoch_is_used(const struct snapshot *snap, const struct symbols *symbols)
{
    for (uint32_t i = 0; i < snap->n_segments; i++)
        if (snap->segments[i].symbols == symbols)
            return true;
    for (uint32_t i = 0; i < snap->n_memtables; i++)
        for (struct mempart *p = snap->memtables[i]->parts; p; p = p->next)
            if (p->symbols == symbols)
                return true;
    return false;
}

static int drop_epochs(struct engine *g, struct engine_tenant *t, const struct snapshot *snap, struct err *e)
{
    struct engine_epoch *before = t->epochs, *k;

    while (before && (k = before->next)) {
        char name[32];
        int r;

        if (epoch_is_used(snap, k->symbols)) {
            before = k;
            continue;
        }
        r = catalog_drop_epoch(g->catalog, t->number, k->epoch, e);
        if (r < 0)
            return r;
        symbol_file_name(name, sizeof name, k->epoch);
        fd_unlink(t->sym_dir, name);
        pthread_mutex_lock(&g->lock);
        before->next = atomic_load(&k->next);
        pthread_mutex_unlock(&g->lock);
        atomic_fetch_sub(&g->paged, k->symbols->out);
        atomic_fetch_sub(&g->paged_pieces, k->symbols->n_out);
        symbols_unref(k->symbols);
        mem_free(k);
    }
    return 0;
}

/* Drops epochs that no segment and no memtable uses, except the newest. */
static int retain_epochs(struct engine *g, struct err *e)
{
    _cleanup_(snapshot_unrefp) struct snapshot *snap = snapshot_get(g);
    int r = 0;

    pthread_mutex_lock(&g->write_lock);
    for (uint32_t i = 0; r == 0 && i < engine_n_tenants(g); i++)
        r = drop_epochs(g, engine_tenant_at(g, i), snap, e);
    pthread_mutex_unlock(&g->write_lock);
    return r;
}

/* Under flush_lock. */
static int drop_old(struct engine *g, int64_t now, struct err *e) _locked_(g->flush_lock)
{
    int r = retain_age_and_size(g, now, e);

    if (fd_is_full(r)) { /* dropping requires a little space first, which the reserve provides */
        engine_release_reserve(g);
        r = retain_age_and_size(g, now, e);
    }
    if (r == 0)
        engine_make_reserve(g);
    return r;
}

int engine_drop_old(struct engine *g, struct err *e)
{
    int r;

    pthread_mutex_lock(&g->flush_lock);
    r = drop_old(g, engine_keep_now(g), e);
    if (r == 0)
        r = retain_epochs(g, e);
    pthread_mutex_unlock(&g->flush_lock);
    return r;
}

int engine_retain(struct store *s, bool compact_all, struct err *e)
{
    struct engine *g = to_engine(s);
    struct keeping k = {.config = &g->config, .now = engine_keep_now(g)};
    struct rewrite w = {.keep = keep_by_service, .ctx = &k};
    int r;

    if (g->config.read_only)
        return err_set(e, -EROFS, "the store is opened read-only");
    pthread_mutex_lock(&g->flush_lock);
    r = drop_old(g, k.now, e);
    if (r == 0 && g->config.n_services)
        r = retain_services(g, &w, e);
    if (r == 0)
        r = engine_compact(g, compact_all, e);
    if (r == 0)
        r = retain_detail(g, k.now, e);
    if (r == 0)
        r = retain_epochs(g, e);
    engine_bound_lost(g);
    engine_save_clock(g, false);
    catalog_checkpoint(g->catalog);
    pthread_mutex_unlock(&g->flush_lock);
    if (r == 0 && g->config.manual) /* otherwise a thread of its own does it */
        r = engine_cool(g, e);
    return r;
}

void engine_set_retention(struct store *s, const struct store_config *c)
{
    struct engine *g = to_engine(s);

    pthread_mutex_lock(&g->flush_lock);
    pthread_mutex_lock(&g->write_lock);
    g->config.keep = c->keep;
    g->config.keep_detail = c->keep_detail;
    g->config.keep_bytes = c->keep_bytes;
    memcpy(g->config.services, c->services, sizeof g->config.services);
    g->config.n_services = c->n_services;
    g->retained = 0; /* due immediately */
    pthread_mutex_unlock(&g->write_lock);
    pthread_mutex_unlock(&g->flush_lock);
}
