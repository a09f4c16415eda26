/* SPDX-License-Identifier: Apache-2.0 */
/*
 * builder_append() of builder.h: one batch into another. Each table of the source is walked once in the order in which
 * tables point at each other (strings, attributes, mappings, functions, locations, stacks, links) and leaves an array
 * of new indices; samples are then copied with their indices replaced.
 */
#include <errno.h>

#include "base/mem.h"
#include "model/builder.h"

struct remap {
    uint32_t *strings, *attrs, *mappings, *functions, *locations, *stacks, *links;
    uint32_t *list; /* scratch for one list of indices, as long as the longest */
    struct line *lines;
};

static uint32_t *map_list(struct remap *m, const struct dict *d, struct run r, const uint32_t *by)
{
    for (uint32_t i = 0; i < r.n; i++)
        m->list[i] = by[d->indices[r.off + i]];
    return m->list;
}

static void merge_symbols(struct builder *b, const struct dict *d, struct remap *m)
{
    for (uint32_t i = 1; i < d->n_mappings; i++) {
        struct mapping x = d->mappings[i];

        x.filename = m->strings[x.filename];
        m->mappings[i] = builder_mapping(b, &x, map_list(m, d, x.attrs, m->attrs), x.attrs.n);
    }
    for (uint32_t i = 1; i < d->n_functions; i++) {
        struct function f = d->functions[i];

        f.name = m->strings[f.name];
        f.system_name = m->strings[f.system_name];
        f.filename = m->strings[f.filename];
        m->functions[i] = builder_function(b, &f);
    }
    for (uint32_t i = 1; i < d->n_locations; i++) {
        const struct location *l = &d->locations[i];

        for (uint32_t k = 0; k < l->lines.n; k++) {
            m->lines[k] = d->lines[l->lines.off + k];
            m->lines[k].function = m->functions[m->lines[k].function];
        }
        m->locations[i] = builder_location(b, m->mappings[l->mapping], l->address, m->lines, l->lines.n,
                                           map_list(m, d, l->attrs, m->attrs), l->attrs.n);
    }
}

static void merge_dict(struct builder *b, const struct dict *d, struct remap *m)
{
    for (uint32_t i = 1; i < d->n_strings; i++)
        m->strings[i] = builder_string(b, d->strings[i]);
    for (uint32_t i = 1; i < d->n_attrs; i++)
        m->attrs[i] = builder_attr(b, m->strings[d->attrs[i].key], m->strings[d->attrs[i].unit], &d->attrs[i].value);
    merge_symbols(b, d, m);
    for (uint32_t i = 1; i < d->n_stacks; i++)
        m->stacks[i] = builder_stack(b, map_list(m, d, d->stacks[i], m->locations), d->stacks[i].n);
    for (uint32_t i = 1; i < d->n_links; i++)
        m->links[i] = builder_link(b, &d->links[i]);
}

static void merge_profile(struct builder *b, const struct batch *src, const struct profile *p, struct remap *m)
{
    struct value_type types[PROFILE_TYPES_MAX];
    struct arena *a = &builder_batch(b)->arena;
    struct profile *q;

    for (uint32_t i = 0; i < p->n_types; i++)
        types[i] = (struct value_type){m->strings[p->types[i].type], m->strings[p->types[i].unit]};
    q = builder_profile(b, types, p->n_types);
    if (!q)
        return;
    q->default_type = p->default_type;
    q->period_type = (struct value_type){m->strings[p->period_type.type], m->strings[p->period_type.unit]};
    q->period = p->period;
    q->time_ns = p->time_ns;
    q->duration_ns = p->duration_ns;
    memcpy(q->id, p->id, sizeof q->id);
    q->dropped_attrs = p->dropped_attrs;
    q->payload_format = arena_str(a, p->payload_format);
    q->payload = arena_str(a, p->payload);
    q->group = p->group;
    q->attrs = builder_attrs(b, map_list(m, &src->dict, p->attrs, m->attrs), p->attrs.n);
    for (uint32_t i = 0; i < p->samples.n && !builder_error(b); i++) {
        const struct sample *s = &src->samples[p->samples.off + i];

        builder_sample(b, m->stacks[s->stack], m->links[s->link],
                       builder_attrs(b, map_list(m, &src->dict, s->attrs, m->attrs), s->attrs.n),
                       src->values + s->values.off, s->values.n, src->timestamps + s->timestamps.off, s->timestamps.n);
    }
}

