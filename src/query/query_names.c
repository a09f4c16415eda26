/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for frames that were stored without (query_names.h, names.h). An answer by function has lost its addresses: if
 * it has frames without a name or a line, of binaries about which the source may know more, the same selection is
 * queried by address (ROWS_UNLINED), those addresses are looked up and handed to the store, and then the original
 * question is asked again.
 */
#include "query/query_names.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "model/batch.h"
#include "model/identity.h"
#include "model/symbolizer.h"
#include "query/names.h"

enum { ADDRESSES_MAX = 1 << 20, BATCHES_MAX = 1 << 20 };

/* Who asks: the store, the source of names and whose data it is. */
struct asker {
    struct store *store;
    struct names *names; /* NULL: nothing is looked up */
    const char *tenant;
    struct store_notes *notes; /* its flag naming is set where names are to come; may be NULL */
};

static struct asker asker(const struct named_store *n, const struct store_query *q)
{
    return (struct asker){n->store, n->store->ops->name_later ? n->names : NULL, q->tenant, q->notes};
}

static void note_later(const struct asker *a)
{
    if (a->notes)
        a->notes->naming = true;
}

/* Whether to look this binary up now. */
static bool may_look(const struct asker *a, struct str build_id, bool lines)
{
    enum names_hope h = a->names->ops->hope(a->names, a->tenant, build_id, lines);

    if (h == NAMES_LATER)
        note_later(a);
    return h == NAMES_NOW;
}

/* --- addresses without a name or a line --- */

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
    if (l->n == ADDRESSES_MAX)
        return 0; /* the rest follows next time */
    return array_push(l->v, l->n, l->cap, ADDRESSES_MAX, (struct nameless){build_id, address});
}

static int compare(const void *a, const void *b)
{
    const struct nameless *x = a, *y = b;
    int c = str_cmp(x->build_id, y->build_id);

    return c ? c : (x->address > y->address) - (x->address < y->address);
}

/* Looks up the addresses of one build ID: [0, n) of v, sorted. 1 if at least one got a name; -EAGAIN as names_ops.look_up. */
static int name_binary(const struct asker *a, const struct nameless *v, size_t n)
{
    _cleanup_(symbol_answer_freep) struct symbol_answer *found = NULL;
    _cleanup_(mem_freep) uint64_t *addresses = mem_zalloc_array(n, sizeof *addresses), *asked = NULL;
    uint32_t count = 0;
    int r;

    if (!addresses)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (!count || addresses[count - 1] != v[i].address)
            addresses[count++] = v[i].address;
    r = a->names->ops->look_up(a->names, &(struct names_request){a->tenant, v[0].build_id, addresses, count}, &found,
                               &asked, NULL);
    if (r < 0 || !found->first[found->n_addresses])
        return r == -EAGAIN ? r : 0;
    return a->store->ops->name_later(a->store, a->tenant, v[0].build_id, asked, found, NULL) == 0;
}

static bool name_all(const struct asker *a, struct nameless_list *l)
{
    bool named = false;
    int r = 0;

    if (l->n)
        qsort(l->v, l->n, sizeof *l->v, compare);
    for (size_t i = 0, end; r >= 0 && i < l->n; i = end) {
        for (end = i + 1; end < l->n && str_eq(l->v[end].build_id, l->v[i].build_id);)
            end++;
        r = may_look(a, l->v[i].build_id, false) ? name_binary(a, l->v + i, end - i) : 0;
        named |= r > 0;
    }
    if (r < 0)
        note_later(a);
    return named;
}

/* Queries the same selection by address and looks up its frames without a name or a line. */
static int name_selection(const struct asker *a, const struct store_query *q, bool *ret_named, struct err *e)
{
    const struct store_table_query tq = {.rows = ROWS_UNLINED, .max_rows = ADDRESSES_MAX};
    struct nameless_list list = {0};
    struct store_query by = *q;
    struct store_table t;
    int r;

    by.no_inlines = false;
    by.focus = by.ignore = by.hide = (struct str){0};
    by.n_zoom = 0;
    by.notes = NULL;
    r = a->store->ops->table(a->store, &by, &tq, &t, e);
    if (r < 0)
        return r;
    for (uint32_t i = 0; r == 0 && i < t.n_rows; i++)
        r = add_nameless(&list, t.keys[i].name, t.keys[i].address);
    if (r == 0)
        *ret_named = name_all(a, &list);
    mem_free(list.v);
    store_table_done(&t);
    return r;
}

/* Before the store is asked again: what it noted is cleared, but not what is known of the selection itself. */
static void clear_notes(struct store_notes *n)
{
    if (!n)
        return;
    n->profiles = n->samples = 0;
    n->coarse = false;
    n->damaged = 0;
    n->damage[0] = 0;
}

/* A question that is asked once more if something of its answer got a name. */
struct name_lookup {
    struct asker by;
    const struct store_query *q;
    bool looked;
};

static struct name_lookup lookup_of(const struct named_store *n, const struct store_query *q)
{
    return (struct name_lookup){asker(n, q), q, false};
}

