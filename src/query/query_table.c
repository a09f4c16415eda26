/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of query.h: a tree summed up by function, file, line, mapping or package.
 *
 * Rows are interned by what they are called; a frame's row is looked up once. Totals count a row once per path: a node
 * adds its total to its row only when no ancestor belongs to the same row.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/map.h"
#include "query/query.h"

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

/* What a frame is called in this table. Names of frames without one: binary+0xaddress. */
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
        r.name = query_package(f);
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
            return TREE_NONE;
        if (t->n)
            memcpy(more, t->rows, t->n * sizeof *more);
        t->rows = more;
        x->cap = cap;
    }
    t->rows[t->n] = *r;
    t->rows[t->n].name = arena_str(&t->arena, r->name);
    t->rows[t->n].file = arena_str(&t->arena, r->file);
    if (map_insert(&x->map, h, t->n) < 0)
        return TREE_NONE;
    return t->n++;
}

/* Row of each frame; folded parts have none, they are in the table's total alone. */
static int rows_of_frames(struct rows *x, const struct tree *t, enum query_by by, uint32_t *row_of_frame)
{
    row_of_frame[TREE_FOLDED] = TREE_NONE;
    for (uint32_t i = 1; i < t->n_frames; i++) {
        struct query_row r = row_of(&t->frames[i], by, &x->table->arena);

        row_of_frame[i] = intern_row(x, &r);
        if (row_of_frame[i] == TREE_NONE)
            return -ENOMEM;
    }
    return 0;
}

static bool on_path(const struct tree *t, const uint32_t *row_of_frame, uint32_t node, uint32_t row)
{
    for (uint32_t p = t->parent[node]; p != 0 && p != TREE_NONE; p = t->parent[p])
        if (row_of_frame[t->frame[p]] == row)
            return true;
    return false;
}

static void add_nodes(struct query_table *x, const struct tree *t, const uint32_t *row_of_frame)
{
    for (uint32_t i = 1; i < t->n_nodes; i++) {
        uint32_t row = row_of_frame[t->frame[i]];
        bool again;

        if (row == TREE_NONE)
            continue;
        again = on_path(t, row_of_frame, i, row);
        for (uint32_t c = 0; c < t->n_columns; c++) {
            x->rows[row].self[c] += t->self[c][i];
            if (!again)
                x->rows[row].total[c] += t->total[c][i];
        }
    }
}

/* --- order --- */

struct order {
    enum query_sort sort;
    uint32_t last; /* the column that decides: the new one of a diff */
    double scale[2];
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
        delta = (double) r->self[1] - (double) r->self[0];
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
    if (t->n)
        qsort_r(t->rows, t->n, sizeof *t->rows, compare_rows, &o);
    t->n_all = t->n;
    if (limit && t->n > limit)
        t->n = limit;
}

int query_table_from_tree(const struct tree *t, enum query_by by, enum query_sort sort, uint32_t limit,
                          struct query_table *ret)
{
    struct rows x = {.table = ret};
    uint32_t *row_of_frame;
    int r = -ENOMEM;

    *ret = (struct query_table){.n_columns = t->n_columns};
    arena_init(&ret->arena, 0);
    ret->type = arena_str(&ret->arena, t->type);
    ret->unit = arena_str(&ret->arena, t->unit);
    for (uint32_t c = 0; c < t->n_columns; c++)
        ret->total[c] = t->total[c][0];
    row_of_frame = arena_zalloc_array(&ret->arena, t->n_frames, sizeof *row_of_frame);
    if (row_of_frame)
        r = rows_of_frames(&x, t, by, row_of_frame);
    map_done(&x.map);
    if (r < 0) {
        query_table_done(ret);
        return r;
    }
    add_nodes(ret, t, row_of_frame);
    sort_rows(ret, sort, limit);
    return 0;
}

void query_table_done(struct query_table *t)
{
    arena_done(&t->arena);
    *t = (struct query_table){0};
}

/* --- questions --- */

/* A whole tree, as fine as a table needs it. */
static int whole_tree(struct store *s, const struct query *q, enum granularity by, struct tree **ret,
                      struct store_notes *notes, struct err *e)
{
    struct store_query sq = q->q;

    sq.by = by;
    sq.max_nodes = 0;
    sq.min_share = 0;
    return s->ops->select(s, &sq, ret, notes, e);
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
    _cleanup_(tree_freep) struct tree *t = NULL;
    int r;

    if (sort >= QUERY_SORT_DELTA && !q->is_diff)
        return err_set(e, -EINVAL,
                       "sort: delta and share compare two selections: give base_query, base_from or base_to");
    r = whole_tree(s, q, need[by], &t, notes, e);
    if (r == 0)
        r = query_table_from_tree(t, by, sort, limit, ret);
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
    _cleanup_(tree_freep) struct tree *t = NULL;
    uint32_t kept = 0;
    int r;

    if (!function.n && !file.n)
        return err_set(e, -EINVAL, "function or file: say which lines");
    r = whole_tree(s, q, BY_LINE, &t, notes, e);
    if (r == 0)
        r = query_table_from_tree(t, QUERY_LINE, QUERY_SORT_SELF, 0, ret);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < ret->n; i++)
        if ((!function.n || str_eq(ret->rows[i].name, function)) && (!file.n || str_eq(ret->rows[i].file, file)))
            ret->rows[kept++] = ret->rows[i];
    ret->n = ret->n_all = kept;
    if (kept)
        qsort(ret->rows, kept, sizeof *ret->rows, by_line);
    return 0;
}
