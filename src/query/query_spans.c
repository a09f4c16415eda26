/* SPDX-License-Identifier: Apache-2.0 */
/* query_spans() of query.h: adds up samples by the span they are linked to. */
#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/wrap.h"
#include "model/batch.h"
#include "query/query.h"

enum { SPANS_MAX = 1 << 20 };

struct span_walk {
    struct query_spans *out;
    struct query_span *v;
    size_t cap;
    struct map map;
};

static struct query_span *span_of(struct span_walk *w, const struct link *l, struct str service)
{
    uint64_t h = hash64(l, sizeof *l);
    struct query_span *s;

    for (struct map_pos p = map_find(&w->map, h); p.index != MAP_NONE; p = map_next(&w->map, p))
        if (memcmp(&w->v[p.index].link, l, sizeof *l) == 0)
            return &w->v[p.index];
    if (array_reserve(w->v, w->cap, w->out->n_all + 1, SPANS_MAX) < 0 || map_insert(&w->map, h, w->out->n_all) < 0)
        return NULL;
    s = &w->v[w->out->n_all++];
    *s = (struct query_span){.link = *l, .from = INT64_MAX, .to = INT64_MIN};
    s->service = arena_str(&w->out->arena, service);
    return s;
}

/* Extends the span's range by the sample's own timestamps or, without any, by its profile's times. */
static void widen(struct query_span *s, const struct batch *b, const struct profile *p, const struct sample *v)
{
    for (uint32_t i = 0; i < v->timestamps.n; i++) {
        int64_t t = (int64_t) b->timestamps[v->timestamps.off + i];

        s->from = MIN(s->from, t);
        s->to = MAX(s->to, t);
    }
    if (!v->timestamps.n) {
        s->from = MIN(s->from, p->time_ns);
        s->to = MAX(s->to, wrap_add(p->time_ns, p->duration_ns));
    }
}

static int add_sample(struct span_walk *w, const struct batch *b, const struct profile *p, const struct sample *v,
                      struct str service)
{
    int64_t value = batch_sample_value(b, p, v, p->n_types - 1); /* a count may come before the value */
    struct query_span *s;

    w->out->total = wrap_add(w->out->total, value);
    if (!v->link)
        return 0;
    s = span_of(w, &b->dict.links[v->link], service);
    if (!s)
        return w->out->n_all == SPANS_MAX ? -E2BIG : -ENOMEM;
    w->out->linked = wrap_add(w->out->linked, value);
    s->value = wrap_add(s->value, value);
    s->samples++;
    widen(s, b, p, v);
    return 0;
}

static int add_batch(void *ctx, struct batch *b)
{
    struct span_walk *w = ctx;
    int r = 0;

    for (uint32_t i = 0; i < b->n_resources; i++) {
        const struct resource *res = &b->resources[i];
        const struct value *name = kvs_get(&res->attrs, STR("service.name"));
        struct str service = name ? value_str(name) : (struct str){0};

        for (uint32_t j = 0; j < res->scopes.n; j++) {
            const struct scope *sc = &b->scopes[res->scopes.off + j];

            for (uint32_t k = 0; k < sc->profiles.n; k++) {
                const struct profile *p = &b->profiles[sc->profiles.off + k];

                if (!w->out->unit.n)
                    w->out->unit = arena_str(&w->out->arena, batch_string(b, p->types[p->n_types - 1].unit));
                for (uint32_t m = 0; r == 0 && m < p->samples.n; m++)
                    r = add_sample(w, b, p, &b->samples[p->samples.off + m], service);
            }
        }
    }
    return r;
}

static int heaviest_first(const void *a, const void *b)
{
    const struct query_span *x = a, *y = b;

    if (x->value != y->value)
        return x->value < y->value ? 1 : -1;
    return memcmp(&x->link, &y->link, sizeof x->link);
}

int query_spans(struct store *s, struct query *q, uint32_t limit, struct query_spans *ret, struct err *e)
{
    struct span_walk w = {.out = ret};
    int r;

    *ret = (struct query_spans){0};
    arena_init(&ret->arena, 0);
    ret->type = q->q.columns[0].selector->type;
    q->q.no_names = true;
    r = s->ops->export(s, &q->q, add_batch, &w, e);
    if (r == -E2BIG)
        r = err_set(e, r, "more than %d spans: ask for a shorter range or one service", SPANS_MAX);
    if (r >= 0 && ret->n_all) {
        qsort(w.v, ret->n_all, sizeof *w.v, heaviest_first);
        ret->n = limit ? MIN(limit, ret->n_all) : ret->n_all;
        ret->v = arena_alloc(&ret->arena, ret->n * sizeof *ret->v);
        if (ret->v)
            memcpy(ret->v, w.v, ret->n * sizeof *ret->v);
        else
            r = -ENOMEM;
    }
    mem_free(w.v);
    map_done(&w.map);
    if (r < 0)
        query_spans_done(ret);
    return r < 0 ? r : 0;
}

void query_spans_done(struct query_spans *l)
{
    arena_done(&l->arena);
    *l = (struct query_spans){0};
}
