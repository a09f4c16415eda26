/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the selection by window and instance (store_cube.h); see engine.h. While reading, the values of a cell are
 * kept as pairs of a service's node and a value, one list for each cell and service. A list that has doubled is merged
 * by node in linear time, so memory is bounded by the distinct stacks of a cell. At the end, the nodes are mapped to
 * those of the service's view (view.h), and the nodes of the view that have values become the tree of the answer.
 *
 * Instances that are series are read from the sums in the totals of chunks, as far as these lie in one window; anything
 * else is read profile by profile.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/wrap.h"
#include "store/engines/segment/read/scan.h"
#include "store/engines/segment/read/view.h"
#include "store/store_cube.h"

enum { PAIRS_MAX = 1 << 27, PARTS_MAX = 1 << 22, MERGE_FROM = 4096 };

/* What one service adds to one cell. */
struct cube_part {
    struct symbols *symbols;
    uint32_t service, window, instance;
    struct cube_value *v;
    size_t n, cap;
    size_t merge_at;
    uint64_t n_profiles;
};

struct cubing {
    struct scan scan;
    const struct store_cube_query *cq;
    struct store_cube *out;
    struct map by_id;
    struct cube_part *parts;
    size_t n_parts, cap_parts;
    struct map part_map;
    int64_t *sums; /* scratch of merge_part(); zero between uses */
    size_t cap_sums;
    struct totals totals;
    struct buf text;
};

/* --- cells --- */

static uint64_t part_hash(const struct symbols *s, uint32_t service, uint32_t window, uint32_t instance)
{
    return hash_mix((uintptr_t) s ^ service, (uint64_t) window << 32 | (instance + 1));
}

static struct cube_part *find_part(struct cubing *x, struct symbols *s, uint32_t service, uint32_t window,
                                   uint32_t instance)
{
    uint64_t h = part_hash(s, service, window, instance);

    for (struct map_pos p = map_find(&x->part_map, h); p.index != MAP_NONE; p = map_next(&x->part_map, p)) {
        struct cube_part *k = &x->parts[p.index];

        if (k->symbols == s && k->service == service && k->window == window && k->instance == instance)
            return k;
    }
    if (array_reserve(x->parts, x->cap_parts, x->n_parts + 1, PARTS_MAX) < 0 ||
        map_insert(&x->part_map, h, (uint32_t) x->n_parts) < 0)
        return NULL;
    x->parts[x->n_parts] = (struct cube_part){
        .symbols = s, .service = service, .window = window, .instance = instance, .merge_at = MERGE_FROM};
    return &x->parts[x->n_parts++];
}

/* Adds up the values of equal nodes. */
static int merge_part(struct cubing *x, struct cube_part *p)
{
    uint32_t n_nodes = pinned_count(&sym_service(p->symbols, p->service)->nodes);
    size_t before = x->cap_sums, n = 0;

    if (array_reserve(x->sums, x->cap_sums, n_nodes, UINT32_MAX) < 0)
        return -ENOMEM;
    memset(x->sums + before, 0, (x->cap_sums - before) * sizeof *x->sums);
    for (size_t i = 0; i < p->n; i++)
        wrap_inc(&x->sums[p->v[i].node], p->v[i].self);
    for (size_t i = 0; i < p->n; i++) {
        uint32_t node = p->v[i].node;

        if (!x->sums[node])
            continue;
        p->v[n++] = (struct cube_value){node, x->sums[node]};
        x->sums[node] = 0;
    }
    p->n = n;
    p->merge_at = 2 * n + MERGE_FROM;
    return 0;
}

static int add_pair(struct cubing *x, struct cube_part *p, uint32_t node, int64_t v)
{
    int r = p->n >= p->merge_at ? merge_part(x, p) : 0;

    return r < 0 ? r : array_push(p->v, p->n, p->cap, PAIRS_MAX, (struct cube_value){node, v});
}

