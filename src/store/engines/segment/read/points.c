/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes values over time; see engine.h. The sum of a directory entry that lies in one step is taken from the
 * directory; an entry that crosses a step is read profile by profile; with a matcher on detail, or a group by an attribute
 * that is not a label, row by row. For a query with a function, the totals of the nodes whose stacks contain it are used
 * instead of the sum in the directory.
 *
 * A gauge is averaged over the snapshots of an instance in a step. Rows of one snapshot may belong to several groups, and
 * a group may be missing in a snapshot, so the snapshots are counted in a cell of their own (SNAPSHOTS) when rows are
 * grouped.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "store/engines/segment/read/scan.h"
#include "store/engines/segment/read/view.h"

enum { SNAPSHOTS = UINT32_MAX };

/* The row of the answer for rows of this series with these attributes. */
struct point_group {
    uint64_t blobs; /* serial */
    uint32_t series, header, set, row;
};

/* The snapshots of a gauge for one instance in one step. */
struct cell {
    uint32_t row, point;
    struct id128 instance;
    double sum;
    uint64_t count;
};

struct pointing {
    struct scan scan;
    const struct store_query *q;
    const struct store_series_query *sq;
    struct store_points p;
    size_t cap_values;
    size_t cap_labels;
    struct map rows; /* labels' hash -> row */
    bool by_rows;    /* some of `by` are not labels of every selected series */
    struct point_group *groups;
    size_t cap_groups;
    uint32_t n_groups;
    struct map group_map;
    struct buf texts[STORE_BY_MAX];
    double *group_sums; /* per row of the answer, of the current profile */
    size_t cap_sums;
    uint32_t n_sums;
    struct cell *cells;
    size_t cap_cells;
    uint32_t n_cells;
    struct map cell_map;
    /* which nodes contain the function, for the last service */
    const struct symbols *marked;
    uint32_t marked_service, n_marks;
    uint8_t *marks;
    size_t cap_marks;
};

static bool over_limit(const struct pointing *x, size_t bytes)
{
    return x->q->memory_limit && bytes > x->q->memory_limit;
}

static int add_row(struct pointing *x, const struct labels *by, uint64_t h, uint32_t *ret)
{
    struct store_points *p = &x->p;

    if (store_points_fit(x->q, p, (size_t) p->n_series + 1) < 0)
        return -E2BIG;
    if (array_reserve(p->values, x->cap_values, (size_t) (p->n_series + 1) * p->n_points + 1, (size_t) 1 << 28) < 0 ||
        array_reserve(p->labels, x->cap_labels, (size_t) p->n_series + 1, 1 << 20) < 0 ||
        map_insert(&x->rows, h, p->n_series) < 0)
        return -ENOMEM;
    memset(p->values + (size_t) p->n_series * p->n_points, 0, p->n_points * sizeof *p->values);
    p->labels[p->n_series] = *by;
    *ret = p->n_series++;
    return 0;
}

/* The row of these values of the `by` labels, added if new. */
static int find_row_of(struct pointing *x, const struct str *values, uint32_t *ret)
{
    const struct store_series_query *sq = x->sq;
    struct labels by;
    uint64_t h = 1;
    struct map_pos pos;

    for (uint32_t i = 0; i < sq->n_by; i++)
        h = hash_mix(h ^ hash64_str(values[i]), 0x9e3779b97f4a7c15ull);
    for (pos = map_find(&x->rows, h); pos.index != MAP_NONE; pos = map_next(&x->rows, pos)) {
        bool same = true;

        for (uint32_t i = 0; same && i < sq->n_by; i++)
            same = str_eq(x->p.labels[pos.index].v[i].value, values[i]);
        if (same) {
            *ret = pos.index;
            return 0;
        }
    }
    by = (struct labels){.v = arena_zalloc_array(&x->p.arena, sq->n_by + 1, sizeof *by.v)};
    if (!by.v)
        return -ENOMEM;
    for (; by.n < sq->n_by; by.n++)
        by.v[by.n] = (struct label){arena_str(&x->p.arena, sq->by[by.n]), arena_str(&x->p.arena, values[by.n])};
    return add_row(x, &by, h, ret);
}

static int find_row(struct pointing *x, const struct sym_series *s, uint32_t *ret)
{
    struct str values[STORE_BY_MAX];

    for (uint32_t i = 0; i < x->sq->n_by; i++)
        values[i] = labels_get(&s->labels, x->sq->by[i]);
    return find_row_of(x, values, ret);
}

