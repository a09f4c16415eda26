/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels of Pyroscope's senders that are more than labels, see received.h. otel-profiling-go and its siblings name the span
 * of a sample in span_id, older ones in profile_id, and its trace in trace_id; such samples get a link, as OTLP has it. The
 * batch comes directly from a decoder and is not shared yet.
 */
#include <errno.h>

#include "base/bytes.h"
#include "base/map.h"
#include "model/batch.h"
#include "model/semconv.h"
#include "pipeline/receivers/received.h"

enum link_label { LINK_NONE, LINK_SPAN, LINK_TRACE };

struct linking {
    struct batch *b;
    uint8_t *kinds;      /* per attribute: enum link_label */
    struct map links;    /* by both attributes */
    uint32_t (*keys)[2]; /* per new link: its span's and its trace's attribute, 0 = none */
    uint32_t n_old, n_keys;
    struct map runs; /* by offset of the old list */
    struct linked_run {
        struct run from, to;
    } * list;
    uint32_t n_runs;
};

static enum link_label kind_of(const struct batch *b, const struct attr *a)
{
    struct str key = batch_string(b, a->key), value = value_str(&a->value);
    uint8_t id[16];

    if (a->value.kind != VALUE_STR)
        return LINK_NONE;
    if (str_is(key, "span_id") || str_is(key, "profile_id"))
        return value.n == 16 && hex_decode(value, id) >= 0 ? LINK_SPAN : LINK_NONE;
    if (str_is(key, "trace_id"))
        return value.n == 32 && hex_decode(value, id) >= 0 ? LINK_TRACE : LINK_NONE;
    return LINK_NONE;
}

static int find_link(struct linking *x, uint32_t span, uint32_t trace, uint32_t *ret)
{
    uint64_t h = hash64_u64((uint64_t) span << 32 | trace);
    struct dict *d = &x->b->dict;
    struct link *l;

    for (struct map_pos p = map_find(&x->links, h); p.index != MAP_NONE; p = map_next(&x->links, p))
        if (x->keys[p.index][0] == span && x->keys[p.index][1] == trace) {
            *ret = x->n_old + p.index;
            return 0;
        }
    if (map_insert(&x->links, h, x->n_keys) < 0)
        return -ENOMEM;
    l = &d->links[x->n_old + x->n_keys];
    *l = (struct link){0};
    hex_decode(value_str(&d->attrs[span].value), l->span_id);
    if (trace)
        hex_decode(value_str(&d->attrs[trace].value), l->trace_id);
    x->keys[x->n_keys][0] = span;
    x->keys[x->n_keys][1] = trace;
    *ret = x->n_old + x->n_keys++;
    d->n_links = x->n_old + x->n_keys;
    return 0;
}

/* The list without the attributes that the link replaces. */
static int strip(struct linking *x, struct run from, struct run *ret)
{
    struct dict *d = &x->b->dict;
    uint64_t h = hash64_u64((uint64_t) from.off << 32 | from.n);

    for (struct map_pos p = map_find(&x->runs, h); p.index != MAP_NONE; p = map_next(&x->runs, p))
        if (x->list[p.index].from.off == from.off && x->list[p.index].from.n == from.n) {
            *ret = x->list[p.index].to;
            return 0;
        }
    if (map_insert(&x->runs, h, x->n_runs) < 0)
        return -ENOMEM;
    *ret = (struct run){d->n_indices, 0};
    for (uint32_t i = 0; i < from.n; i++) {
        uint32_t attr = d->indices[from.off + i];

        if (x->kinds[attr] == LINK_NONE)
            d->indices[d->n_indices + ret->n++] = attr;
    }
    d->n_indices += ret->n;
    x->list[x->n_runs++] = (struct linked_run){from, *ret};
    return 0;
}

/* The span's and the trace's attribute of a sample; 0 = none. */
static bool find_labels(const struct linking *x, const struct sample *s, uint32_t *ret_span, uint32_t *ret_trace)
{
    *ret_span = *ret_trace = 0;
    for (uint32_t i = 0; i < s->attrs.n; i++) {
        uint32_t attr = x->b->dict.indices[s->attrs.off + i];

        if (x->kinds[attr] == LINK_SPAN)
            *ret_span = attr;
        else if (x->kinds[attr] == LINK_TRACE)
            *ret_trace = attr;
    }
    return *ret_span && !s->link;
}

