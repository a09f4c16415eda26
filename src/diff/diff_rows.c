/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up the functions of both sides of `wick diff` and tests them (diff_rows.h). */
#include "diff/diff_rows.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"

enum { ROWS_LIMIT = 1 << 20 };

struct diffing {
    const struct diff_input *in;
    struct diff_rows *out;
    struct map by_name;
    size_t cap;
    uint32_t n_cells;
    struct drift_cell *cells;
    double **values; /* per row, per cell */
    size_t cap_values;
};

static uint32_t intern(struct diffing *x, const struct frame *f)
{
    struct str name = f->function.n ? f->function : f->file.n ? f->file : f->mapping.n ? f->mapping : STR("[unknown]");
    uint64_t h = hash64_str(name);
    struct diff_rows *r = x->out;

    for (struct map_pos p = map_find(&x->by_name, h); p.index != MAP_NONE; p = map_next(&x->by_name, p))
        if (str_eq(r->v[p.index].function, name))
            return p.index;
    if (array_reserve(r->v, x->cap, (size_t) r->n + 1, ROWS_LIMIT) < 0 ||
        array_reserve(x->values, x->cap_values, (size_t) r->n + 1, ROWS_LIMIT) < 0 ||
        map_insert(&x->by_name, h, r->n) < 0)
        return UINT32_MAX;
    x->values[r->n] = arena_zalloc_array(&r->arena, x->n_cells + 1, sizeof **x->values);
    r->v[r->n] = (struct diff_row){.function = name};
    return x->values[r->n] ? r->n++ : UINT32_MAX;
}

static int add_tree(struct diffing *x, const struct tree *t, uint32_t cell)
{
    _cleanup_(mem_freep) uint32_t *rows = mem_zalloc_array(t->n_nodes + 1, sizeof *rows);
    _cleanup_(mem_freep) uint32_t *of_frame = mem_zalloc_array(t->n_frames + 1, sizeof *of_frame);
    int side = (int) x->cells[cell].side;

    if (!rows || !of_frame)
        return -ENOMEM;
    for (uint32_t i = 1; i < t->n_frames; i++) {
        of_frame[i] = intern(x, &t->frames[i]);
        if (of_frame[i] == UINT32_MAX)
            return -ENOMEM;
    }
    for (uint32_t i = 1; i < t->n_nodes; i++) {
        uint32_t row = rows[i] = of_frame[t->frame[i]], p = t->parent[i];

        x->out->v[row].self[side] += (double) t->self[0][i] / (double) t->total[0][0] / x->in->sides[side].n;
        while (p && rows[p] != row)
            p = t->parent[p];
        if (!p) /* recursion counts once */
            x->values[row][cell] += (double) t->total[0][i];
    }
    return 0;
}

static int largest_first(const void *a, const void *b)
{
    const struct diff_row *x = a, *y = b;

    if (fabs(x->total.points) != fabs(y->total.points))
        return fabs(x->total.points) < fabs(y->total.points) ? 1 : -1;
    return str_cmp(x->function, y->function);
}

/* Profiles are windows with gaps between them: without serial correlation. All of a side weigh the same. */
static int list_cells(struct diffing *x)
{
    x->cells = arena_zalloc_array(&x->out->arena, x->in->sides[0].n + x->in->sides[1].n + 1, sizeof *x->cells);
    if (!x->cells)
        return -ENOMEM;
    for (uint32_t s = 0; s < 2; s++)
        for (uint32_t i = 0; i < x->in->sides[s].n; i++)
            x->cells[x->n_cells++] = (struct drift_cell){s, 3 * i, 0, (double) x->in->sides[s].v[i].tree->total[0][0]};
    return 0;
}

static int test_rows(struct diffing *x)
{
    struct diff_rows *r = x->out;
    struct drift_test *tests = arena_zalloc_array(&r->arena, r->n + 1u, sizeof *tests);
    struct drift_data d = {.cells = x->cells,
                           .n_cells = x->n_cells,
                           .n_instances = 1,
                           .width = {1, 1},
                           .min_points = DRIFT_MIN_POINTS,
                           .alpha = DRIFT_ALPHA};
    struct drift_summary sum;
    int k = tests ? drift_run(&d, (const double *const *) x->values, r->n, tests, &sum) : -ENOMEM;

    for (uint32_t i = 0; k == 0 && i < r->n; i++)
        r->v[i].total = tests[i];
    r->tested = k == 0 && sum.tested;
    if (k == 0 && r->n)
        qsort(r->v, r->n, sizeof *r->v, largest_first);
    return k;
}

int diff_rows(const struct diff_input *in, struct diff_rows *ret)
{
    struct diffing x = {.in = in, .out = ret};
    int r;

    *ret = (struct diff_rows){0};
    arena_init(&ret->arena, 0);
    r = list_cells(&x);
    for (uint32_t c = 0, s = 0, i = 0; r == 0 && c < x.n_cells; c++, i++) {
        if (s != x.cells[c].side) {
            s = x.cells[c].side;
            i = 0;
        }
        r = add_tree(&x, in->sides[s].v[i].tree, c);
    }
    if (r == 0)
        r = test_rows(&x);
    map_done(&x.by_name);
    mem_free(x.values);
    if (r < 0)
        diff_rows_done(ret);
    return r;
}

void diff_rows_done(struct diff_rows *r)
{
    mem_free(r->v);
    arena_done(&r->arena);
    *r = (struct diff_rows){0};
}
