/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds names to native frames in query results, see naming_store.h. A tree by function has lost its addresses. If it
 * has frames without a name or a line, of binaries that may be known, the same selection is queried again by address,
 * those addresses are named, and then the original query is repeated.
 */
#include "server/naming_store.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "model/batch.h"
#include "model/identity.h"
#include "model/tree.h"
#include "server/name_source.h"
#include "store/store_table.h"

enum { ADDRESSES_MAX = 1 << 20, BATCHES_MAX = 1 << 20 };

struct naming_store {
    struct store store;
    struct store *behind;
    struct name_source *names;
};

static struct naming_store *to_naming(struct store *s)
{
    return container_of(s, struct naming_store, store);
}

/* --- frames without a name --- */

struct nameless {
    struct str build_id; /* points into the result it was found in */
    uint64_t address;
};

struct nameless_list {
    struct nameless *v;
    size_t n, cap;
};

static int add_nameless(struct nameless_list *l, struct str build_id, uint64_t address)
{
    int r;

    if (l->n == ADDRESSES_MAX)
        return 0; /* the rest follows next time */
    r = array_push(l->v, l->n, l->cap, ADDRESSES_MAX, (struct nameless){build_id, address});
    return r;
}

static int compare(const void *a, const void *b)
{
    const struct nameless *x = a, *y = b;
    int c = str_cmp(x->build_id, y->build_id);

    return c ? c : (x->address > y->address) - (x->address < y->address);
}

/* Looks up the addresses of one build id: [0, n) of v, sorted. True if at least one got a name. */
static bool name_binary(struct naming_store *s, const char *tenant, const struct nameless *v, size_t n)
{
    _cleanup_(symbol_answer_freep) struct symbol_answer *a = NULL;
    _cleanup_(mem_freep) uint64_t *addresses = mem_zalloc_array(n, sizeof *addresses), *asked = NULL;
    uint32_t count = 0;
    int r;

    if (!addresses)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!count || addresses[count - 1] != v[i].address)
            addresses[count++] = v[i].address;
    r = name_source_ask(s->names, tenant, v[0].build_id, addresses, count, &a, &asked, NULL);
    if (r < 0 || !a->first[a->n_addresses])
        return false;
    return s->behind->ops->name_later(s->behind, tenant, v[0].build_id, asked, a, NULL) == 0;
}

static bool name_all(struct naming_store *s, const char *tenant, struct nameless_list *l)
{
    bool named = false;

    if (l->n)
        qsort(l->v, l->n, sizeof *l->v, compare);
    for (size_t i = 0, end; i < l->n; i = end) {
        for (end = i + 1; end < l->n && str_eq(l->v[end].build_id, l->v[i].build_id);)
            end++;
        if (name_source_may_know(s->names, tenant, l->v[i].build_id))
            named |= name_binary(s, tenant, l->v + i, end - i);
    }
    return named;
}

/* --- trees --- */

static bool frame_nameless(const struct frame *f)
{
    return !f->function.n && !f->file.n && f->build_id.n && f->kind != FRAME_KERNEL;
}

/* By address: no name, or a name without a line. */
static bool frame_wants(const struct frame *f)
{
    return !f->file.n && !f->line && f->build_id.n && f->address && f->kind != FRAME_KERNEL;
}

/* True if more may be known about this frame than it has. */
static bool frame_may(struct naming_store *s, const char *tenant, const struct frame *f)
{
    if (frame_nameless(f))
        return name_source_may_know(s->names, tenant, f->build_id);
    return f->unlined.n && name_source_may_line(s->names, tenant, f->unlined);
}

static struct str frame_binary(const struct frame *f)
{
    return frame_nameless(f) ? f->build_id : f->unlined;
}

static bool may_name(struct naming_store *s, const char *tenant, const struct tree *t)
{
    struct str last = {0};

    for (uint32_t i = 1; i < t->n_frames; i++) {
        const struct frame *f = &t->frames[i];

        if (!frame_binary(f).n || str_eq(frame_binary(f), last))
            continue;
        last = frame_binary(f);
        if (frame_may(s, tenant, f))
            return true;
    }
    return false;
}

struct nameless_rows {
    struct nameless_list list;
    struct arena arena;
    struct str last; /* build id, in the arena */
};

static uint32_t note_nameless(void *ctx, const struct frame *f)
{
    struct nameless_rows *x = ctx;

    if (!frame_wants(f))
        return TABLE_NO_ROW;
    if (!str_eq(f->build_id, x->last))
        x->last = arena_str(&x->arena, f->build_id);
    return x->last.n && add_nameless(&x->list, x->last, f->address) == 0 ? TABLE_NO_ROW : TABLE_NO_MEMORY;
}

static void forget_nameless(void *ctx)
{
    ((struct nameless_rows *) ctx)->list.n = 0;
}