static int copy_labels(struct cubing *x, struct cube_instance *to, const struct scan_prof *p, const struct labels *of)
{
    struct arena *a = &x->out->arena;
    size_t extra = p ? 4 : 0;

    to->labels = (struct labels){.v = arena_zalloc_array(a, of->n + extra + 1, sizeof *to->labels.v)};
    if (!to->labels.v)
        return -ENOMEM;
    for (uint32_t i = 0; i < of->n; i++)
        to->labels.v[to->labels.n++] = (struct label){arena_str(a, of->v[i].name), arena_str(a, of->v[i].value)};
    for (size_t i = 0; i < extra && cube_instance_attributes[i]; i++) {
        struct str name = str_from(cube_instance_attributes[i]);

        buf_reset(&x->text);
        if (labels_get(of, name).n)
            continue;
        scan_attribute(p, 0, name, &x->text);
        if (x->text.n)
            to->labels.v[to->labels.n++] = (struct label){name, arena_str(a, buf_str(&x->text))};
    }
    return a->failed ? -ENOMEM : 0;
}

static uint32_t window_of(const struct cubing *x, int64_t t)
{
    return (uint32_t) ((t - x->out->from) / x->out->width_ns);
}

/* The part for the instance with this identity. p: a profile of it, or NULL for a series. */
static int part_of(struct cubing *x, struct symbols *s, const struct sym_series *series, const struct scan_prof *p,
                   int64_t time, struct cube_part **ret)
{
    struct id128 id = p && x->cq->by_resource ? p->p->instance : series->labels_id;
    uint32_t instance;
    bool is_new;
    int r = cube_instance(x->out, &x->by_id, id, &instance, &is_new);

    if (r == 0 && is_new)
        r = copy_labels(x, &x->out->instances[instance], x->cq->by_resource ? p : NULL, &series->labels);
    if (r < 0)
        return r;
    x->out->gauge = series->type.rule == TYPE_GAUGE;
    *ret = find_part(x, s, series->service, window_of(x, time), instance);
    return *ret ? 0 : -ENOMEM;
}

/* --- reading --- */

static int add_prof(void *ctx, const struct scan_prof *p)
{
    struct cubing *x = ctx;
    uint32_t n_nodes = pinned_count(&sym_service(p->symbols, p->series->service)->nodes);
    bool look = x->scan.needs_detail[0];
    struct cube_part *part;
    int r = part_of(x, p->symbols, p->series, p, p->p->time_ns, &part);

    x->scan.notes->profiles++;
    if (r == 0)
        part->n_profiles++;
    for (uint32_t i = 0; r == 0 && i < p->p->n_rows; i++) {
        const struct row *row = &p->p->rows[i];

        if (look && !scan_row(&x->scan, p, row))
            continue;
        if (row->node >= n_nodes)
            return -EBADMSG;
        x->scan.notes->samples++;
        r = add_pair(x, part, row->node, row->value);
    }
    return r;
}

static bool is_meant(const struct cubing *x, const struct scan_symbols *sym, const struct segment *s,
                     const struct chunk_entry *e)
{
    return e->series < sym->n_series && sym->bits[e->series] && scan_hidden(&x->scan, sym, s, e, 0) != HIDDEN_ALL;
}

/* Whether the entry lies in one window of the range. */
static bool in_one_window(const struct cubing *x, const struct chunk_entry *e)
{
    const struct store_column *c = &x->scan.q->columns[0];

    return e->min_time >= c->from && e->max_time < c->to && window_of(x, e->min_time) == window_of(x, e->max_time);
}

static int add_totals(struct cubing *x, const struct scan_symbols *sym, const struct chunk *c,
                      const struct chunk_entry *e)
{
    const struct sym_series *series = sym_series(sym->symbols, e->series);
    uint32_t n_nodes = pinned_count(&sym_service(sym->symbols, series->service)->nodes);
    struct cube_part *part;
    int r = part_of(x, sym->symbols, series, NULL, e->min_time, &part);

    if (r < 0)
        return r;
    x->scan.notes->profiles += e->n_profs;
    part->n_profiles += e->n_profs;
    x->totals.n = 0;
    r = chunk_read_totals(c, e->totals_off, n_nodes, &x->totals);
    for (uint32_t i = 0; r == 0 && i < x->totals.n; i++)
        r = add_pair(x, part, x->totals.nodes[i], x->totals.values[i]);
    return r;
}

