/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_drift() of drift.h: reads both sides as cells, adds up the values of each function in each cell, and lets
 * drift_stats.c test them.
 *
 * Windows are a minute long for ranges from ten minutes to an hour, shorter for shorter ranges, longer for longer ones.
 * Up to two hours, an instance is a resource. Beyond that, windows start at multiples of five minutes, where the store
 * has sums per series, and an instance is a series; the edges of the range are cut to these multiples.
 */
#include "query/drift.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "query/drift_traffic.h"
#include "query/query_names.h"
#include "store/store_cube.h"

enum { WINDOWS_NOW = 48, WINDOWS_BASE = 96, ROWS_MAX = 2000, ROWS_DEFAULT = 100, NO_ROW = UINT32_MAX };
static const int64_t DETAIL_MAX = 7200 * NS_PER_S, WIDTH_MIN = 10 * NS_PER_S, WIDTH_USUAL = 60 * NS_PER_S,
                     SUMS_NS = 300 * NS_PER_S;

#define TRAFFIC_FACTOR 1.5
#define COST_SHARE_MIN 0.005
#define COST_WEIGHT_MAX 0.1
#define COST_AGREES 0.05
#define COST_MAJORITY 0.6
#define COST_MOST 1000.0 /* the largest factor */

/* A function, by its name; a row also exists for everything without a name. */
struct drift_name {
    struct str name;
    bool nameless;
    double sum[2];  /* over all cells of a side */
    double self[2]; /* the same of self values, whatever is asked for */
    bool unchanged; /* costs what it did: its share changed by the factor by which most shares did */
    uint32_t column;
};

struct drifting {
    const struct drift_ask *ask;
    struct store_cube cubes[2];
    struct arena arena;
    struct drift_name *names;
    size_t n_names, cap_names;
    struct map name_map;
    uint32_t *row[2];      /* per node: its row if no caller has the same one, else NO_ROW */
    uint32_t *self_row[2]; /* per node: its row */
    /* cells of both sides */
    struct drift_cell *cells;
    const struct cube_cell **sources;
    uint32_t n_cells;
    struct cube_instance *instances;
    uint32_t n_instances;
    /* tested functions */
    uint32_t *columns; /* rows */
    double **values;   /* per column, per cell */
    uint32_t n_columns;
    double *nameless;    /* per cell: value of stacks with a frame without a name */
    double points_named; /* points by which these stacks shrank: > 0 if symbols arrived */
};

/* --- windows --- */

struct drift_range {
    int64_t from, to, width;
};

static int64_t round_up(int64_t v, int64_t step)
{
    return (v + step - 1) / step * step;
}

static struct drift_range choose(const struct store_column *c, int64_t width, int64_t most)
{
    struct drift_range r = {c->from, c->to, width};
    int64_t length = c->to - c->from;

    if (length > DETAIL_MAX) {
        r.from = round_up(r.from, SUMS_NS);
        r.to = r.to / SUMS_NS * SUMS_NS;
        length = r.to - r.from;
        r.width = round_up(MAX(width, length / most), SUMS_NS);
        r.from = round_up(r.from, r.width < 3600 * NS_PER_S ? SUMS_NS : 3600 * NS_PER_S);
    } else if (length / width > most) {
        r.width = round_up(length / most, NS_PER_S);
    }
    return r;
}

static int read_side(struct drifting *x, struct store *s, const struct query *q, int side,
                     const struct drift_range *range, struct err *e)
{
    struct store_query sq = q->q;
    const struct store_column *c = q->q.columns;
    bool by_resource = MAX(c[0].to - c[0].from, c[1].to - c[1].from) <= DETAIL_MAX;

    sq.columns[0] = (struct store_column){c[side].selector, range->from, range->to};
    sq.n_columns = 1;
    sq.by = BY_FUNCTION;
    return named_cube(&(struct named_store){s, q->names}, &sq, &(struct store_cube_query){range->width, by_resource},
                      &x->cubes[side], e);
}