/* The same for a row with that set of attributes. */
static int find_group(struct pointing *x, const struct scan_prof *p, uint32_t set, uint32_t *ret)
{
    struct point_group g = {p->blobs->serial, p->p->series, p->p->header, set, 0};
    uint64_t h = hash_mix(g.blobs ^ (uint64_t) g.series << 32, (uint64_t) g.header << 32 | (set + 1));
    struct str values[STORE_BY_MAX];
    int r;

    for (struct map_pos pos = map_find(&x->group_map, h); pos.index != MAP_NONE; pos = map_next(&x->group_map, pos)) {
        const struct point_group *k = &x->groups[pos.index];

        if (k->blobs == g.blobs && k->series == g.series && k->header == g.header && k->set == set) {
            *ret = k->row;
            return 0;
        }
    }
    for (uint32_t i = 0; i < x->sq->n_by; i++) {
        struct str name = x->sq->by[i];

        buf_reset(&x->texts[i]);
        buf_put_str(&x->texts[i], labels_get(&p->series->labels, name));
        if (!x->texts[i].n && !match_is_label(x->scan.g->limits.allow, name))
            scan_attribute(p, set, name, &x->texts[i]);
        if (buf_error(&x->texts[i]))
            return buf_error(&x->texts[i]);
        values[i] = buf_str(&x->texts[i]);
    }
    r = find_row_of(x, values, &g.row);
    if (r == 0 && over_limit(x, (size_t) (x->n_groups + 1) * sizeof g))
        r = -E2BIG;
    if (r == 0)
        r = array_reserve(x->groups, x->cap_groups, (size_t) x->n_groups + 1, 1 << 26);
    if (r == 0)
        r = map_insert(&x->group_map, h, x->n_groups);
    if (r == 0) {
        x->groups[x->n_groups++] = g;
        *ret = g.row;
    }
    return r;
}

static uint64_t cell_hash(uint32_t row, uint32_t point, struct id128 instance)
{
    return hash_mix(instance.lo ^ row, 0x9e3779b97f4a7c15ull ^ point);
}

static int add_cell(struct pointing *x, uint32_t row, uint32_t point, struct id128 instance, double v, uint64_t count)
{
    uint64_t h = cell_hash(row, point, instance);

    for (struct map_pos p = map_find(&x->cell_map, h); p.index != MAP_NONE; p = map_next(&x->cell_map, p)) {
        struct cell *c = &x->cells[p.index];

        if (c->row == row && c->point == point && id128_eq(c->instance, instance)) {
            c->sum += v;
            c->count += count;
            return 0;
        }
    }
    if (over_limit(x, (size_t) (x->n_cells + 1) * sizeof *x->cells))
        return -E2BIG;
    if (array_reserve(x->cells, x->cap_cells, (size_t) x->n_cells + 1, 1 << 26) < 0 ||
        map_insert(&x->cell_map, h, x->n_cells) < 0)
        return -ENOMEM;
    x->cells[x->n_cells++] = (struct cell){row, point, instance, v, count};
    return 0;
}

/* The step that an instant belongs to; the caller has checked the range. */
static uint32_t step_of(const struct pointing *x, int64_t t)
{
    return (uint32_t) ((t - x->p.from) / x->p.step);
}

static int add_value(struct pointing *x, const struct sym_series *s, int64_t time, struct id128 instance, double v,
                     uint64_t count)
{
    uint32_t row, point = step_of(x, time);
    int r = find_row(x, s, &row);

    if (r < 0 || point >= x->p.n_points)
        return r;
    if (s->type.rule == TYPE_GAUGE)
        return add_cell(x, row, point, instance, v, count);
    x->p.values[(size_t) row * x->p.n_points + point] += v;
    return 0;
}

static int mark(struct pointing *x, struct symbols *s, uint32_t service)
{
    uint32_t n = pinned_count(&sym_service(s, service)->nodes);

    if (x->marked == s && x->marked_service == service && x->n_marks >= n)
        return 0;
    if (array_reserve(x->marks, x->cap_marks, n + 1, UINT32_MAX) < 0)
        return -ENOMEM;
    x->marked = s;
    x->marked_service = service;
    x->n_marks = n;
    return view_mark_function(s, sym_service(s, service), x->sq->function, x->marks, n);
}

