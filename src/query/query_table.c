/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of query.h: sums of a selection or a tree by function, file, line, mapping or package. Rows are interned by
 * name; the store adds up by row (store_table.h).
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/map.h"
#include "query/query.h"
#include "store/store_table.h"

int query_by_parse(struct str s, enum query_by *ret, struct err *e)
{
    static const char *const names[] = {"function", "file", "line", "mapping", "package"};

    *ret = QUERY_FUNCTION;
    if (!s.n)
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (str_is(s, names[i])) {
            *ret = (enum query_by) i;
            return 0;
        }
    return err_set(e, -EINVAL, "by: '%.*s' is not function, file, line, mapping or package", STR_FMT(s));
}

int query_sort_parse(struct str s, enum query_sort *ret, struct err *e)
{
    static const char *const names[] = {"self", "total", "delta", "share"};

    *ret = QUERY_SORT_SELF;
    if (!s.n)
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (str_is(s, names[i])) {
            *ret = (enum query_sort) i;
            return 0;
        }
    return err_set(e, -EINVAL, "sort: '%.*s' is not self, total, delta or share", STR_FMT(s));
}

/* --- rows --- */

/* The row that a frame belongs to in this table. A frame without a name is named binary+0xaddress. */
static struct query_row row_of(const struct frame *f, enum query_by by, struct arena *a)
{
    struct query_row r = {.name = f->function, .kind = f->kind};

    switch (by) {
    case QUERY_FUNCTION:
        r.file = f->file;
        break;
    case QUERY_LINE:
        r.file = f->file;
        r.line = f->line;
        break;
    case QUERY_FILE:
        r.name = f->file;
        break;
    case QUERY_MAPPING:
        r.name = f->mapping;
        r.kind = FRAME_UNKNOWN;
        break;
    case QUERY_PACKAGE:
        r.name = frame_package(f);
        r.kind = FRAME_UNKNOWN;
        break;
    }
    if (!r.name.n && (by == QUERY_FUNCTION || by == QUERY_LINE) && f->mapping.n)
        r.name = f->address
                     ? str_from(arena_printf(a, "%.*s+0x%llx", STR_FMT(f->mapping), (unsigned long long) f->address))
                     : f->mapping;
    if (!r.name.n)
        r.name = STR("[unknown]");
    return r;
}

struct rows {
    struct query_table *table;
    enum query_by by;
    struct str function, file; /* if not empty, only these */
    struct map map;
    uint32_t cap;
};

static uint32_t intern_row(struct rows *x, const struct query_row *r)
{
    struct query_table *t = x->table;
    uint64_t h = hash_mix(hash64_str(r->name) ^ (uint64_t) r->line, hash64_str(r->file) | 1);

    for (struct map_pos p = map_find(&x->map, h); p.index != MAP_NONE; p = map_next(&x->map, p)) {
        const struct query_row *o = &t->rows[p.index];

        if (o->line == r->line && str_eq(o->name, r->name) && str_eq(o->file, r->file))
            return p.index;
    }
    if (t->n == x->cap) {
        uint32_t cap = x->cap ? x->cap * 2 : 256;
        struct query_row *more = arena_alloc(&t->arena, cap * sizeof *more);

        if (!more)
            return TABLE_NO_MEMORY;
        if (t->n)
            memcpy(more, t->rows, t->n * sizeof *more);
        t->rows = more;
        x->cap = cap;
    }
    t->rows[t->n] = *r;
    t->rows[t->n].name = arena_str(&t->arena, r->name);
    t->rows[t->n].file = arena_str(&t->arena, r->file);
    if (map_insert(&x->map, h, t->n) < 0)
        return TABLE_NO_MEMORY;
    return t->n++;
}

static uint32_t find_row(void *ctx, const struct frame *f)
{
    struct rows *x = ctx;
    struct query_row r = row_of(f, x->by, &x->table->arena);

    if ((x->function.n && !str_eq(r.name, x->function)) || (x->file.n && !str_eq(r.file, x->file)))
        return TABLE_NO_ROW;
    return intern_row(x, &r);
}

static void forget_rows(void *ctx)
{
    struct rows *x = ctx;

    map_reset(&x->map);
    x->table->n = 0;
}

/* --- order --- */

struct order {
    enum query_sort sort;
    uint32_t last; /* the column that decides: in a diff, the new one */
    double scale[2];
    double per_second[2]; /* 1 / covered seconds; 1 where coverage is unknown */
};

static double weight(const struct query_row *r, const struct order *o)
{
    double delta;

    switch (o->sort) {
    case QUERY_SORT_SELF:
        return (double) r->self[o->last];
    case QUERY_SORT_TOTAL:
        return (double) r->total[o->last];
    case QUERY_SORT_DELTA:
        delta = (double) r->self[1] * o->per_second[1] - (double) r->self[0] * o->per_second[0];
        break;
    default:
        delta = (double) r->self[1] * o->scale[1] - (double) r->self[0] * o->scale[0];
    }
    return delta < 0 ? -delta : delta;
}

static int compare_rows(const void *a, const void *b, void *arg)
{
    const struct query_row *x = a, *y = b;
    double wx = weight(x, arg), wy = weight(y, arg);
    int r;

    if (wx != wy)
        return wx < wy ? 1 : -1;
    r = str_cmp(x->name, y->name);
    if (!r)
        r = str_cmp(x->file, y->file);
    return r ? r : (x->line > y->line) - (x->line < y->line);
}