static int read_sides(struct drifting *x, struct store *s, const struct query *q, struct err *e)
{
    const struct store_column *c = q->q.columns;
    int64_t shorter = MIN(c[0].to - c[0].from, c[1].to - c[1].from);
    int64_t width = MIN(MAX(round_up(shorter / 10, NS_PER_S), WIDTH_MIN), WIDTH_USUAL);
    struct drift_range now = choose(&c[1], width, WINDOWS_NOW), base = choose(&c[0], now.width, WINDOWS_BASE);
    int r = read_side(x, s, q, 0, &base, e);

    if (r == 0)
        r = read_side(x, s, q, 1, &now, e);
    for (int i = 0; r == 0 && i < 2; i++)
        if (!x->cubes[i].n_cells)
            r = err_set(e, -ENODATA, "%s has no data", i ? "the time range" : "the baseline");
    return r;
}

/* --- functions --- */

static uint32_t intern(struct drifting *x, const struct frame *f)
{
    struct drift_name n = {.name = f->function.n ? f->function : f->file, .column = NO_ROW};
    uint64_t h;

    if (!n.name.n) {
        n.nameless = true;
        n.name = f->mapping.n ? f->mapping : STR("[unknown]");
    }
    h = hash64_str(n.name) + n.nameless;
    for (struct map_pos p = map_find(&x->name_map, h); p.index != MAP_NONE; p = map_next(&x->name_map, p))
        if (x->names[p.index].nameless == n.nameless && str_eq(x->names[p.index].name, n.name))
            return p.index;
    if (array_push(x->names, x->n_names, x->cap_names, 1 << 26, n) < 0 ||
        map_insert(&x->name_map, h, (uint32_t) x->n_names - 1) < 0)
        return NO_ROW;
    return (uint32_t) x->n_names - 1;
}

static bool on_path(const struct tree *t, const uint32_t *rows, uint32_t node, uint32_t row)
{
    for (uint32_t p = t->parent[node]; p && p != TREE_NONE; p = t->parent[p])
        if (rows[p] == row)
            return true;
    return false;
}

/* Finds the rows of a side's nodes and adds up its rows. */
static int find_rows(struct drifting *x, int side)
{
    const struct tree *t = x->cubes[side].tree;
    uint32_t *of_frame = arena_zalloc_array(&x->arena, t->n_frames + 1, sizeof *of_frame);

    x->row[side] = arena_zalloc_array(&x->arena, t->n_nodes + 1, sizeof(uint32_t));
    x->self_row[side] = arena_zalloc_array(&x->arena, t->n_nodes + 1, sizeof(uint32_t));
    if (x->arena.failed)
        return -ENOMEM;
    for (uint32_t i = 1; i < t->n_frames; i++) {
        of_frame[i] = intern(x, &t->frames[i]);
        if (of_frame[i] == NO_ROW)
            return -ENOMEM;
    }
    x->row[side][0] = x->self_row[side][0] = NO_ROW;
    for (uint32_t i = 1; i < t->n_nodes; i++) {
        uint32_t row = of_frame[t->frame[i]];

        x->self_row[side][i] = row;
        x->names[row].self[side] += (double) t->self[0][i];
        x->row[side][i] = on_path(t, x->self_row[side], i, row) ? NO_ROW : row;
        if (x->ask->self)
            x->names[row].sum[side] += (double) t->self[0][i];
        else if (x->row[side][i] != NO_ROW)
            x->names[row].sum[side] += (double) t->total[0][i];
    }
    return 0;
}

static double share_of(const struct drifting *x, const struct drift_name *n)
{
    double most = 0;

    for (int s = 0; s < 2; s++) {
        double whole = (double) x->cubes[s].tree->total[0][0];

        most = whole > 0 ? fmax(most, n->sum[s] / whole) : most;
    }
    return most;
}

struct drift_pick {
    double share;
    uint32_t row;
};

static int largest_first(const void *a, const void *b)
{
    const struct drift_pick *x = a, *y = b;

    if (x->share != y->share)
        return x->share < y->share ? 1 : -1;
    return (x->row > y->row) - (x->row < y->row);
}