static int add_prof_rows(void *ctx, const struct scan_prof *p)
{
    struct pointing *x = ctx;
    bool look = x->scan.needs_detail[0], any = !look || p->series->type.rule == TYPE_GAUGE;
    double v = 0;
    int r = x->sq->function.n ? mark(x, p->symbols, p->series->service) : 0;

    if (r < 0)
        return r;
    x->scan.notes->profiles++;
    for (uint32_t i = 0; i < p->p->n_rows; i++) {
        const struct row *row = &p->p->rows[i];

        if (look && !scan_row(&x->scan, p, row))
            continue;
        any = true;
        if (x->sq->function.n && (row->node >= x->n_marks || !x->marks[row->node]))
            continue;
        v += (double) row->value;
    }
    if (!any) /* a snapshot counts even if nothing of it is selected */
        return 0;
    return add_value(x, p->series, p->p->time_ns, p->p->instance, v, 1);
}

/* Adds the sums of a profile's groups at its time, and clears them. */
static int add_groups(struct pointing *x, const struct scan_prof *p)
{
    uint32_t point = step_of(x, p->p->time_ns);
    bool gauge = p->series->type.rule == TYPE_GAUGE;
    int r = gauge && point < x->p.n_points ? add_cell(x, SNAPSHOTS, point, p->p->instance, 0, 1) : 0;

    for (uint32_t row = 0; r == 0 && row < x->n_sums; row++) {
        double v = x->group_sums[row];

        x->group_sums[row] = 0;
        if (v == 0 || point >= x->p.n_points)
            continue;
        if (gauge)
            r = add_cell(x, row, point, p->p->instance, v, 0);
        else
            x->p.values[(size_t) row * x->p.n_points + point] += v;
    }
    return r;
}

static int add_prof_groups(void *ctx, const struct scan_prof *p)
{
    struct pointing *x = ctx;
    bool look = x->scan.needs_detail[0];
    uint32_t last_set = UINT32_MAX, row = 0;
    int r = x->sq->function.n ? mark(x, p->symbols, p->series->service) : 0;

    x->scan.notes->profiles++;
    for (uint32_t i = 0; r == 0 && i < p->p->n_rows; i++) {
        const struct row *v = &p->p->rows[i];
        uint32_t set = v->extra ? p->p->extras[v->extra - 1].attrs : 0;

        if (look && !scan_row(&x->scan, p, v))
            continue;
        if (x->sq->function.n && (v->node >= x->n_marks || !x->marks[v->node]))
            continue;
        if (set != last_set)
            r = find_group(x, p, set, &row);
        last_set = set;
        if (r == 0 && row >= x->n_sums) {
            r = array_reserve(x->group_sums, x->cap_sums, (size_t) row + 1, 1 << 20);
            while (r == 0 && x->n_sums <= row)
                x->group_sums[x->n_sums++] = 0;
        }
        if (r == 0)
            x->group_sums[row] += (double) v->value;
    }
    return r < 0 ? r : add_groups(x, p);
}

static int add_prof_value(void *ctx, const struct scan_prof *p)
{
    struct pointing *x = ctx;

    x->scan.notes->profiles++;
    return add_value(x, p->series, p->p->time_ns, p->p->instance, (double) p->p->value, 1);
}

/* --- from directories --- */

static bool is_meant(const struct pointing *x, const struct scan_symbols *sym, const struct segment *s,
                     const struct chunk_entry *e)
{
    return e->series < sym->n_series && sym->bits[e->series] && scan_hidden(&x->scan, sym, s, e, 0) != HIDDEN_ALL;
}

static int add_entry(struct pointing *x, const struct scan_symbols *sym, const struct dir_entry *d, int64_t sum)
{
    x->scan.notes->profiles += d->e.n_profs;
    return add_value(x, sym_series(sym->symbols, d->e.series), d->e.min_time, d->e.instance, (double) sum,
                     d->e.n_profs);
}

