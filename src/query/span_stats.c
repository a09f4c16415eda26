/* SPDX-License-Identifier: Apache-2.0 */
/* Percentiles of latency per name of spans, and the heat map of one; see span_stats.h. */
#include "query/span_stats.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"

/* Names beyond NAMES_MAX count as one. Of a name with more spans than DURATIONS_MAX, every second duration is dropped,
 * then every second of those that follow, and so on: the percentiles of 32,768 evenly taken durations are close. */
enum { NAMES_MAX = 20000, DURATIONS_MAX = 1 << 16 };
#define OTHER_NAMES "(other names)"

/* --- names --- */

struct listing_names {
    struct span_names *out;
    struct map map;
};

static struct span_name_row *find_name(struct listing_names *l, const struct span_row *s)
{
    struct span_names *o = l->out;
    struct str name = s->name, service = s->service;
    uint64_t h = hash64_str(name) ^ hash64_u64(hash64_str(service));

    for (struct map_pos p = map_find(&l->map, h); p.index != MAP_NONE; p = map_next(&l->map, p))
        if (str_eq(o->v[p.index].name, name) && str_eq(o->v[p.index].service, service))
            return &o->v[p.index];
    if (o->n > NAMES_MAX)
        return &o->v[NAMES_MAX];
    if (o->n == NAMES_MAX) {
        name = STR(OTHER_NAMES);
        service = (struct str){0};
    }
    if (array_push(o->v, o->n, o->cap, NAMES_MAX + 1,
                   (struct span_name_row){
                       .name = arena_str(&o->arena, name), .service = arena_str(&o->arena, service), .one_in = 1}) < 0)
        return NULL;
    return map_insert(&l->map, h, o->n - 1) < 0 ? NULL : &o->v[o->n - 1];
}

static void thin_out(struct span_name_row *row)
{
    for (size_t i = 0; i < row->n / 2; i++)
        row->durations[i] = row->durations[2 * i];
    row->n /= 2;
    row->one_in *= 2;
}

static int add_name(void *ctx, const struct span_row *s)
{
    struct listing_names *l = ctx;
    struct span_name_row *row = find_name(l, s);

    if (!row)
        return -ENOMEM;
    row->count++;
    row->errors += s->status == SPAN_ERROR;
    row->total = wrap_add(row->total, s->duration);
    row->max = MAX(row->max, s->duration);
    if (row->n == DURATIONS_MAX)
        thin_out(row);
    if ((row->count - 1) % row->one_in)
        return 0;
    return array_push(row->durations, row->n, row->cap, DURATIONS_MAX, s->duration);
}

static int shortest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;

    return (x > y) - (x < y);
}

/* The smallest duration that at least this share of the spans does not exceed. */
static int64_t percentile(const struct span_name_row *r, double share)
{
    size_t i = (size_t) ceil((double) r->n * share);

    return r->durations[MIN(i ? i - 1 : 0, r->n - 1)];
}

static int most_time_first(const void *a, const void *b)
{
    const struct span_name_row *x = a, *y = b;

    if (x->total != y->total)
        return x->total < y->total ? 1 : -1;
    return str_cmp(x->name, y->name) ? str_cmp(x->name, y->name) : str_cmp(x->service, y->service);
}

int span_names_list(struct span_index *x, const struct span_filter *f, struct span_names *ret, struct err *e)
{
    struct listing_names l = {.out = ret};
    int r;

    *ret = (struct span_names){0};
    arena_init(&ret->arena, 0);
    r = span_index_each(x, f, add_name, &l, e);
    map_done(&l.map);
    if (r == 0 && ret->arena.failed)
        r = -ENOMEM;
    if (r < 0) {
        span_names_done(ret);
        return r;
    }
    for (uint32_t i = 0; i < ret->n; i++) {
        struct span_name_row *row = &ret->v[i];

        qsort(row->durations, row->n, sizeof *row->durations, shortest_first);
        row->p50 = percentile(row, 0.5);
        row->p95 = percentile(row, 0.95);
        row->p99 = percentile(row, 0.99);
    }
    if (ret->n)
        qsort(ret->v, ret->n, sizeof *ret->v, most_time_first);
    return 0;
}

void span_names_done(struct span_names *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        mem_free(l->v[i].durations);
    mem_free(l->v);
    arena_done(&l->arena);
    *l = (struct span_names){0};
}

/* --- heat map --- */

struct heating {
    struct span_heatmap *h;
    int64_t low, high;
};

static int find_range(void *ctx, const struct span_row *s)
{
    struct heating *x = ctx;

    x->low = x->h->count ? MIN(x->low, s->duration) : s->duration;
    x->high = x->h->count ? MAX(x->high, s->duration) : s->duration;
    x->h->count++;
    return 0;
}

/* Spans may have arrived since the range was found: they go into the first or last row. */
static uint32_t row_of(const struct span_heatmap *h, int64_t duration)
{
    uint32_t low = 0, high = h->n_rows;

    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;

        if (duration >= h->bounds[middle])
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int count_span(void *ctx, const struct span_row *s)
{
    struct heating *x = ctx;
    struct span_heatmap *h = x->h;
    int64_t slot = (s->start - h->from) / h->step;

    if (slot < 0 || slot >= h->n_slots)
        return 0;
    h->counts[(size_t) slot * h->n_rows + row_of(h, s->duration)]++;
    h->count++;
    h->errors += s->status == SPAN_ERROR;
    return 0;
}

static void set_bounds(struct heating *x)
{
    struct span_heatmap *h = x->h;
    double low = (double) MAX(x->low, 1), ratio = (double) x->high / low;

    for (uint32_t i = 0; i <= h->n_rows; i++) {
        int64_t v = clamp_double(low * pow(ratio, (double) i / h->n_rows));

        h->bounds[i] = i ? MAX(v, MIN(h->bounds[i - 1], INT64_MAX - 1) + 1) : x->low;
    }
    h->bounds[h->n_rows] = MAX(h->bounds[h->n_rows], MIN(x->high, INT64_MAX - 1) + 1);
}

int span_heatmap_fill(struct span_index *x, const struct span_filter *f, struct span_heatmap *h, struct err *e)
{
    struct heating heat = {.h = h};
    int r;

    arena_init(&h->arena, 0);
    h->n_slots = (uint32_t) MIN((f->to - h->from - 1) / h->step + 1, SPAN_SLOTS_MAX);
    h->bounds = arena_zalloc_array(&h->arena, (size_t) h->n_rows + 1, sizeof *h->bounds);
    h->counts = arena_zalloc_array(&h->arena, (size_t) h->n_slots * h->n_rows + 1, sizeof *h->counts);
    r = h->bounds && h->counts ? span_index_each(x, f, find_range, &heat, e) : -ENOMEM;
    if (r == 0 && h->count) {
        h->count = 0;
        set_bounds(&heat);
        r = span_index_each(x, f, count_span, &heat, e);
    } else if (r == 0) {
        h->n_rows = 0;
    }
    if (r < 0)
        span_heatmap_done(h);
    return r;
}

void span_heatmap_done(struct span_heatmap *h)
{
    arena_done(&h->arena);
    *h = (struct span_heatmap){0};
}