/* Chooses the functions that are compared: those with a share of a thousandth on either side, at most ROWS_MAX. */
static int pick_columns(struct drifting *x)
{
    struct drift_pick *picks = arena_zalloc_array(&x->arena, x->n_names + 1, sizeof *picks);
    uint32_t n = 0;

    for (uint32_t i = 0; picks && i < x->n_names; i++)
        if (!x->names[i].nameless && share_of(x, &x->names[i]) >= 0.001)
            picks[n++] = (struct drift_pick){share_of(x, &x->names[i]), i};
    if (n)
        qsort(picks, n, sizeof *picks, largest_first);
    x->n_columns = MIN(n, (uint32_t) ROWS_MAX);
    x->columns = arena_zalloc_array(&x->arena, x->n_columns + 1, sizeof *x->columns);
    x->values = arena_zalloc_array(&x->arena, x->n_columns + 1, sizeof *x->values);
    x->nameless = arena_zalloc_array(&x->arena, x->n_cells + 1, sizeof *x->nameless);
    for (uint32_t i = 0; !x->arena.failed && i < x->n_columns; i++) {
        x->columns[i] = picks[i].row;
        x->names[picks[i].row].column = i;
        x->values[i] = arena_zalloc_array(&x->arena, x->n_cells + 1, sizeof **x->values);
    }
    return x->arena.failed ? -ENOMEM : 0;
}

/* --- cells --- */

/* The number of an instance that both sides share. */
static uint32_t join_instance(struct drifting *x, const struct cube_instance *i)
{
    for (uint32_t k = 0; k < x->n_instances; k++)
        if (id128_eq(x->instances[k].id, i->id))
            return k;
    x->instances[x->n_instances] = *i;
    return x->n_instances++;
}

static int list_cells(struct drifting *x)
{
    uint32_t n = x->cubes[0].n_cells + x->cubes[1].n_cells;

    x->cells = arena_zalloc_array(&x->arena, n + 1, sizeof *x->cells);
    x->sources = arena_zalloc_array(&x->arena, n + 1, sizeof *x->sources);
    x->instances = arena_zalloc_array(&x->arena, 2 * CUBE_INSTANCES_MAX + 1, sizeof *x->instances);
    if (x->arena.failed)
        return -ENOMEM;
    for (uint32_t s = 0; s < 2; s++)
        for (uint32_t i = 0; i < x->cubes[s].n_cells; i++) {
            const struct cube_cell *c = &x->cubes[s].cells[i];
            struct drift_cell *to = &x->cells[x->n_cells];

            *to = (struct drift_cell){.side = s, .window = c->window};
            for (uint32_t k = 0; k < c->n; k++)
                to->whole += (double) x->cubes[s].values[c->first + k].self;
            if (x->cubes[s].gauge && c->n_profiles)
                to->whole /= (double) c->n_profiles;
            if (!(to->whole > 0))
                continue;
            to->instance = join_instance(x, &x->cubes[s].instances[c->instance]);
            x->sources[x->n_cells++] = c;
        }
    return 0;
}

/* Adds one value of a cell to each function on its path. */
static void add_path(struct drifting *x, uint32_t cell, uint32_t node, double v)
{
    uint32_t side = x->cells[cell].side;
    const struct tree *t = x->cubes[side].tree;
    bool nameless = false;

    for (uint32_t p = node; p && p != TREE_NONE; p = t->parent[p]) {
        uint32_t row = x->ask->self ? x->self_row[side][p] : x->row[side][p];

        nameless |= x->names[x->self_row[side][p]].nameless;
        if (row != NO_ROW && x->names[row].column != NO_ROW && (!x->ask->self || p == node))
            x->values[x->names[row].column][cell] += v;
    }
    if (nameless)
        x->nameless[cell] += v;
}

static void fill_cells(struct drifting *x)
{
    double share[2] = {0}, whole[2] = {0};

    for (uint32_t i = 0; i < x->n_cells; i++) {
        const struct store_cube *c = &x->cubes[x->cells[i].side];
        double scale = c->gauge && x->sources[i]->n_profiles ? 1 / (double) x->sources[i]->n_profiles : 1;

        for (uint32_t k = 0; k < x->sources[i]->n; k++) {
            const struct cube_value *v = &c->values[x->sources[i]->first + k];

            add_path(x, i, v->node, (double) v->self * scale);
        }
        share[x->cells[i].side] += x->nameless[i];
        whole[x->cells[i].side] += x->cells[i].whole;
    }
    for (int s = 0; s < 2; s++)
        share[s] = whole[s] > 0 ? share[s] / whole[s] : 0;
    x->points_named = 100 * (share[0] - share[1]);
}

/* --- the label that explains most --- */

struct drift_part {
    struct str name, value;
    double points, weight; /* what it adds to the drift; its part of everything */
};