/* Adds the entries of one chunk as far as their stacks contain the function. */
static int add_function(struct pointing *x, const struct scan_symbols *sym, struct segment *s,
                        const struct dir_entry *d, uint32_t n)
{
    const struct store_column *c = &x->scan.q->columns[0];
    struct chunk chunk;
    int r = segment_totals(s, d->off, d->head, &chunk, x->scan.e);

    if (r < 0)
        return scan_damage(&x->scan, r, err_message(x->scan.e, r));
    r = mark(x, sym->symbols, d->e.service);
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        int64_t sum = 0;

        if (!is_meant(x, sym, s, &d[i].e) || d[i].e.min_time < c->from || d[i].e.min_time >= c->to)
            continue;
        r = chunk_sum_totals(&chunk, d[i].e.totals_off, x->marks, x->n_marks, &sum);
        if (r == 0)
            r = add_entry(x, sym, &d[i], sum);
    }
    chunk_done(&chunk);
    return r == -EBADMSG ? scan_damage(&x->scan, r, "a chunk's totals are damaged") : r;
}

/* Adds the entries of one chunk: all of them by their sums or, when one crosses a step or an end of the range, all by
 * their profiles. */
static int add_chunk(struct pointing *x, const struct scan_symbols *sym, struct segment *s, const struct dir_entry *d,
                     uint32_t n)
{
    const struct store_column *c = &x->scan.q->columns[0];
    bool fits = true;
    int r = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct chunk_entry *e = &d[i].e;

        if (is_meant(x, sym, s, e) && e->max_time >= c->from && e->min_time < c->to)
            fits &= e->min_time >= c->from && e->max_time < c->to &&
                    step_of(x, e->min_time) == step_of(x, e->max_time) &&
                    scan_hidden(&x->scan, sym, s, e, 0) == HIDDEN_NONE;
    }
    if (!fits && s->meta.has_detail)
        return scan_chunk(&x->scan, sym, &(struct scan_part){s, d->off, d->len, d->e.service, x->sq->function.n},
                          x->sq->function.n ? add_prof_rows : add_prof_value, x);
    x->scan.notes->coarse |= !fits;
    if (x->sq->function.n)
        return add_function(x, sym, s, d, n);
    for (uint32_t i = 0; r == 0 && i < n; i++)
        if (is_meant(x, sym, s, &d[i].e) && d[i].e.min_time >= c->from && d[i].e.min_time < c->to)
            r = add_entry(x, sym, &d[i], d[i].e.sum);
    return r;
}

/* Uses the sums of the highest level at which every entry lies in one step; otherwise the five-minute windows. */
static int add_group(struct pointing *x, const struct scan_symbols *sym, struct segment *s,
                     const struct segment_group *g)
{
    const struct store_column *c = &x->scan.q->columns[0];
    int top = x->scan.n_tombstones                       ? 0 /* sums of longer times include deleted data */
              : g->dirs[2].len && x->p.step >= WINDOW_1D ? 2
              : g->dirs[1].len && x->p.step >= WINDOW_1H ? 1
                                                         : 0;
    struct directory dir;
    struct arena a;
    int r;

    arena_init(&a, 0);
    r = segment_directory(s, g, top, &a, &dir, x->scan.e);
    if (r == 0 && top) { /* all or nothing: the sums of a level are used only when every entry fits */
        bool fits = true;

        for (uint32_t i = 0; fits && i < dir.n; i++) {
            const struct chunk_entry *e = &dir.v[i].e;

            fits =
                e->series == SERIES_ALL || e->max_time < c->from || e->min_time >= c->to ||
                (e->min_time >= c->from && e->max_time < c->to && step_of(x, e->min_time) == step_of(x, e->max_time));
        }
        if (!fits)
            r = segment_directory(s, g, 0, &a, &dir, x->scan.e);
    }
    if (r < 0)
        r = scan_damage(&x->scan, r, err_message(x->scan.e, r));
    if (r == 0 && top && !dir.n) { /* damaged: perhaps the data that they sum is not */
        r = segment_directory(s, g, 0, &a, &dir, x->scan.e);
        if (r < 0)
            r = scan_damage(&x->scan, r, err_message(x->scan.e, r));
    }
    if (r == 0 && x->sq->function.n) /* else the sums are in the directory, except where a step begins within a chunk */
        r = scan_expect(&x->scan, &(struct scan_expect){s, sym, &dir, false});
    for (uint32_t i = 0, j; r == 0 && i < dir.n; i = j) {
        for (j = i + 1; j < dir.n && dir.v[j].off == dir.v[i].off;)
            j++;
        r = add_chunk(x, sym, s, dir.v + i, j - i);
    }
    arena_done(&a);
    return r;
}

