/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up samples by the span that they are linked to, and sets of spans, for all engines (store_spans.h). */
#include "store/store_spans.h"

#include <errno.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/wrap.h"

int store_span_set_init(struct store_span_set *s, const struct link *v, uint32_t n)
{
    int r = n > STORE_SPANS_MAX ? -E2BIG : 0;

    *s = (struct store_span_set){.v = v, .n = n};
    if (r == 0 && n)
        r = map_reserve(&s->map, n);
    for (uint32_t i = 0; r == 0 && i < n; i++)
        r = map_insert(&s->map, hash64(&v[i], sizeof v[i]), i);
    if (r < 0)
        store_span_set_done(s);
    return r;
}

void store_span_set_done(struct store_span_set *s)
{
    map_done(&s->map);
    *s = (struct store_span_set){0};
}

bool store_span_set_has(const struct store_span_set *s, const struct link *l)
{
    for (struct map_pos p = map_find(&s->map, hash64(l, sizeof *l)); p.index != MAP_NONE; p = map_next(&s->map, p))
        if (memcmp(&s->v[p.index], l, sizeof *l) == 0)
            return true;
    return false;
}

void store_spans_init(struct store_spans *s)
{
    *s = (struct store_spans){0};
    arena_init(&s->arena, 0);
}

void store_spans_done(struct store_spans *s)
{
    mem_free(s->v);
    map_done(&s->map);
    arena_done(&s->arena);
    *s = (struct store_spans){0};
}

static int find_span(struct store_spans *s, const struct span_sample *v, struct store_span **ret)
{
    uint64_t h = hash64(v->link, sizeof *v->link);
    int r;

    for (struct map_pos p = map_find(&s->map, h); p.index != MAP_NONE; p = map_next(&s->map, p))
        if (memcmp(&s->v[p.index].link, v->link, sizeof *v->link) == 0) {
            *ret = &s->v[p.index];
            return 0;
        }
    if (s->n == STORE_SPANS_MAX)
        return -E2BIG;
    r = array_reserve(s->v, s->cap, (size_t) s->n + 1, STORE_SPANS_MAX);
    if (r == 0)
        r = map_insert(&s->map, h, s->n);
    if (r < 0)
        return r;
    *ret = &s->v[s->n++];
    **ret = (struct store_span){
        .link = *v->link, .service = arena_str(&s->arena, v->service), .from = INT64_MAX, .to = INT64_MIN};
    return 0;
}

int store_spans_add(struct store_spans *s, const struct span_sample *v)
{
    struct store_span *span;
    int r;

    s->total = wrap_add(s->total, v->value);
    if (!v->link)
        return 0;
    r = find_span(s, v, &span);
    if (r < 0)
        return r;
    s->linked = wrap_add(s->linked, v->value);
    span->value = wrap_add(span->value, v->value);
    span->samples += v->count;
    if (unlikely(str_cmp(v->service, span->service) < 0))
        span->service = arena_str(&s->arena, v->service);
    span->from = MIN(span->from, v->from);
    span->to = MAX(span->to, v->to);
    return 0;
}