/* Adds the entries of one chunk: by their sums if each of them lies in one window, else by their profiles. */
static int add_chunk(struct cubing *x, const struct scan_symbols *sym, struct segment *s, const struct dir_entry *d,
                     uint32_t n)
{
    const struct store_column *c = &x->scan.q->columns[0];
    bool fits = !x->cq->by_resource && !x->scan.needs_detail[0], any = false;
    struct chunk chunk;
    int r;

    for (uint32_t i = 0; i < n; i++)
        if (is_meant(x, sym, s, &d[i].e) && d[i].e.max_time >= c->from && d[i].e.min_time < c->to) {
            any = true;
            fits &= in_one_window(x, &d[i].e) && scan_hidden(&x->scan, sym, s, &d[i].e, 0) == HIDDEN_NONE;
        }
    if (!any)
        return 0;
    if (!fits && s->meta.has_detail)
        return scan_chunk(&x->scan, sym, &(struct scan_part){s, d->off, d->len, d->e.service, true}, add_prof, x);
    x->scan.notes->coarse |= !fits;
    r = segment_totals(s, d->off, d->head, &chunk, x->scan.e);
    if (r < 0)
        return scan_damage(&x->scan, r, err_message(x->scan.e, r));
    for (uint32_t i = 0; r == 0 && i < n; i++)
        if (is_meant(x, sym, s, &d[i].e) && d[i].e.min_time >= c->from && d[i].e.min_time < c->to)
            r = add_totals(x, sym, &chunk, &d[i].e);
    chunk_done(&chunk);
    return r == -EBADMSG ? scan_damage(&x->scan, r, "a chunk's totals are damaged") : r;
}

/* The sums of an hour or a day are used if each of them lies in one window. */
static int read_directory(struct cubing *x, struct segment *s, const struct segment_group *g, struct arena *a,
                          struct directory *ret)
{
    const struct store_column *c = &x->scan.q->columns[0];
    bool long_windows = !x->cq->by_resource && !x->scan.needs_detail[0] && !x->scan.n_tombstones;
    int top = long_windows && g->dirs[2].len && x->out->width_ns >= WINDOW_1D   ? 2
              : long_windows && g->dirs[1].len && x->out->width_ns >= WINDOW_1H ? 1
                                                                                : 0;
    int r = segment_directory(s, g, top, a, ret, x->scan.e);
    bool fits = r == 0 && ret->n;

    if (!top)
        return r;
    for (uint32_t i = 0; fits && i < ret->n; i++) {
        const struct chunk_entry *e = &ret->v[i].e;

        fits = e->series == SERIES_ALL || e->max_time < c->from || e->min_time >= c->to || in_one_window(x, e);
    }
    return fits ? 0 : segment_directory(s, g, 0, a, ret, x->scan.e);
}

static int add_group(struct cubing *x, const struct scan_symbols *sym, struct segment *s, const struct segment_group *g)
{
    struct directory dir = {0};
    struct arena a;
    int r;

    arena_init(&a, 0);
    r = read_directory(x, s, g, &a, &dir);
    if (r < 0) {
        r = scan_damage(&x->scan, r, err_message(x->scan.e, r));
        dir.n = 0;
    }
    if (r == 0)
        r = scan_expect(&x->scan, &(struct scan_expect){s, sym, &dir, x->cq->by_resource || x->scan.needs_detail[0]});
    for (uint32_t i = 0, j; r == 0 && i < dir.n; i = j) {
        for (j = i + 1; j < dir.n && dir.v[j].off == dir.v[i].off;)
            j++;
        r = scan_cancelled(&x->scan) ? -ECANCELED : add_chunk(x, sym, s, dir.v + i, j - i);
    }
    arena_done(&a);
    return r;
}

