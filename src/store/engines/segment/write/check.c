/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the whole store: reads everything and reports each part and any damage; see engine.h. */
#include <stdarg.h>
#include <stdio.h>

#include "store/engines/segment/engine.h"
#include "store/engines/segment/symbols/symbol_file.h"

struct checking {
    store_report_fn fn;
    void *ctx;
    const char *part; /* prefix of damage reports, or NULL */
};

_printf_(3, 4) static void report(struct checking *k, bool problem, const char *fmt, ...)
{
    char line[320];
    va_list ap;
    int n = problem && k->part ? snprintf(line, sizeof line, "%s: ", k->part) : 0;

    va_start(ap, fmt);
    vsnprintf(line + n, sizeof line - (size_t) n, fmt, ap);
    va_end(ap);
    k->fn(k->ctx, problem, line);
}

static void on_damage(void *ctx, const char *what)
{
    report(ctx, true, "%s", what);
}

static void check_segment(struct checking *k, struct segment *s)
{
    const struct segment_meta *m = &s->meta;

    segment_check(s, on_damage, k);
    report(k, false, "segment %llu: level %u, %llu profiles, %llu samples, %llu bytes%s", (unsigned long long) m->number,
         m->level, (unsigned long long) m->profiles, (unsigned long long) m->rows, (unsigned long long) m->bytes,
         atomic_load(&s->is_cold) ? ", in the object store" : "");
}

/* --- objects --- */

struct object_check {
    struct checking *k;
    const struct snapshot *snap;
    const char *prefix; /* of the store's objects */
};

static int tell_object(void *ctx, const char *path, uint64_t size)
{
    struct object_check *c = ctx;
    struct str rest = str_from(path + MIN(strlen(path), strlen(c->prefix))), name = rest;
    uint64_t number = 0;
    bool used = false;

    str_cut(&name, '/'); /* the tenant */
    if (str_ends(name, STR(".seg")) && str_to_u64(str_slice(name, 0, name.n - 4), 10, &number) == 0)
        for (uint32_t i = 0; i < c->snap->n_segments; i++)
            used |= c->snap->segments[i].segment->meta.number == number;
    report(c->k, false, "object %s: %llu bytes%s", path, (unsigned long long) size,
         used ? "" : ", of no segment; it is deleted if its segment was removed");
    return 0;
}

static void check_objects(struct engine *g, struct checking *k, const struct snapshot *snap)
{
    _cleanup_(buf_done) struct buf path = BUF_INIT;
    struct object_check c = {k, snap, NULL};
    struct err e = {0};
    char name[40];

    if (!g->cold)
        return;
    if (!g->cold->objects) {
        report(k, true, "%s", g->cold->problem);
        return;
    }
    snprintf(name, sizeof name, "%s/", g->cold->id);
    objects_path(g->cold->objects, name, &path);
    c.prefix = buf_cstr(&path);
    if (!c.prefix || objects_list(g->cold->objects, c.prefix, tell_object, &c, &e) < 0)
        report(k, true, "%s", c.prefix ? e.message : "out of memory");
}

/* --- logs --- */

static int on_record(void *ctx, uint64_t lsn, const void *payload, size_t n)
{
    (void) ctx;
    (void) lsn;
    (void) payload;
    (void) n;
    return 0;
}

static void on_log_damage(void *ctx, bool tail, const char *what)
{
    report(ctx, !tail, "%s%s", what,
         tail ? ", at its end: never acknowledged, or damaged" : ""); /* or being written at the moment */
}

static void check_log(struct engine *g, struct checking *k, const struct memtable *m)
{
    struct log_reader reader = {on_record, on_log_damage, k};
    struct err e = {0};
    char part[40];
    off_t end;

    snprintf(part, sizeof part, "log %llu", (unsigned long long) m->log);
    k->part = part;
    if (log_read(g->log_dir, m->log, &reader, &end, &e) < 0)
        report(k, true, "%s", e.message);
    k->part = NULL;
    report(k, false, "log %llu: %llu profiles, %llu samples", (unsigned long long) m->log,
         (unsigned long long) m->n_profs, (unsigned long long) m->n_rows);
}

/* --- the rest --- */

static void check_symbols(struct checking *k, struct engine_tenant *t)
{
    char part[40];
    uint64_t end;

    snprintf(part, sizeof part, "tenant %u", t->number);
    for (struct engine_epoch *x = t->epochs; x; x = x->next) {
        k->part = part;
        symbol_file_read(&(struct symbol_file){t->sym_dir, x->epoch, x->bytes}, NULL, &end, on_damage, k);
        k->part = NULL;
        report(k, false, "symbols %u of tenant %u: %llu bytes", x->epoch, t->number, (unsigned long long) x->bytes);
    }
}

static void tell_known(void *ctx, const char *line)
{
    report(ctx, true, "noted %s", line);
}

static void tell_lost(void *ctx, const char *name, uint64_t bytes)
{
    report(ctx, false, "lost/%s: %llu bytes", name, (unsigned long long) bytes);
}

int engine_check(struct store *s, store_report_fn fn, void *ctx, struct err *e)
{
    struct engine *g = to_engine(s);
    _cleanup_(snapshot_unrefp) struct snapshot *snap = NULL;
    struct checking k = {fn, ctx, NULL};
    struct err own = {0};
    char path[4096];

    (void) e;
    engine_each_damage(g, tell_known, &k);
    engine_each_lost(g, tell_lost, &k);
    pthread_mutex_lock(&g->flush_lock); /* for epochs, and so that no log is removed while it is read */
    snap = snapshot_get(g);
    snprintf(path, sizeof path, "%s/catalog.db", g->dir);
    if (catalog_check(g->catalog, path, &own) < 0)
        report(&k, true, "%s", own.message);
    for (uint32_t i = 0; i < engine_n_tenants(g); i++)
        check_symbols(&k, engine_tenant_at(g, i));
    for (uint32_t i = 0; i < snap->n_memtables; i++)
        check_log(g, &k, snap->memtables[i]);
    pthread_mutex_unlock(&g->flush_lock);
    for (uint32_t i = 0; i < snap->n_segments; i++)
        check_segment(&k, snap->segments[i].segment);
    check_objects(g, &k, snap);
    return 0;
}