static bool kvs_eq(const struct kvs *a, const struct kvs *b)
{
    if (a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (!str_eq(a->v[i].key, b->v[i].key) || !value_eq(&a->v[i].value, &b->v[i].value))
            return false;
    return true;
}

/* Continues the last resource when it is equal; children are ranges, so only the last one can grow. */
static void merge_resource(struct builder *b, const struct resource *r)
{
    struct batch *dst = builder_batch(b);
    struct resource *last = dst->n_resources ? &dst->resources[dst->n_resources - 1] : NULL;

    if (last && last->dropped_attrs == r->dropped_attrs && str_eq(last->schema_url, r->schema_url) &&
        str_eq(last->entity_refs, r->entity_refs) && kvs_eq(&last->attrs, &r->attrs))
        return;
    builder_resource(b);
    for (uint32_t i = 0; i < r->attrs.n; i++)
        builder_resource_attr(b, r->attrs.v[i].key, &r->attrs.v[i].value);
    if (builder_error(b))
        return;
    last = &dst->resources[dst->n_resources - 1];
    last->dropped_attrs = r->dropped_attrs;
    last->schema_url = arena_str(&dst->arena, r->schema_url);
    last->entity_refs = arena_str(&dst->arena, r->entity_refs);
}

static void merge_scope(struct builder *b, const struct scope *s)
{
    struct batch *dst = builder_batch(b);
    struct resource *r = &dst->resources[dst->n_resources - 1];
    struct scope *last = r->scopes.n ? &dst->scopes[dst->n_scopes - 1] : NULL;

    if (last && str_eq(last->name, s->name) && str_eq(last->version, s->version) &&
        str_eq(last->schema_url, s->schema_url) && last->dropped_attrs == s->dropped_attrs &&
        kvs_eq(&last->attrs, &s->attrs))
        return;
    builder_scope(b, s->name, s->version);
    for (uint32_t i = 0; i < s->attrs.n; i++)
        builder_scope_attr(b, s->attrs.v[i].key, &s->attrs.v[i].value);
    if (builder_error(b))
        return;
    last = &dst->scopes[dst->n_scopes - 1];
    last->schema_url = arena_str(&dst->arena, s->schema_url);
    last->dropped_attrs = s->dropped_attrs;
}

static void merge_body(struct builder *b, const struct batch *src, struct remap *m)
{
    for (uint32_t i = 0; i < src->n_resources && !builder_error(b); i++) {
        const struct resource *r = &src->resources[i];

        merge_resource(b, r);
        for (uint32_t k = 0; k < r->scopes.n && !builder_error(b); k++) {
            const struct scope *s = &src->scopes[r->scopes.off + k];

            merge_scope(b, s);
            for (uint32_t j = 0; j < s->profiles.n && !builder_error(b); j++)
                merge_profile(b, src, &src->profiles[s->profiles.off + j], m);
        }
    }
}

static uint32_t longest_list(const struct batch *src)
{
    const struct dict *d = &src->dict;
    uint32_t n = 1;

    for (uint32_t i = 0; i < d->n_mappings; i++)
        n = MAX(n, d->mappings[i].attrs.n);
    for (uint32_t i = 0; i < d->n_locations; i++)
        n = MAX(n, d->locations[i].attrs.n);
    for (uint32_t i = 0; i < d->n_stacks; i++)
        n = MAX(n, d->stacks[i].n);
    for (uint32_t i = 0; i < src->n_profiles; i++)
        n = MAX(n, src->profiles[i].attrs.n);
    for (uint32_t i = 0; i < src->n_samples; i++)
        n = MAX(n, src->samples[i].attrs.n);
    return n;
}

static uint32_t most_lines(const struct dict *d)
{
    uint32_t n = 1;

    for (uint32_t i = 0; i < d->n_locations; i++)
        n = MAX(n, d->locations[i].lines.n);
    return n;
}

int builder_append(struct builder *b, const struct batch *src)
{
    const struct dict *d = &src->dict;
    struct arena scratch;
    struct remap m;

    if (builder_error(b))
        return builder_error(b);
    arena_init(&scratch, 0);
    m = (struct remap){
        .strings = arena_zalloc_array(&scratch, d->n_strings, sizeof(uint32_t)),
        .attrs = arena_zalloc_array(&scratch, d->n_attrs, sizeof(uint32_t)),
        .mappings = arena_zalloc_array(&scratch, d->n_mappings, sizeof(uint32_t)),
        .functions = arena_zalloc_array(&scratch, d->n_functions, sizeof(uint32_t)),
        .locations = arena_zalloc_array(&scratch, d->n_locations, sizeof(uint32_t)),
        .stacks = arena_zalloc_array(&scratch, d->n_stacks, sizeof(uint32_t)),
        .links = arena_zalloc_array(&scratch, d->n_links, sizeof(uint32_t)),
        .list = arena_zalloc_array(&scratch, longest_list(src), sizeof(uint32_t)),
        .lines = arena_zalloc_array(&scratch, most_lines(d), sizeof(struct line)),
    };
    if (!m.strings || !m.attrs || !m.mappings || !m.functions || !m.locations || !m.stacks || !m.links || !m.list ||
        !m.lines) {
        arena_done(&scratch);
        return -ENOMEM;
    }
    merge_dict(b, d, &m);
    merge_body(b, src, &m);
    arena_done(&scratch);
    return builder_error(b);
}