static int add_segments(struct cubing *x)
{
    const struct store_column *c = &x->scan.q->columns[0];
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < x->scan.snap->n_segments; i++) {
        struct segment *s = x->scan.snap->segments[i].segment;
        const struct scan_symbols *sym = scan_find_symbols(&x->scan, x->scan.snap->segments[i].symbols);
        _cleanup_(segment_releasep) struct segment *used = NULL;
        const struct segment_footer *f;

        if (!sym || s->meta.t1 < c->from || s->meta.t0 >= c->to)
            continue;
        used = segment_use(s);
        r = segment_footer(s, &f, x->scan.e);
        if (r < 0) {
            r = scan_damage(&x->scan, r, err_message(x->scan.e, r));
            continue;
        }
        for (uint32_t k = 0; r == 0 && k < f->n_groups; k++)
            if (f->groups[k].service < sym->n_services && sym->services[f->groups[k].service])
                r = add_group(x, sym, s, &f->groups[k]);
    }
    return r;
}

/* --- the answer --- */

static int by_service(const void *a, const void *b)
{
    const struct cube_part *x = a, *y = b;

    if (x->symbols != y->symbols)
        return x->symbols < y->symbols ? -1 : 1;
    return (x->service > y->service) - (x->service < y->service);
}

static int by_cell(const void *a, const void *b)
{
    const struct cube_part *x = a, *y = b;

    if (x->window != y->window)
        return x->window < y->window ? -1 : 1;
    return (x->instance > y->instance) - (x->instance < y->instance);
}

/* How nodes and frames of a view are numbered in the answer. */
struct cube_naming {
    struct tree *tree;
    const struct sym_view *view;
    uint32_t *node, *frame; /* per node and per frame of the view: its number + 1, 0 = not yet there */
    uint32_t *path;
    size_t cap_path;
};

static uint32_t frame_of(struct cube_naming *x, uint32_t frame)
{
    if (!x->frame[frame])
        x->frame[frame] = tree_frame(x->tree, &x->view->frames[frame]) + 1; /* TREE_NONE + 1 is 0 */
    return x->frame[frame] - 1;
}

/* The node of the answer for a node of the view, added with its callers if new. */
static uint32_t node_of(struct cube_naming *x, uint32_t node)
{
    uint32_t at = node;
    size_t n = 0;

    for (; at && !x->node[at]; at = x->view->parent[at])
        if (array_push(x->path, n, x->cap_path, UINT32_MAX, at) < 0)
            return TREE_NONE;
    at = at ? x->node[at] - 1 : 0;
    while (n-- > 0) {
        uint32_t f = frame_of(x, x->view->frame[x->path[n]]);

        at = f == TREE_NONE ? TREE_NONE : tree_child(x->tree, at, f);
        if (at == TREE_NONE)
            return TREE_NONE;
        x->node[x->path[n]] = at + 1;
    }
    return at;
}

/* Replaces the nodes of the service in these parts by nodes of the answer. */
static int name_parts(struct cubing *x, struct cube_part *p, size_t n)
{
    struct sym_service *service = sym_service(p->symbols, p->service);
    struct cube_naming name = {.tree = x->out->tree};
    struct sym_view *v;
    int r = view_lock(p->symbols, service, x->scan.q->by, x->scan.q->no_inlines, pinned_count(&service->nodes), &v);

    if (r < 0)
        return r;
    name.view = v;
    name.node = mem_zalloc_array(v->n_nodes + 1, sizeof *name.node);
    name.frame = mem_zalloc_array(v->n_frames + 1, sizeof *name.frame);
    r = name.node && name.frame ? 0 : -ENOMEM;
    for (size_t i = 0; r == 0 && i < n; i++)
        for (size_t k = 0; r == 0 && k < p[i].n; k++) {
            p[i].v[k].node = node_of(&name, v->map[p[i].v[k].node]);
            if (p[i].v[k].node == TREE_NONE)
                r = -ENOMEM;
        }
    view_unlock(service);
    mem_free(name.node);
    mem_free(name.frame);
    mem_free(name.path);
    return r;
}