/* Makes room: every sample with such labels may need a link and a list of its own. */
static int make_room(struct linking *x)
{
    struct dict *d = &x->b->dict;
    struct arena *a = &x->b->arena;
    size_t n = 0, indices = 0;
    uint32_t span, trace, *more;
    struct link *links;

    for (uint32_t i = 0; i < x->b->n_samples; i++)
        if (find_labels(x, &x->b->samples[i], &span, &trace)) {
            n++;
            indices += x->b->samples[i].attrs.n - 1u;
        }
    if (n + d->n_links > UINT32_MAX || indices + d->n_indices > UINT32_MAX)
        return -E2BIG;
    links = arena_alloc(a, (d->n_links + n + 1) * sizeof *links);
    more = arena_alloc(a, (d->n_indices + indices + 1) * sizeof *more);
    x->keys = arena_alloc(a, (n + 1) * sizeof *x->keys);
    x->list = arena_alloc(a, (n + 1) * sizeof *x->list);
    if (!links || !more || !x->keys || !x->list)
        return -ENOMEM;
    memcpy(links, d->links, d->n_links * sizeof *links);
    if (d->n_indices)
        memcpy(more, d->indices, d->n_indices * sizeof *more);
    d->links = links;
    d->indices = more;
    x->n_old = d->n_links;
    return 0;
}

int received_links(struct batch *b)
{
    struct linking x = {.b = b, .kinds = arena_zalloc_array(&b->arena, (size_t) b->dict.n_attrs + 1, 1)};
    uint32_t span, trace;
    bool any = false;
    int r = 0;

    if (!x.kinds)
        return -ENOMEM;
    for (uint32_t i = 1; i < b->dict.n_attrs; i++) {
        x.kinds[i] = (uint8_t) kind_of(b, &b->dict.attrs[i]);
        any |= x.kinds[i] == LINK_SPAN;
    }
    if (!any)
        return 0;
    r = make_room(&x);
    for (uint32_t i = 0; r == 0 && i < b->n_samples; i++) {
        struct sample *s = &b->samples[i];

        if (!find_labels(&x, s, &span, &trace))
            continue;
        r = find_link(&x, span, trace, &s->link);
        if (r == 0)
            r = strip(&x, s->attrs, &s->attrs);
    }
    map_done(&x.links);
    map_done(&x.runs);
    return r;
}

/* Appends an entry to each table that the name of a profile needs. */
int received_name(struct batch *b, struct str name)
{
    struct dict *d = &b->dict;
    struct str *strings = arena_alloc(&b->arena, ((size_t) d->n_strings + 1) * sizeof *strings);
    struct attr *attrs = arena_alloc(&b->arena, ((size_t) d->n_attrs + 1) * sizeof *attrs);
    size_t n = d->n_indices;
    uint32_t *indices;

    for (uint32_t i = 0; i < b->n_profiles; i++)
        n += b->profiles[i].attrs.n + 1u;
    indices = n <= UINT32_MAX ? arena_alloc(&b->arena, (n + 1) * sizeof *indices) : NULL;
    if (!strings || !attrs || !indices)
        return -ENOMEM;
    memcpy(strings, d->strings, d->n_strings * sizeof *strings);
    memcpy(attrs, d->attrs, d->n_attrs * sizeof *attrs);
    if (d->n_indices)
        memcpy(indices, d->indices, d->n_indices * sizeof *indices);
    name = arena_str(&b->arena, name);
    if (!name.p)
        return -ENOMEM;
    strings[d->n_strings] = STR(SEMCONV_PPROF_NAME);
    attrs[d->n_attrs] = (struct attr){.key = d->n_strings, .value = {.kind = VALUE_STR, .n = name.n, .str = name.p}};
    d->strings = strings;
    d->attrs = attrs;
    d->indices = indices;
    for (uint32_t i = 0; i < b->n_profiles; i++) {
        struct run *run = &b->profiles[i].attrs, to = {d->n_indices, run->n + 1};

        for (uint32_t k = 0; k < run->n; k++)
            indices[d->n_indices++] = indices[run->off + k];
        indices[d->n_indices++] = d->n_attrs;
        *run = to;
    }
    d->n_strings++;
    d->n_attrs++;
    return 0;
}