static void add_part(struct drift_part *parts, uint32_t *n, uint32_t cap, const struct label *l, const double v[2])
{
    uint32_t i = 0;

    while (i < *n && !(str_eq(parts[i].name, l->name) && str_eq(parts[i].value, l->value)))
        i++;
    if (i == *n && *n < cap)
        parts[(*n)++] = (struct drift_part){.name = l->name, .value = l->value};
    if (i == *n)
        return;
    parts[i].points += v[0];
    parts[i].weight += v[1];
}

/* A label value explains a drift if its samples have much more of it than of the values. */
static void explain(struct drifting *x, uint32_t column, const double whole[2], struct drift_row *row)
{
    struct drift_part parts[512];
    double(*of)[2] = arena_zalloc_array(&x->arena, x->n_instances + 1, sizeof *of);
    uint32_t n = 0;
    double best = 0.3;

    for (uint32_t i = 0; of && i < x->n_cells; i++) {
        const struct drift_cell *c = &x->cells[i];
        double sign = c->side ? 1 : -1;

        of[c->instance][0] += sign * x->values[column][i] / whole[c->side];
        of[c->instance][1] += c->whole / whole[c->side] / 2;
    }
    for (uint32_t i = 0; of && i < x->n_instances; i++)
        for (uint32_t k = 0; k < x->instances[i].labels.n; k++)
            add_part(parts, &n, ARRAY_SIZE(parts), &x->instances[i].labels.v[k], of[i]);
    for (uint32_t i = 0; i < n; i++) {
        double part = 100 * parts[i].points / row->points;

        if (parts[i].weight < 0.9 && part - parts[i].weight > best) {
            best = part - parts[i].weight;
            row->label = parts[i].name;
            row->value = parts[i].value;
            row->explains = fmin(part, 1);
        }
    }
}

/* --- the answer --- */

static int largest_effect_first(const void *a, const void *b)
{
    const struct drift_row *x = a, *y = b;

    if (fabs(x->points) != fabs(y->points))
        return fabs(x->points) < fabs(y->points) ? 1 : -1;
    return str_cmp(x->function, y->function);
}

struct cost_ratio {
    double ratio, weight; /* share now / before */
    uint32_t name;
};

static int by_ratio(const void *a, const void *b)
{
    const struct cost_ratio *x = a, *y = b;

    return (x->ratio > y->ratio) - (x->ratio < y->ratio);
}

static uint32_t list_ratios(const struct drifting *x, struct cost_ratio *to, double *sum)
{
    double whole[2] = {(double) x->cubes[0].tree->total[0][0], (double) x->cubes[1].tree->total[0][0]};
    uint32_t k = 0;

    for (uint32_t i = 0; i < x->n_names && whole[0] > 0 && whole[1] > 0; i++) {
        double before = x->names[i].self[0] / whole[0], now = x->names[i].self[1] / whole[1];

        if (x->names[i].nameless || fmax(before, now) < COST_SHARE_MIN)
            continue;
        to[k] = (struct cost_ratio){before > 0 ? now / before : INFINITY, fmin(fmax(before, now), COST_WEIGHT_MAX), i};
        *sum += to[k++].weight;
    }
    if (k)
        qsort(to, k, sizeof *to, by_ratio);
    return k;
}

/*
 * Which functions cost what they did, from self shares alone: their shares all shrink by the factor by which the whole grew. The
 * median of these factors estimates it: one function that grew by a tenth of the whole leaves the rest at 1/1.1 of their
 * shares. A function counts by its share, but none for more than a tenth, so that one large function that changed is not taken
 * for all. If less than 60 % of the weight agrees with the median within a twentieth, nothing can be said: false.
 */
static bool find_unchanged(struct drifting *x, struct cost_ratio *ratios)
{
    double sum = 0, seen = 0, near = 0, ratio = 0;
    uint32_t k = list_ratios(x, ratios, &sum);

    for (uint32_t i = 0; i < k && seen < sum / 2; i++) {
        seen += ratios[i].weight;
        ratio = ratios[i].ratio;
    }
    if (k < 3 || !(ratio > 0) || isinf(ratio))
        return false;
    for (uint32_t i = 0; i < k; i++) {
        bool unchanged = fabs(ratios[i].ratio / ratio - 1) <= COST_AGREES;

        x->names[ratios[i].name].unchanged = unchanged;
        near += unchanged ? ratios[i].weight : 0;
    }
    return near >= COST_MAJORITY * sum;
}

