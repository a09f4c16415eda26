/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of query.h: sums of a selection by function, file, line, mapping or package. The store adds up by row
 * (store_table.h); here the rows are put in order and cut.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/moved.h"
#include "query/query_names.h"

int query_rows_parse(struct str s, enum store_rows *ret, struct err *e)
{
    static const struct {
        const char *name;
        enum store_rows rows;
    } names[] = {{"", ROWS_FUNCTION}, {"function", ROWS_FUNCTION}, {"file", ROWS_FILE},
                 {"line", ROWS_LINE}, {"mapping", ROWS_MAPPING},   {"package", ROWS_PACKAGE}};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (str_is(s, names[i].name)) {
            *ret = names[i].rows;
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
    if (!r)
        r = (x->line > y->line) - (x->line < y->line);
    return r ? r : x->kind - y->kind;
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

/* --- questions --- */

void query_table_done(struct query_table *t)
{
    store_table_done(&t->sums);
    arena_done(&t->arena);
    *t = (struct query_table){0};
}

/* Copies the rows of the store's answer, which stays the owner of their strings. */
static int take_rows(struct query_table *t)
{
    t->rows = arena_alloc(&t->arena, t->sums.n_rows * sizeof *t->rows + 1);
    if (!t->rows)
        return -ENOMEM;
    for (; t->n < t->sums.n_rows; t->n++) {
        const struct table_row *from = &t->sums.rows[t->n];
        const struct table_key *key = &t->sums.keys[t->n];
        struct query_row *to = &t->rows[t->n];

        *to = (struct query_row){
            .name = key->name, .file = key->file, .line = key->line, .n_columns = t->n_columns, .kind = from->kind};
        memcpy(to->self, from->self, sizeof to->self);
        memcpy(to->total, from->total, sizeof to->total);
    }
    memcpy(t->total, t->sums.sum, sizeof t->total);
    t->type = t->sums.type;
    t->unit = t->sums.unit;
    return 0;
}

/* In a diff, the rows of a function of a script that moved, or of a file that moved, become one, with its place now. */
static int join_moved(struct query_table *t, enum store_rows rows)
{
    _cleanup_(mem_freep) struct moved *items = mem_zalloc_array(t->n + 1ul, sizeof *items);
    uint32_t n = 0, kept = 0;
    int r;

    if (!items)
        return -ENOMEM;
    for (uint32_t i = 0; i < t->n; i++) {
        const struct query_row *row = &t->rows[i];
        uint8_t sides = (uint8_t) ((row->total[0] || row->self[0] ? MOVED_BASE : 0) |
                                   (row->total[1] || row->self[1] ? MOVED_NEW : 0));

        if (!sides || (rows == ROWS_FUNCTION && t->sums.keys[i].scope != SCOPE_FILE))
            continue;
        items[n++] =
            rows == ROWS_FILE
                ? (struct moved){.file = row->name, .index = i, .sides = sides}
                : (struct moved){.name = row->name, .file = row->file, .index = i, .kind = row->kind, .sides = sides};
    }
    r = moved_match(items, n);
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        struct query_row *from = &t->rows[items[i].index], *to = &t->rows[items[i].into];

        if (from == to)
            continue;
        to->self[0] = from->self[0];
        to->total[0] = from->total[0];
        from->name.p = NULL;
    }
    for (uint32_t i = 0; i < t->n; i++)
        if (t->rows[i].name.p)
            t->rows[kept++] = t->rows[i];
    t->n = kept;
    return r;
}

static int ask_table(struct store *s, const struct query *q, const struct store_table_query *tq,
                     struct query_table *ret, struct err *e)
{
    int r;

    *ret = (struct query_table){.n_columns = q->q.n_columns};
    arena_init(&ret->arena, 0);
    r = named_table(&(struct named_store){s, q->names}, &q->q, tq, &ret->sums, e);
    if (r == 0)
        r = take_rows(ret);
    if (r == 0 && ret->n_columns == 2 && (tq->rows == ROWS_FUNCTION || tq->rows == ROWS_FILE))
        r = join_moved(ret, tq->rows);
    if (r == 0)
        r = query_coverage(s, q, ret->covered_ns, e);
    if (r < 0)
        query_table_done(ret);
    return r;
}

int query_top(struct store *s, struct query *q, const struct query_order *o, struct query_table *ret, struct err *e)
{
    int r;

    if (o->sort >= QUERY_SORT_DELTA && !q->is_diff)
        return err_set(e, -EINVAL, "sort: delta and share require a base: base_query, base_from or base_to");
    r = ask_table(s, q, &(struct store_table_query){.rows = o->rows}, ret, e);
    if (r == 0)
        sort_rows(ret, o->sort, o->limit);
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

int query_lines(struct store *s, struct query *q, const struct query_place *at, struct query_table *ret, struct err *e)
{
    struct store_table_query tq = {.rows = ROWS_LINE, .function = at->function, .file = at->file};
    int r;

    if (!at->function.n && !at->file.n)
        return err_set(e, -EINVAL, "function or file is required");
    r = ask_table(s, q, &tq, ret, e);
    if (r < 0)
        return r;
    ret->n_all = ret->n;
    if (ret->n)
        qsort(ret->rows, ret->n, sizeof *ret->rows, by_line);
    return 0;
}