/* Queries the same selection by address and looks up its frames without a name. */
static int name_selection(struct naming_store *s, const struct store_query *q, bool *ret_named, struct err *e)
{
    struct nameless_rows x = {0};
    struct store_table t = {.row = note_nameless, .restart = forget_nameless, .ctx = &x};
    struct store_notes notes = {0};
    struct store_query by = *q;
    int r;

    by.by = BY_ADDRESS;
    by.no_inlines = false;
    by.focus = by.ignore = by.hide = (struct str){0};
    by.max_nodes = 0;
    by.min_share = 0;
    by.n_zoom = 0;
    arena_init(&x.arena, 0);
    arena_init(&t.arena, 0);
    r = s->behind->ops->table(s->behind, &by, &t, &notes, e);
    if (r == 0)
        *ret_named = name_all(s, q->tenant, &x.list);
    mem_free(x.list.v);
    arena_done(&x.arena);
    store_table_done(&t);
    return r;
}

static int naming_select(struct store *store, const struct store_query *q, struct tree **ret, struct store_notes *notes,
                         struct err *e)
{
    struct naming_store *s = to_naming(store);
    _cleanup_(tree_freep) struct tree *t = NULL;
    bool named = false;
    int r = s->behind->ops->select(s->behind, q, &t, notes, e);

    if (r == 0 && may_name(s, q->tenant, t)) {
        r = name_selection(s, q, &named, e);
        if (r == -E2BIG) /* too large by address: answer without names */
            r = 0;
    }
    if (r == 0 && named) {
        *notes = (struct store_notes){0};
        tree_free(TAKE(t));
        r = s->behind->ops->select(s->behind, q, &t, notes, e);
    }
    if (r == 0)
        *ret = TAKE(t);
    return r;
}

/* --- tables --- */

/* Passes rows on to the caller and notes frames that may get a name. */
struct watched {
    struct naming_store *s;
    const struct store_query *q;
    struct store_table *of;
    struct arena arena;
    struct str last; /* last build id looked at, in the arena */
    bool found;
};

static uint32_t watch_row(void *ctx, const struct frame *f)
{
    struct watched *w = ctx;

    if (!w->found && frame_binary(f).n && !str_eq(frame_binary(f), w->last)) {
        w->last = arena_str(&w->arena, frame_binary(f));
        w->found = frame_may(w->s, w->q->tenant, f);
    }
    return w->of->row(w->of->ctx, f);
}

static void watch_restart(void *ctx)
{
    struct watched *w = ctx;

    w->of->restart(w->of->ctx);
}

static int naming_table(struct store *store, const struct store_query *q, struct store_table *t,
                        struct store_notes *notes, struct err *e)
{
    struct naming_store *s = to_naming(store);
    struct watched w = {
        .s = s, .q = q, .of = &(struct store_table){.row = t->row, .restart = t->restart, .ctx = t->ctx}};
    bool named = false;
    int r;

    arena_init(&w.arena, 0);
    t->row = watch_row;
    t->restart = watch_restart;
    t->ctx = &w;
    r = s->behind->ops->table(s->behind, q, t, notes, e);
    if (r == 0 && w.found)
        r = name_selection(s, q, &named, e);
    if (r == 0 && named) {
        *notes = (struct store_notes){0};
        store_table_restart(t);
        r = s->behind->ops->table(s->behind, q, t, notes, e);
    }
    t->row = w.of->row;
    t->restart = w.of->restart;
    t->ctx = w.of->ctx;
    arena_done(&w.arena);
    return r;
}

/* --- callers --- */

static int naming_callers(struct store *store, const struct store_query *q, struct str function,
                          struct tree **ret_callers, struct tree **ret_callees, struct store_notes *notes,
                          struct err *e)
{
    struct naming_store *s = to_naming(store);
    struct store *b = s->behind;
    bool named = false;
    int r = b->ops->callers(b, q, function, ret_callers, ret_callees, notes, e);

    if (r < 0 || (!may_name(s, q->tenant, *ret_callers) && !may_name(s, q->tenant, *ret_callees)))
        return r;
    r = name_selection(s, q, &named, e);
    if (r == 0 && !named)
        return 0;
    tree_free(TAKE(*ret_callers));
    tree_free(TAKE(*ret_callees));
    *notes = (struct store_notes){0};
    return r < 0 ? r : b->ops->callers(b, q, function, ret_callers, ret_callees, notes, e);
}

/* --- whole profiles --- */

struct kept {
    struct batch **v;
    size_t n, cap;
    struct nameless_list nameless;
};

static bool has_line(const struct dict *d, const struct location *l)
{
    for (uint32_t i = 0; i < l->lines.n; i++) {
        const struct line *n = &d->lines[l->lines.off + i];

        if (n->line || d->functions[n->function].filename)
            return true;
    }
    return false;
}

static int keep_batch(void *ctx, struct batch *b)
{
    struct kept *k = ctx;
    const struct dict *d = &b->dict;
    int r = array_push(k->v, k->n, k->cap, BATCHES_MAX, b);

    if (r < 0)
        return r;
    batch_ref(b);
    for (uint32_t i = 1; r == 0 && i < d->n_locations; i++) {
        const struct location *l = &d->locations[i];

        if (l->mapping && l->address && !has_line(d, l))
            r = add_nameless(&k->nameless, identity_build_id(b, l->mapping),
                             identity_elf_address(&d->mappings[l->mapping], l->address));
    }
    return r;
}

