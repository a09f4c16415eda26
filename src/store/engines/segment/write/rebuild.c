/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rebuilds the catalogue from the files of the store: segments record their contents, the log they were made of and the
 * segments they replaced; symbol files have their length; T/NAME has the name of a tenant. Segments in lost/ are
 * restored. The rest of the old catalogue (deduplication, pending deletions, removed segments) is kept if it can be
 * read; if the catalogue cannot be opened at all, it is lost.
 *
 * A segment whose log still exists was never listed, or was listed by a lost transaction: the log is used instead, so
 * that nothing counts twice.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/mem.h"
#include "store/engines/segment/symbols/symbol_file.h"
#include "store/engines/segment/write/recovery.h"

struct rebuilding {
    struct engine *g;
    struct segment_meta *metas;
    struct catalog_epoch *epochs;
    size_t cap, cap_epochs;
    uint32_t n, n_epochs;
    struct numbers dead; /* replaced by others, or removed */
    struct numbers logs; /* existing files */
    struct catalog_epoch *known;
    size_t cap_known;
    uint32_t n_known;
    uint64_t log, next;
};

void recovery_damage(void *ctx, const char *what)
{
    struct recovery_damage *d = ctx;

    engine_damagef(d->g, "tenant %u: %s", d->tenant, what);
}

static int look_at_segment(struct rebuilding *b, struct engine_tenant *t, uint64_t number)
{
    _cleanup_(segment_unrefp) struct segment *s = NULL;
    _cleanup_(segment_releasep) struct segment *used = NULL;
    const struct segment_footer *f;
    struct err e = {0};
    int r = segment_open(t->seg_dir, number, NULL, &s, &e);

    b->next = MAX(b->next, number + 1);
    if (r == 0) {
        used = segment_use(s);
        r = segment_footer(s, &f, &e);
    }
    if (r == -ENOMEM)
        return r;
    if (r < 0) {
        if (r != -EPROTONOSUPPORT) /* of a later version: reported when unlisted files are cleared */
            engine_damagef(b->g, "tenant %u: %s", t->number, err_message(&e, r));
        return 0;
    }
    if (!f->n_replaced && numbers_have(&b->logs, f->meta.log))
        return 0;
    if (array_reserve(b->metas, b->cap, (size_t) b->n + 1, 1 << 24) < 0)
        return -ENOMEM;
    b->metas[b->n] = f->meta;
    b->metas[b->n].number = number;
    b->metas[b->n++].bytes = s->meta.bytes;
    b->log = MAX(b->log, f->meta.log);
    for (uint32_t i = 0; r == 0 && i < f->n_replaced; i++)
        r = numbers_add(&b->dead, f->replaced[i]);
    return r;
}

static int keep_epoch(void *ctx, const struct catalog_epoch *k)
{
    struct rebuilding *b = ctx;

    if (array_push(b->known, b->n_known, b->cap_known, 1 << 24, *k) < 0)
        return -ENOMEM;
    return 0;
}

/* The length in the old catalogue, or more where more of the file is intact. */
static int look_at_symbols(struct rebuilding *b, struct engine_tenant *t, uint32_t epoch)
{
    struct catalog_epoch k = {t->number, epoch, 0, engine_now(b->g)};
    int r = symbol_file_read(&(struct symbol_file){t->sym_dir, epoch, UINT64_MAX}, NULL, &k.bytes, recovery_damage,
                             &(struct recovery_damage){b->g, t->number});

    for (uint32_t i = 0; i < b->n_known; i++)
        if (b->known[i].tenant == t->number && b->known[i].epoch == epoch) {
            k.bytes = MAX(k.bytes, b->known[i].bytes);
            k.born = b->known[i].born;
        }
    if (r == 0)
        r = array_push(b->epochs, b->n_epochs, b->cap_epochs, 1 << 24, k);
    return r;
}

static int rebuild_tenant(struct rebuilding *b, uint32_t number, struct err *e)
{
    struct engine *g = b->g;
    struct engine_tenant *t;
    struct numbers seg = {0}, sym = {0};
    char name[128];
    int r;

    engine_tenant_name(g, number, name, sizeof name);
    r = engine_add_tenant(g, number, name, &t, e);
    if (r == 0)
        r = catalog_add_tenant(g->catalog, number, name, e);
    if (r == 0)
        r = recovery_segments(b->g, t->seg_dir, &seg);
    for (uint32_t i = 0; r == 0 && i < seg.n; i++)
        r = look_at_segment(b, t, seg.v[i]);
    if (r == 0)
        r = recovery_list(b->g, t->sym_dir, ".sym", &sym);
    for (uint32_t i = 0; r == 0 && i < sym.n; i++)
        r = look_at_symbols(b, t, (uint32_t) sym.v[i]);
    numbers_done(&seg);
    numbers_done(&sym);
    return r;
}

static int commit_rebuilt(struct rebuilding *b, struct err *e)
{
    uint32_t n = 0;

    numbers_sort(&b->dead);
    for (uint32_t i = 0; i < b->n; i++)
        if (!numbers_have(&b->dead, b->metas[i].number))
            b->metas[n++] = b->metas[i];
    b->n = n;
    return catalog_replace(b->g->catalog,
                           &(struct catalog_change){.added = b->metas,
                                                    .n_added = b->n,
                                                    .epochs = b->epochs,
                                                    .n_epochs = b->n_epochs,
                                                    .log = MAX(b->log, catalog_meta(b->g->catalog, "log")),
                                                    .next = b->next},
                           e);
}

static int add_dead(void *ctx, uint64_t number)
{
    return numbers_add(ctx, number);
}

int engine_rebuild_catalog(struct engine *g, struct err *e)
{
    struct rebuilding b = {.g = g, .next = 1};
    struct numbers tenants = {0};
    int r = lost_bring_back(g);

    if (r == 0)
        r = recovery_list(g, g->log_dir, ".log", &b.logs);
    if (r == 0)
        r = catalog_epochs(g->catalog, keep_epoch, &b);
    if (r == 0)
        r = catalog_removed(g->catalog, add_dead, &b.dead);
    if (r == 0)
        r = recovery_tenants(g, &tenants);
    for (uint32_t i = 0; r == 0 && i < tenants.n; i++)
        r = rebuild_tenant(&b, (uint32_t) tenants.v[i], e);
    if (r == 0)
        r = commit_rebuilt(&b, e);
    if (r == 0)
        engine_tell(g, "the catalogue was rebuilt from %u segments", b.n);
    g->catalog_rebuilt = true;
    engine_tenants_free(g);
    numbers_done(&tenants);
    numbers_done(&b.dead);
    numbers_done(&b.logs);
    mem_free(b.metas);
    mem_free(b.epochs);
    mem_free(b.known);
    return r;
}
