/* SPDX-License-Identifier: Apache-2.0 */
/* Sums samples by profile, stack and attributes (sample_sum.h). */
#include "codec/sample_sum.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/wrap.h"
#include "model/builder.h"

enum { PARTS_MAX = 4096 };

size_t sample_sum_limit(size_t memory)
{
    return memory ? memory / (sizeof(struct sum_row) + 2 * sizeof(struct map_slot)) + 1 : 0;
}

static bool same_row(const struct sum_row *a, const struct sum_row *b)
{
    return a->profile == b->profile && a->stack == b->stack && a->attrs.off == b->attrs.off && a->attrs.n == b->attrs.n;
}

static int add_point(struct sample_sum *s, const struct sum_row *row, uint32_t index)
{
    struct sum_point p = {index, 0, row->time, {row->values[0], row->values[1]}};

    if (!s->times || row->time <= 0)
        return 0;
    return array_push(s->points, s->n_points, s->cap_points, s->limit ? s->limit : UINT32_MAX, p);
}

int sample_sum_add(struct sample_sum *s, const struct sum_row *row)
{
    uint64_t h = hash64_u64((uint64_t) row->stack << 32 | row->attrs.off) ^ hash64_u64(row->profile);
    int r;

    for (struct map_pos p = map_find(&s->map, h); p.index != MAP_NONE; p = map_next(&s->map, p)) {
        struct sum_row *old = &s->rows[p.index];

        if (!same_row(old, row))
            continue;
        for (int i = 0; i < SAMPLE_SUM_VALUES; i++)
            old->values[i] = wrap_add(old->values[i], row->values[i]);
        if (!row->time)
            old->time = 0;
        return add_point(s, row, p.index);
    }
    r = array_reserve(s->rows, s->cap, s->n + 1, s->limit ? s->limit : UINT32_MAX);
    if (r == 0)
        r = map_insert(&s->map, h, (uint32_t) s->n);
    if (r < 0)
        return r;
    s->rows[s->n++] = *row;
    return add_point(s, row, (uint32_t) s->n - 1);
}

/* --- times --- */

static int by_part_row_time(const void *a, const void *b)
{
    const struct sum_point *x = a, *y = b;

    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return x->time < y->time ? -1 : x->time > y->time;
}

/* The points of a profile in the order of parts, rows and time. */
struct timed_points {
    struct sum_point *v;
    size_t n;
    int64_t first, last; /* when the first one began, if values are times, and the last one ended */
};

static int points_of(const struct sample_sum *s, uint32_t profile, uint32_t type, int64_t scale,
                     struct timed_points *ret)
{
    *ret = (struct timed_points){.first = INT64_MAX};
    if (!s->n_points)
        return 0;
    ret->v = mem_zalloc_array(s->n_points, sizeof *ret->v);
    if (!ret->v)
        return -ENOMEM;
    for (size_t i = 0; i < s->n_points; i++) {
        struct sum_point p = s->points[i];
        int64_t lasted = wrap_mul(p.values[type], scale);

        if (s->rows[p.row].profile != profile)
            continue;
        ret->v[ret->n++] = p;
        ret->first = MIN(ret->first, MAX(p.time - MIN(MAX(lasted, 0), p.time - 1), 1));
        ret->last = MAX(ret->last, p.time);
    }
    for (size_t i = 0; i < ret->n; i++)
        ret->v[i].part = (uint32_t) MIN((ret->v[i].time - ret->first) / SAMPLE_SUM_PART_NS, (int64_t) PARTS_MAX - 1);
    qsort(ret->v, ret->n, sizeof *ret->v, by_part_row_time);
    return 0;
}

static struct profile *add_profile(const struct profile *as, uint32_t first, uint32_t n, struct builder *b)
{
    struct profile *p = builder_profile(b, as->types + first, n);

    if (p) {
        p->period_type = as->period_type;
        p->period = as->period;
        p->time_ns = as->time_ns;
        p->duration_ns = as->duration_ns;
    }
    return p;
}