/* Looks up what the answer lacks. Returns 1 if the question must be asked again: then the store's notes are cleared. A
 * selection that is too large by address keeps its answer without names. */
static int look_up(struct name_lookup *x, bool lacking, struct err *e)
{
    bool named = false;
    int r = lacking ? name_selection(&x->by, x->q, &named, e) : 0;

    x->looked = true;
    if (r < 0)
        return r == -E2BIG ? 0 : r;
    if (named)
        clear_notes(x->q->notes);
    return named;
}

/* --- trees --- */

/* True if more may be known about a frame of the tree than it has. */
static bool tree_lacks(const struct name_lookup *x, const struct tree *t)
{
    struct str last = {0};

    for (uint32_t i = 1; !x->looked && x->by.names && i < t->n_frames; i++) {
        const struct frame *f = &t->frames[i];
        struct str build_id = tree_frame_nameless(f) ? f->build_id : f->unlined;

        if (!build_id.n || str_eq(build_id, last))
            continue;
        last = build_id;
        if (may_look(&x->by, build_id, !tree_frame_nameless(f)))
            return true;
    }
    return false;
}

int named_select(const struct named_store *n, const struct store_query *q, struct tree **ret, struct err *e)
{
    struct name_lookup x = lookup_of(n, q);
    int r;

    do {
        r = n->store->ops->select(n->store, q, ret, e);
        if (r < 0)
            return r;
        r = look_up(&x, tree_lacks(&x, *ret), e);
        if (r != 0)
            tree_free(TAKE(*ret));
    } while (r > 0);
    return r;
}

int named_windows(const struct named_store *n, const struct store_query *q, uint32_t windows, struct store_windows *ret,
                  struct err *e)
{
    struct name_lookup x = lookup_of(n, q);
    int r;

    do {
        r = store_windows(n->store, q, windows, ret, e);
        if (r < 0)
            return r;
        r = look_up(&x, tree_lacks(&x, ret->tree), e);
        if (r != 0)
            store_windows_done(ret);
    } while (r > 0);
    return r;
}

int named_cube(const struct named_store *n, const struct store_query *q, const struct store_cube_query *cq,
               struct store_cube *ret, struct err *e)
{
    struct name_lookup x = lookup_of(n, q);
    int r;

    do {
        r = store_cube(n->store, q, cq, ret, e);
        if (r < 0)
            return r;
        r = look_up(&x, tree_lacks(&x, ret->tree), e);
        if (r != 0)
            store_cube_done(ret);
    } while (r > 0);
    return r;
}

int named_callers(const struct named_store *n, const struct store_query *q, struct str function,
                  struct store_callers *ret, struct err *e)
{
    struct name_lookup x = lookup_of(n, q);
    int r;

    do {
        r = n->store->ops->callers(n->store, q, function, ret, e);
        if (r < 0)
            return r;
        r = look_up(&x, tree_lacks(&x, ret->callers) || tree_lacks(&x, ret->callees), e);
        if (r != 0)
            store_callers_done(ret);
    } while (r > 0);
    return r;
}

/* --- tables --- */

static bool table_lacks(const struct name_lookup *x, const struct store_table *t)
{
    for (uint32_t i = 0; !x->looked && x->by.names && i < t->n_gaps; i++)
        if (may_look(&x->by, t->gaps[i].build_id, t->gaps[i].named))
            return true;
    return false;
}

int named_table(const struct named_store *n, const struct store_query *q, const struct store_table_query *tq,
                struct store_table *ret, struct err *e)
{
    struct name_lookup x = lookup_of(n, q);
    int r;

    do {
        r = n->store->ops->table(n->store, q, tq, ret, e);
        if (r < 0)
            return r;
        r = look_up(&x, table_lacks(&x, ret), e);
        if (r != 0)
            store_table_done(ret);
    } while (r > 0);
    return r;
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
    int r = array_reserve(k->v, k->cap, k->n + 1, BATCHES_MAX);

    if (r < 0)
        return r;
    k->v[k->n++] = batch_ref(b);
    for (uint32_t i = 1; r == 0 && i < d->n_locations; i++) {
        const struct location *l = &d->locations[i];

        if (l->mapping && l->address && !has_line(d, l))
            r = add_nameless(&k->nameless, identity_build_id(b, l->mapping),
                             identity_elf_address(&d->mappings[l->mapping], l->address));
    }
    return r;
}

int named_export(const struct named_store *n, const struct store_query *q, store_batch_fn fn, void *ctx, struct err *e)
{
    struct asker a = asker(n, q);
    struct store *s = n->store;
    struct kept k = {0};
    int r;

    if (!a.names)
        return s->ops->export(s, q, fn, ctx, e);
    r = s->ops->export(s, q, keep_batch, &k, e);
    if (r >= 0 && name_all(&a, &k.nameless)) {
        clear_notes(q->notes);
        r = s->ops->export(s, q, fn, ctx, e);
    } else
        for (size_t i = 0; r >= 0 && i < k.n; i++)
            r = fn(ctx, k.v[i]);
    for (size_t i = 0; i < k.n; i++)
        batch_unref(k.v[i]);
    mem_free(k.v);
    mem_free(k.nameless.v);
    return r;
}