/* Joins the parts of each cell. */
static int make_cells(struct cubing *x)
{
    struct store_cube *c = x->out;
    size_t n = 0;

    for (size_t i = 0; i < x->n_parts; i++)
        n += x->parts[i].n;
    c->cells = mem_zalloc_array(x->n_parts + 1, sizeof *c->cells);
    c->values = mem_zalloc_array(n + 1, sizeof *c->values);
    if (!c->cells || !c->values)
        return -ENOMEM;
    if (x->n_parts)
        qsort(x->parts, x->n_parts, sizeof *x->parts, by_cell);
    for (size_t i = 0; i < x->n_parts; i++) {
        const struct cube_part *p = &x->parts[i];
        struct cube_cell *cell;

        if (!i || by_cell(p, p - 1) != 0)
            c->cells[c->n_cells++] =
                (struct cube_cell){.window = p->window, .instance = p->instance, .first = c->n_values};
        cell = &c->cells[c->n_cells - 1];
        cell->n_profiles += p->n_profiles;
        if (p->n)
            memcpy(c->values + c->n_values, p->v, p->n * sizeof *p->v);
        cell->n += (uint32_t) p->n;
        c->n_values += p->n;
    }
    return 0;
}

static int finish(struct cubing *x)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < x->n_parts; i++)
        r = merge_part(x, &x->parts[i]);
    if (r == 0 && x->n_parts)
        qsort(x->parts, x->n_parts, sizeof *x->parts, by_service);
    for (size_t i = 0, j; r == 0 && i < x->n_parts; i = j) {
        for (j = i + 1; j < x->n_parts && by_service(&x->parts[i], &x->parts[j]) == 0;)
            j++;
        r = name_parts(x, &x->parts[i], j - i);
    }
    return r < 0 ? r : make_cells(x);
}

static void set_type(struct cubing *x)
{
    struct tree *t = x->out->tree;

    for (uint32_t k = 0; k < x->scan.n_symbols && !t->type.n; k++)
        for (uint32_t i = 0; i < x->scan.symbols[k].n_series && !t->type.n; i++)
            if (x->scan.symbols[k].bits[i]) {
                const struct sym_series *s = sym_series(x->scan.symbols[k].symbols, i);

                t->type = arena_str(&t->arena, s->type.name);
                t->unit = arena_str(&t->arena, s->type.unit);
            }
}

static void cubing_done(struct cubing *x)
{
    for (size_t i = 0; i < x->n_parts; i++)
        mem_free(x->parts[i].v);
    mem_free(x->parts);
    map_done(&x->part_map);
    map_done(&x->by_id);
    mem_free(x->sums);
    totals_done(&x->totals);
    buf_done(&x->text);
    scan_done(&x->scan);
}

int engine_cube(struct store *s, const struct store_query *q, const struct store_cube_query *cq, struct store_cube *ret,
                struct err *e)
{
    _cleanup_(cubing_done) struct cubing x = {.cq = cq, .out = ret};
    struct err own = {0};
    int r;

    e = e ? e : &own;
    buf_init(&x.text, 0);
    r = scan_init(&x.scan, to_engine(s), q, true, e);
    if (r == 0)
        r = tree_new(1, q->memory_limit, &ret->tree);
    if (r < 0 || !x.scan.tenant)
        return r;
    r = scan_memtables(&x.scan, add_prof, &x);
    if (r == 0)
        r = add_segments(&x);
    if (r == 0)
        r = finish(&x);
    if (r == 0)
        set_type(&x);
    return r == -ECANCELED ? err_set(e, r, "cancelled") : r;
}