static void write_rows(const struct sample_sum *s, uint32_t profile, uint32_t n_values, int64_t scale,
                       struct builder *b)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct sum_row *row = &s->rows[i];
        int64_t values[SAMPLE_SUM_VALUES];

        if (row->profile != profile)
            continue;
        for (int k = 0; k < SAMPLE_SUM_VALUES; k++)
            values[k] = wrap_mul(row->values[k], scale);
        builder_sample(b, &(struct builder_sample){
                              .stack = row->stack, .attrs = row->attrs, .values = values, .n_values = n_values});
    }
}

/* A sample for each row, with its points' values of a type. */
static int write_points(const struct sample_sum *s, const struct sum_point *v, size_t n, uint32_t type, int64_t scale,
                        struct builder *b)
{
    _cleanup_(mem_freep) int64_t *values = mem_zalloc_array(n, sizeof *values);
    _cleanup_(mem_freep) uint64_t *times = mem_zalloc_array(n, sizeof *times);

    if (!values || !times)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        values[i] = wrap_mul(v[i].values[type], scale);
        times[i] = (uint64_t) v[i].time;
    }
    for (size_t i = 0, end; i < n; i = end) {
        const struct sum_row *row = &s->rows[v[i].row];

        for (end = i; end < n && v[end].row == v[i].row;)
            end++;
        builder_sample(b, &(struct builder_sample){.stack = row->stack,
                                                   .attrs = row->attrs,
                                                   .values = values + i,
                                                   .n_values = (uint32_t) (end - i),
                                                   .timestamps = times + i,
                                                   .n_timestamps = (uint32_t) (end - i)});
    }
    return 0;
}

/* Whether each sample of the profile has a time: else a picture by time would leave some out. */
static bool all_timed(const struct sample_sum *s, uint32_t profile)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->rows[i].profile == profile && s->rows[i].time <= 0)
            return false;
    return true;
}

/* A profile for each part of the time. */
static int write_timed(const struct sample_sum *s, const struct timed_points *p, const struct profile *as,
                       int64_t scale, struct builder *b)
{
    struct profile part = *as;
    int r = 0;

    for (size_t i = 0, end; r == 0 && i < p->n; i = end) {
        for (end = i; end < p->n && p->v[end].part == p->v[i].part;)
            end++;
        part.time_ns = p->first + p->v[i].part * SAMPLE_SUM_PART_NS;
        part.duration_ns = MIN(p->last - part.time_ns, SAMPLE_SUM_PART_NS);
        add_profile(&part, part.n_types - 1, 1, b);
        r = write_points(s, p->v + i, end - i, part.n_types - 1, scale, b);
    }
    return r;
}

int sample_sum_write(const struct sample_sum *s, uint32_t profile, const struct profile *as, int64_t scale,
                     struct builder *b)
{
    bool is_time = str_is(batch_string(builder_batch(b), as->types[as->n_types - 1].unit), "nanoseconds");
    struct timed_points points = {0};
    struct profile sums = *as;
    int r = 0;

    if (all_timed(s, profile))
        r = points_of(s, profile, as->n_types - 1, is_time ? scale : 0, &points);
    if (r == 0 && points.n) {
        sums.n_types = as->n_types - 1;
        sums.time_ns = sums.time_ns ? sums.time_ns : points.first;
        sums.duration_ns = MAX(sums.duration_ns, points.last - sums.time_ns);
    }
    if (r == 0 && sums.n_types) {
        add_profile(&sums, 0, sums.n_types, b);
        write_rows(s, profile, sums.n_types, scale, b);
    }
    if (r == 0)
        r = write_timed(s, &points, as, scale, b);
    mem_free(points.v);
    return r;
}

bool sample_sum_has(const struct sample_sum *s, uint32_t profile)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->rows[i].profile == profile)
            return true;
    return false;
}

void sample_sum_done(struct sample_sum *s)
{
    mem_free(s->rows);
    mem_free(s->points);
    map_done(&s->map);
    *s = (struct sample_sum){0};
}