/* The self value of the functions that did not change, in each cell. */
static double *sum_unchanged(struct drifting *x)
{
    double *sum = arena_zalloc_array(&x->arena, x->n_cells + 1, sizeof *sum);

    for (uint32_t i = 0; sum && i < x->n_cells; i++) {
        uint32_t side = x->cells[i].side;
        const struct store_cube *c = &x->cubes[side];
        double scale = c->gauge && x->sources[i]->n_profiles ? 1 / (double) x->sources[i]->n_profiles : 1;

        for (uint32_t k = 0; k < x->sources[i]->n; k++) {
            const struct cube_value *v = &c->values[x->sources[i]->first + k];
            uint32_t row = x->self_row[side][v->node];

            if (row != NO_ROW && x->names[row].unchanged)
                sum[i] += (double) v->self * scale;
        }
    }
    return sum;
}

/* The change of the cost of the same work: what did not change has a share of the whole that shrinks as the whole grows. The
 * interval is that of this share. */
static int cost_change(struct drifting *x, const struct drift_data *d, struct drift_answer *ret)
{
    struct cost_ratio *ratios = arena_zalloc_array(&x->arena, x->n_names + 1, sizeof *ratios);
    struct drift_summary sum;
    struct drift_test t;
    const double *values;
    int r;

    if (!ratios)
        return -ENOMEM;
    if (!find_unchanged(x, ratios))
        return 0;
    values = sum_unchanged(x);
    r = values ? drift_run(d, &values, 1, &t, &sum) : -ENOMEM;
    if (r < 0 || !(t.now > 0) || !(t.before > 0) || !(t.freedom > 0))
        return r;
    ret->cost_known = true;
    ret->cost_change = t.before / t.now - 1;
    ret->cost_low = t.before / (t.before + t.high / 100) - 1;
    ret->cost_high = t.before / fmax(t.before + t.low / 100, t.before / COST_MOST) - 1;
    return 0;
}

static int make_rows(struct drifting *x, const struct drift_test *t, struct drift_answer *ret)
{
    double arrived = x->points_named, min = x->ask->min_points;

    ret->rows = arena_zalloc_array(&ret->arena, x->n_columns + 1, sizeof *ret->rows);
    if (!ret->rows)
        return -ENOMEM;
    for (uint32_t i = 0; i < x->n_columns; i++) {
        struct drift_row *row = &ret->rows[ret->n++];
        bool grew = t[i].points > 0;

        *row = (struct drift_row){.function = arena_str(&ret->arena, x->names[x->columns[i]].name),
                                  .before = t[i].before,
                                  .now = t[i].now,
                                  .points = t[i].points,
                                  .cores = t[i].now * ret->cores[1] - t[i].before * ret->cores[0],
                                  .p = t[i].p,
                                  .low = t[i].low,
                                  .high = t[i].high,
                                  .significant = t[i].significant};
        if (grew ? arrived > 0 && t[i].points - arrived < min / 2 : arrived < 0 && t[i].points - arrived > -min / 2)
            row->significant = false;
        if (row->significant)
            explain(x, i, ret->whole, row);
        row->is_labelled = row->label.n;
        row->label = arena_str(&ret->arena, row->label);
        row->value = arena_str(&ret->arena, row->value);
        ret->significant += row->significant;
    }
    if (ret->n)
        qsort(ret->rows, ret->n, sizeof *ret->rows, largest_effect_first);
    ret->n_all = ret->n;
    ret->n = MIN(ret->n, x->ask->limit);
    return ret->arena.failed ? -ENOMEM : 0;
}

/* Takes back what a changed mix of requests could explain. It is looked at only if something is significant. */
static int discount_traffic(const struct drifting *x, const struct query *q, struct drift_answer *a, struct err *e)
{
    double explained;
    int r = a->significant && x->ask->spans ? drift_traffic(x->ask->spans, q, &a->traffic_points, e) : 0;

    if (r < 0 || a->traffic_points <= 0)
        return r;
    explained = TRAFFIC_FACTOR * a->traffic_points;
    a->minimum_detectable_points = fmin(100, a->minimum_detectable_points + explained);
    for (uint32_t i = 0; i < a->n; i++)
        if (a->rows[i].significant && fabs(a->rows[i].points) - explained < x->ask->min_points / 2) {
            a->rows[i].significant = false;
            a->significant--;
        }
    return 0;
}