static void sort_rows(struct query_table *t, enum query_sort sort, uint32_t limit)
{
    struct order o = {.sort = sort, .last = t->n_columns - 1};

    for (uint32_t c = 0; c < t->n_columns; c++)
        o.scale[c] = t->total[c] ? 1.0 / (double) t->total[c] : 0;
    for (uint32_t c = 0; c < t->n_columns; c++)
        o.per_second[c] = t->covered_ns[0] > 0 && t->covered_ns[t->n_columns - 1] > 0
                              ? (double) NS_PER_S / (double) t->covered_ns[c]
                              : 1;
    if (t->n)
        qsort_r(t->rows, t->n, sizeof *t->rows, compare_rows, &o);
    t->n_all = t->n;
    if (limit && t->n > limit)
        t->n = limit;
}

/* Where the sums by row come from: a tree, or a store. */
struct source {
    const struct tree *tree;
    struct store *store;
    const struct store_query *q;
    struct store_notes *notes;
    uint32_t n_columns;
};

static int make_table(struct rows *x, const struct source *from, struct query_table *ret, struct err *e)
{
    struct store_table t = {.row = find_row, .restart = forget_rows, .ctx = x};
    int r;

    *ret = (struct query_table){.n_columns = from->n_columns};
    arena_init(&ret->arena, 0);
    arena_init(&t.arena, 0);
    x->table = ret;
    r = from->tree ? store_table_add_tree(&t, from->tree)
                   : from->store->ops->table(from->store, from->q, &t, from->notes, e);
    for (uint32_t i = 0; r == 0 && i < ret->n; i++) {
        memcpy(ret->rows[i].self, t.rows[i].self, sizeof t.rows[i].self);
        memcpy(ret->rows[i].total, t.rows[i].total, sizeof t.rows[i].total);
    }
    memcpy(ret->total, t.sum, sizeof t.sum);
    ret->type = arena_str(&ret->arena, t.type);
    ret->unit = arena_str(&ret->arena, t.unit);
    store_table_done(&t);
    map_done(&x->map);
    if (r < 0)
        query_table_done(ret);
    return r;
}

int query_table_from_tree(const struct tree *t, enum query_by by, enum query_sort sort, uint32_t limit,
                          struct query_table *ret)
{
    struct rows x = {.by = by};
    int r = make_table(&x, &(struct source){.tree = t, .n_columns = t->n_columns}, ret, NULL);

    if (r == 0)
        sort_rows(ret, sort, limit);
    return r;
}

void query_table_done(struct query_table *t)
{
    arena_done(&t->arena);
    *t = (struct query_table){0};
}

/* --- questions --- */

/* Asks the store for sums by row, at the granularity that the table needs. */
static int ask_table(struct store *s, const struct query *q, enum granularity by, struct rows *x,
                     struct query_table *ret, struct store_notes *notes, struct err *e)
{
    struct store_query sq = q->q;
    int r;

    sq.by = by;
    sq.max_nodes = 0;
    sq.min_share = 0;
    r = make_table(x, &(struct source){.store = s, .q = &sq, .notes = notes, .n_columns = sq.n_columns}, ret, e);
    if (r < 0)
        return r;
    r = query_coverage(s, q, ret->covered_ns, e);
    if (r < 0)
        query_table_done(ret);
    return r;
}

int query_top(struct store *s, struct query *q, enum query_by by, enum query_sort sort, uint32_t limit,
              struct query_table *ret, struct store_notes *notes, struct err *e)
{
    static const enum granularity need[] = {
        [QUERY_FUNCTION] = BY_FILEFUNCTION,
        [QUERY_FILE] = BY_FILE,
        [QUERY_LINE] = BY_LINE,
        [QUERY_MAPPING] = BY_ADDRESS,
        [QUERY_PACKAGE] = BY_FILEFUNCTION,
    };
    struct rows x = {.by = by};
    int r;

    if (sort >= QUERY_SORT_DELTA && !q->is_diff)
        return err_set(e, -EINVAL,
                       "sort: delta and share compare two selections: give base_query, base_from or base_to");
    r = ask_table(s, q, need[by], &x, ret, notes, e);
    if (r == 0)
        sort_rows(ret, sort, limit);
    return r;
}

static int by_line(const void *a, const void *b)
{
    const struct query_row *x = a, *y = b;
    int r = str_cmp(x->file, y->file);

    if (!r)
        r = (x->line > y->line) - (x->line < y->line);
    return r ? r : str_cmp(x->name, y->name);
}

int query_lines(struct store *s, struct query *q, struct str function, struct str file, struct query_table *ret,
                struct store_notes *notes, struct err *e)
{
    struct rows x = {.by = QUERY_LINE, .function = function, .file = file};
    int r;

    if (!function.n && !file.n)
        return err_set(e, -EINVAL, "function or file: say which lines");
    r = ask_table(s, q, BY_LINE, &x, ret, notes, e);
    if (r < 0)
        return r;
    ret->n_all = ret->n;
    if (ret->n)
        qsort(ret->rows, ret->n, sizeof *ret->rows, by_line);
    return 0;
}
