/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the requests of a service by version, instance and window of time, see span_index.h: what rates per request are
 * computed from. */
#include <errno.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "span/span_index.h"

enum { NUMBERS_MAX = 1 << 20 };

struct counting {
    const struct span_requests_query *q;
    struct span_requests *out;
    struct map rows; /* by version and instance */
    int64_t step;
};

static struct span_requests_row *find_row(struct counting *c, const struct span_row *s, int *ret)
{
    uint64_t h = hash64_str(s->version) ^ hash64_u64(hash64_str(s->instance));
    struct span_requests *o = c->out;
    struct span_requests_row *row;

    for (struct map_pos p = map_find(&c->rows, h); p.index != MAP_NONE; p = map_next(&c->rows, p))
        if (str_eq(o->v[p.index].version, s->version) && str_eq(o->v[p.index].instance, s->instance))
            return &o->v[p.index];
    *ret = (uint64_t) (o->n + 1) * o->n_windows > NUMBERS_MAX
               ? -E2BIG
               : array_push(
                     o->v, o->n, o->cap, NUMBERS_MAX,
                     (struct span_requests_row){arena_str(&o->arena, s->version), arena_str(&o->arena, s->instance)});
    if (*ret < 0)
        return NULL;
    row = &o->v[o->n - 1];
    row->count = arena_zalloc_array(&o->arena, o->n_windows, sizeof *row->count);
    row->errors = arena_zalloc_array(&o->arena, o->n_windows, sizeof *row->errors);
    row->duration = arena_zalloc_array(&o->arena, o->n_windows, sizeof *row->duration);
    if (o->arena.failed || map_insert(&c->rows, h, o->n - 1) < 0)
        *ret = -ENOMEM;
    return *ret < 0 ? NULL : row;
}

static int count_request(void *ctx, const struct span_row *s)
{
    struct counting *c = ctx;
    struct span_requests_row *row;
    uint32_t i = (uint32_t) ((s->start - c->q->from) / c->step);
    int r = 0;

    row = find_row(c, s, &r);
    if (!row)
        return r;
    row->count[i]++;
    row->errors[i] += s->status == SPAN_ERROR;
    row->duration[i] = wrap_add(row->duration[i], s->duration);
    return 0;
}

int span_index_requests(struct span_index *x, const struct span_requests_query *q, struct span_requests *ret,
                        struct err *e)
{
    struct span_filter f = {.tenant = q->tenant,
                            .from = q->from,
                            .to = q->to,
                            .service = q->service,
                            .requests = true,
                            .cancel = q->cancel};
    struct counting c = {.q = q, .out = ret, .step = q->step > 0 ? q->step : MAX(q->to - q->from, 1)};
    int r;

    *ret = (struct span_requests){0};
    arena_init(&ret->arena, 0);
    if (q->to <= q->from)
        return err_set(e, -EINVAL, "the time range is empty: 'from' must be before 'to'");
    if ((q->to - q->from - 1) / c.step >= NUMBERS_MAX)
        return err_set(e, -E2BIG, "too many windows; use a larger step");
    ret->n_windows = (uint32_t) ((q->to - q->from - 1) / c.step + 1);
    r = span_index_each(x, &f, count_request, &c, e);
    map_done(&c.rows);
    if (r == -E2BIG)
        r = err_set(e, r, "too many versions, instances and windows; use a shorter time range");
    if (r < 0)
        span_requests_done(ret);
    return r;
}

void span_requests_done(struct span_requests *r)
{
    mem_free(r->v);
    arena_done(&r->arena);
    *r = (struct span_requests){0};
}