/* The value that one sample stands for at least; 0 if it is not known. It bounds the error from below, so the highest rate
 * counts: one profile of a thread that was sampled once a second must not hide a change in a hundred others. What lower
 * rates add to the error is seen in the differences between windows. */
static double sample_value(const struct drift_answer *a, const struct store_notes *n)
{
    return str_is(a->unit, "nanoseconds") && n->rate_max ? 1e9 / n->rate_max : 0;
}

static int test_all(struct drifting *x, const struct store_notes *notes, struct drift_answer *ret)
{
    struct drift_test *tests = arena_zalloc_array(&x->arena, x->n_columns + 1, sizeof *tests);
    struct drift_summary sum;
    struct drift_data d = {.cells = x->cells,
                           .n_cells = x->n_cells,
                           .n_instances = x->n_instances,
                           .sample = sample_value(ret, notes),
                           .min_points = x->ask->min_points,
                           .alpha = x->ask->alpha};
    int r;

    for (int s = 0; s < 2; s++)
        d.width[s] = (double) x->cubes[s].width_ns / NS_PER_S;
    r = tests ? drift_run(&d, (const double *const *) x->values, x->n_columns, tests, &sum) : -ENOMEM;
    if (r < 0)
        return r;
    ret->instances = x->n_instances;
    ret->windows = sum.windows[0] + sum.windows[1];
    ret->minimum_detectable_points = sum.minimum_detectable_points;
    r = make_rows(x, tests, ret);
    return r < 0 ? r : cost_change(x, &d, ret);
}

static int set_rates(struct drifting *x, struct store *s, const struct query *q, struct drift_answer *ret,
                     struct err *e)
{
    const struct tree *t = x->cubes[1].tree;
    int r = query_coverage(s, q, ret->covered_ns, e);

    ret->type = arena_str(&ret->arena, t->type);
    ret->unit = arena_str(&ret->arena, t->unit);
    for (uint32_t i = 0; i < x->n_cells; i++)
        ret->whole[x->cells[i].side] += x->cells[i].whole;
    for (int i = 0; r == 0 && i < 2; i++)
        if (ret->covered_ns[i] > 0)
            ret->cores[i] = ret->whole[i] / (double) ret->covered_ns[i] * (str_is(t->unit, "nanoseconds") ? 1 : 1e9);
    return r;
}

static void drifting_done(struct drifting *x)
{
    store_cube_done(&x->cubes[0]);
    store_cube_done(&x->cubes[1]);
    mem_free(x->names);
    map_done(&x->name_map);
    arena_done(&x->arena);
}

int query_drift(struct store *s, struct query *q, const struct drift_ask *ask, struct drift_answer *ret, struct err *e)
{
    struct drift_ask full = *ask;
    _cleanup_(drifting_done) struct drifting x = {.ask = &full};
    int r;

    full.min_points = ask->min_points > 0 ? ask->min_points : DRIFT_MIN_POINTS;
    full.alpha = ask->alpha > 0 ? ask->alpha : DRIFT_ALPHA;
    full.limit = ask->limit ? ask->limit : ROWS_DEFAULT;
    *ret = (struct drift_answer){0};
    if (!q->is_diff)
        return err_set(e, -EINVAL, "drift requires a baseline: baseline_from and baseline_to");
    arena_init(&ret->arena, 0);
    arena_init(&x.arena, q->q.memory_limit);
    r = read_sides(&x, s, q, e);
    for (int i = 0; r == 0 && i < 2; i++)
        r = find_rows(&x, i);
    if (r == 0)
        r = list_cells(&x);
    if (r == 0)
        r = pick_columns(&x);
    if (r == 0) {
        fill_cells(&x);
        r = set_rates(&x, s, q, ret, e);
    }
    if (r == 0)
        r = test_all(&x, q->q.notes, ret);
    if (r == 0)
        r = discount_traffic(&x, q, ret, e);
    if (r < 0)
        drift_answer_done(ret);
    if (r == -ENODATA)
        ret->empty = x.cubes[0].n_cells ? "range" : x.cubes[1].n_cells ? "baseline" : "both";
    return r;
}

void drift_answer_done(struct drift_answer *a)
{
    arena_done(&a->arena);
    *a = (struct drift_answer){0};
}