static int naming_export(struct store *store, const struct store_query *q, store_batch_fn fn, void *ctx, struct err *e)
{
    struct naming_store *s = to_naming(store);
    struct kept k = {0};
    int r;

    if (q->no_names)
        return s->behind->ops->export(s->behind, q, fn, ctx, e);
    r = s->behind->ops->export(s->behind, q, keep_batch, &k, e);
    if (r >= 0 && name_all(s, q->tenant, &k.nameless)) {
        if (q->notes)
            *q->notes = (struct store_notes){0};
        r = s->behind->ops->export(s->behind, q, fn, ctx, e);
    } else
        for (size_t i = 0; r >= 0 && i < k.n; i++)
            r = fn(ctx, k.v[i]);
    for (size_t i = 0; i < k.n; i++)
        batch_unref(k.v[i]);
    mem_free(k.v);
    mem_free(k.nameless.v);
    return r;
}

/* --- passed through --- */

static void naming_close(struct store *s)
{
    mem_free(to_naming(s));
}

static void naming_append(struct store *s, struct batch *b, const struct sink_context *ctx, struct ack *ack)
{
    store_append(to_naming(s)->behind, b, ctx, ack);
}

static int naming_series(struct store *s, const struct store_query *q, const struct store_series_query *sq,
                         struct store_points *ret, struct store_notes *notes, struct err *e)
{
    struct store *b = to_naming(s)->behind;

    return b->ops->series(b, q, sq, ret, notes, e);
}

static int naming_each_series(struct store *s, const char *tenant, int64_t from, int64_t to, store_series_fn fn,
                              void *ctx)
{
    struct store *b = to_naming(s)->behind;

    return b->ops->each_series(b, tenant, from, to, fn, ctx);
}

static int naming_profiles(struct store *s, const struct store_query *q, store_profile_fn fn, void *ctx, struct err *e)
{
    struct store *b = to_naming(s)->behind;

    return b->ops->profiles(b, q, fn, ctx, e);
}

static int naming_name_later(struct store *s, const char *tenant, struct str build_id, const uint64_t *addresses,
                             const struct symbol_answer *names, struct err *e)
{
    struct store *b = to_naming(s)->behind;

    return b->ops->name_later(b, tenant, build_id, addresses, names, e);
}

static int naming_delete(struct store *s, const char *tenant, const struct store_column *what, struct err *e)
{
    struct store *b = to_naming(s)->behind;

    return b->ops->delete (b, tenant, what, e);
}

static int naming_retain(struct store *s, bool compact_all, struct err *e)
{
    struct store *b = to_naming(s)->behind;

    return b->ops->retain(b, compact_all, e);
}

static int naming_flush(struct store *s, struct err *e)
{
    struct store *b = to_naming(s)->behind;

    return store_flush(b, e);
}

static int naming_snapshot(struct store *s, const char *dir, struct err *e)
{
    struct store *b = to_naming(s)->behind;

    return store_snapshot(b, dir, e);
}

static int naming_stats(struct store *s, struct store_stats *ret)
{
    struct store *b = to_naming(s)->behind;

    return b->ops->stats(b, ret);
}

static int naming_check(struct store *s, store_report_fn fn, void *ctx, struct err *e)
{
    struct store *b = to_naming(s)->behind;

    return store_check(b, fn, ctx, e);
}

static int naming_confirm(struct store *s, enum store_confirm what, struct err *e)
{
    struct store *b = to_naming(s)->behind;

    return b->ops->confirm ? b->ops->confirm(b, what, e) : 0;
}

static void naming_consume(struct sink *sink, struct batch *b, const struct sink_context *ctx, struct ack *ack)
{
    naming_append(container_of(sink, struct store, sink), b, ctx, ack);
}

static const struct store_ops naming_ops = {
    .name = "naming",
    .help = "another store, with names",
    .close = naming_close,
    .append = naming_append,
    .select = naming_select,
    .table = naming_table,
    .callers = naming_callers,
    .series = naming_series,
    .each_series = naming_each_series,
    .profiles = naming_profiles,
    .export = naming_export,
    .name_later = naming_name_later,
    .delete = naming_delete,
    .retain = naming_retain,
    .flush = naming_flush,
    .snapshot = naming_snapshot,
    .stats = naming_stats,
    .check = naming_check,
    .confirm = naming_confirm,
};

int naming_store_new(struct store *behind, struct name_source *names, struct store **ret)
{
    struct naming_store *s = mem_zalloc(sizeof *s);

    if (!s)
        return -ENOMEM;
    s->store = (struct store){&naming_ops, {naming_consume}};
    s->behind = behind;
    s->names = names;
    *ret = &s->store;
    return 0;
}