static int add_segment(struct pointing *x, const struct scan_symbols *sym, struct segment *s)
{
    _cleanup_(segment_releasep) _unused_ struct segment *used = segment_use(s);
    const struct segment_footer *f;
    int r = segment_footer(s, &f, x->scan.e);

    if (r < 0)
        return scan_damage(&x->scan, r, err_message(x->scan.e, r));
    for (uint32_t k = 0; r == 0 && k < f->n_groups; k++)
        if (f->groups[k].service < sym->n_services && sym->services[f->groups[k].service])
            r = scan_cancelled(&x->scan) ? -ECANCELED : add_group(x, sym, s, &f->groups[k]);
    return r;
}

static int add_segments(struct pointing *x)
{
    const struct store_column *c = &x->scan.q->columns[0];
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < x->scan.snap->n_segments; i++) {
        struct segment *s = x->scan.snap->segments[i].segment;
        const struct scan_symbols *sym = scan_find_symbols(&x->scan, x->scan.snap->segments[i].symbols);

        if (sym && s->meta.t1 >= c->from && s->meta.t0 < c->to)
            r = add_segment(x, sym, s);
    }
    return r;
}

static uint64_t count_of(const struct pointing *x, const struct cell *c)
{
    uint64_t h = cell_hash(SNAPSHOTS, c->point, c->instance);

    for (struct map_pos p = map_find(&x->cell_map, h); x->by_rows && p.index != MAP_NONE;
         p = map_next(&x->cell_map, p)) {
        const struct cell *k = &x->cells[p.index];

        if (k->row == SNAPSHOTS && k->point == c->point && id128_eq(k->instance, c->instance))
            return k->count;
    }
    return c->count;
}

static void fold_cells(struct pointing *x)
{
    for (uint32_t i = 0; i < x->n_cells; i++) {
        const struct cell *c = &x->cells[i];
        uint64_t count = c->row == SNAPSHOTS ? 0 : count_of(x, c);

        if (count)
            x->p.values[(size_t) c->row * x->p.n_points + c->point] += c->sum / (double) count;
    }
}

static void pointing_done(struct pointing *x)
{
    map_done(&x->rows);
    map_done(&x->cell_map);
    map_done(&x->group_map);
    mem_free(x->groups);
    mem_free(x->group_sums);
    for (uint32_t i = 0; i < STORE_BY_MAX; i++)
        buf_done(&x->texts[i]);
    mem_free(x->cells);
    mem_free(x->marks);
    scan_done(&x->scan);
}

int engine_series(struct store *s, const struct store_query *q, const struct store_series_query *sq,
                  struct store_points *ret, struct err *e)
{
    _cleanup_(pointing_done) struct pointing x = {.q = q, .sq = sq};
    struct err own = {0};
    struct labels *labels;
    int r;

    e = e ? e : &own;
    r = store_points_init(q, sq, &x.p, e);
    if (r < 0)
        return r;
    r = scan_init(&x.scan, to_engine(s), q, true, e);
    x.p.type = x.scan.match[0].type;
    for (uint32_t i = 0; i < sq->n_by; i++)
        x.by_rows |= !scan_all_have(&x.scan, sq->by[i]);
    if (r == 0 && x.scan.tenant) {
        if (x.scan.needs_detail[0] || x.by_rows) {
            r = scan_profs(&x.scan, true, x.by_rows ? add_prof_groups : add_prof_rows, &x);
        } else {
            r = scan_memtables(&x.scan, sq->function.n ? add_prof_rows : add_prof_value, &x);
            if (r == 0)
                r = add_segments(&x);
        }
    }
    if (r == 0) {
        fold_cells(&x);
        labels = arena_zalloc_array(&x.p.arena, x.p.n_series + 1, sizeof *labels);
        if (labels && x.p.n_series)
            memcpy(labels, x.p.labels, x.p.n_series * sizeof *labels);
        mem_free(x.p.labels);
        x.p.labels = labels;
        r = labels ? 0 : -ENOMEM;
    } else {
        mem_free(x.p.labels);
    }
    if (r == -E2BIG)
        store_points_refuse(&x.p, e);
    if (r < 0) {
        store_points_done(&x.p);
        return r == -ECANCELED ? err_set(e, r, "cancelled") : r;
    }
    *ret = x.p;
    return 0;
}
