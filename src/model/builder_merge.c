/* SPDX-License-Identifier: Apache-2.0 */
/*
 * builder_append() and builder_append_part() of builder.h: merge one batch into another. Each table of the source gets
 * an array of new indices. A whole batch walks the tables once in the order in which they point at each other (strings,
 * attributes, mappings, functions, locations, stacks, links); a part maps only what its samples reach, on demand.
 *
 * Most attribute sets of samples are runs that were seen before (decoders and builders share them), so the last few are
 * cached by run and need no hashing.
 */
#include <errno.h>

#include "base/mem.h"
#include "model/builder.h"

#define UNMAPPED UINT32_MAX

enum { RECENT_SETS = 256 };

struct recent_set {
    struct run from, to; /* from.n == 0: free */
};

struct remap {
    struct builder *b;
    const struct batch *src;
    uint32_t *strings, *attrs, *mappings, *functions, *locations, *stacks, *links;
    const struct remap *reached; /* if set, only entries that it has mapped are */
    uint32_t *list;              /* scratch for one list of indices, as long as the longest */
    struct line *lines;
    uint32_t first_profile; /* profiles of the destination before this append: groups are numbered from here */
    struct recent_set sets[RECENT_SETS];
};

/* --- one entry, on demand; index 0 maps to 0 in every table --- */

static uint32_t map_string(struct remap *m, uint32_t i)
{
    if (m->strings[i] == UNMAPPED)
        m->strings[i] = builder_string(m->b, m->src->dict.strings[i]);
    return m->strings[i];
}

static uint32_t map_attr(struct remap *m, uint32_t i)
{
    const struct attr *a = &m->src->dict.attrs[i];

    if (m->attrs[i] == UNMAPPED)
        m->attrs[i] = builder_attr(m->b, map_string(m, a->key), map_string(m, a->unit), &a->value);
    return m->attrs[i];
}

static const uint32_t *map_attrs(struct remap *m, struct run r)
{
    for (uint32_t i = 0; i < r.n; i++)
        m->list[i] = map_attr(m, m->src->dict.indices[r.off + i]);
    return m->list;
}

/* Maps a set of attributes to a run of the destination. */
static struct run map_set(struct remap *m, struct run r)
{
    struct recent_set *s = &m->sets[(r.off * 31 + r.n) % RECENT_SETS];

    if (!r.n)
        return (struct run){0};
    if (s->from.off != r.off || s->from.n != r.n)
        *s = (struct recent_set){r, builder_attrs(m->b, map_attrs(m, r), r.n)};
    return s->to;
}

static uint32_t map_mapping(struct remap *m, uint32_t i)
{
    struct mapping x;

    if (m->mappings[i] != UNMAPPED)
        return m->mappings[i];
    x = m->src->dict.mappings[i];
    x.filename = map_string(m, x.filename);
    m->mappings[i] = builder_mapping(m->b, &x, map_attrs(m, x.attrs), x.attrs.n);
    return m->mappings[i];
}

static uint32_t map_function(struct remap *m, uint32_t i)
{
    struct function f;

    if (m->functions[i] != UNMAPPED)
        return m->functions[i];
    f = m->src->dict.functions[i];
    f.name = map_string(m, f.name);
    f.system_name = map_string(m, f.system_name);
    f.filename = map_string(m, f.filename);
    m->functions[i] = builder_function(m->b, &f);
    return m->functions[i];
}

static uint32_t map_location(struct remap *m, uint32_t i)
{
    const struct dict *d = &m->src->dict;
    const struct location *l = &d->locations[i];
    uint32_t mapping;

    if (m->locations[i] != UNMAPPED)
        return m->locations[i];
    mapping = map_mapping(m, l->mapping);
    for (uint32_t k = 0; k < l->lines.n; k++) {
        m->lines[k] = d->lines[l->lines.off + k];
        m->lines[k].function = map_function(m, m->lines[k].function);
    }
    m->locations[i] = builder_location(m->b, &(struct builder_location){.mapping = mapping,
                                                                        .address = l->address,
                                                                        .lines = m->lines,
                                                                        .n_lines = l->lines.n,
                                                                        .attrs = map_attrs(m, l->attrs),
                                                                        .n_attrs = l->attrs.n});
    return m->locations[i];
}

static uint32_t map_stack(struct remap *m, uint32_t i)
{
    const struct dict *d = &m->src->dict;
    struct run r = d->stacks[i];

    if (m->stacks[i] != UNMAPPED)
        return m->stacks[i];
    for (uint32_t k = 0; k < r.n; k++) /* first, since mapping a location uses the scratch list too */
        if (m->locations[d->indices[r.off + k]] == UNMAPPED)
            map_location(m, d->indices[r.off + k]);
    for (uint32_t k = 0; k < r.n; k++)
        m->list[k] = m->locations[d->indices[r.off + k]];
    m->stacks[i] = builder_stack(m->b, m->list, r.n);
    return m->stacks[i];
}

static uint32_t map_link(struct remap *m, uint32_t i)
{
    if (m->links[i] == UNMAPPED)
        m->links[i] = builder_link(m->b, &m->src->dict.links[i]);
    return m->links[i];
}

static void map_table(struct remap *m, uint32_t (*map)(struct remap *m, uint32_t i), const uint32_t *reached,
                      uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (!reached || reached[i] != UNMAPPED)
            map(m, i);
}

/* Maps every table, in order, so that merging loses nothing that a sender put into its dictionary. */
static void map_all(struct remap *m)
{
    const struct dict *d = &m->src->dict;
    const struct remap *r = m->reached;

    builder_reserve(m->b, d);
    map_table(m, map_string, r ? r->strings : NULL, d->n_strings);
    map_table(m, map_attr, r ? r->attrs : NULL, d->n_attrs);
    map_table(m, map_mapping, r ? r->mappings : NULL, d->n_mappings);
    map_table(m, map_function, r ? r->functions : NULL, d->n_functions);
    map_table(m, map_location, r ? r->locations : NULL, d->n_locations);
    map_table(m, map_stack, r ? r->stacks : NULL, d->n_stacks);
    map_table(m, map_link, r ? r->links : NULL, d->n_links);
}

/* --- body --- */

static struct str keep(struct builder *b, struct str s)
{
    return s.n ? arena_str(&builder_batch(b)->arena, s) : (struct str){0};
}

/* Groups of two sources must not coincide in one scope, so a group is renumbered by its first profile. Its profiles are
 * adjacent, and there are at most as many as a profile has types. */
static uint32_t map_group(const struct remap *m, const struct scope *s, const struct profile *p)
{
    const struct profile *first = p, *scope = &m->src->profiles[s->profiles.off];

    if (!p->group)
        return 0;
    for (const struct profile *q = p; q > scope && p - q < PROFILE_TYPES_MAX; q--)
        if (q[-1].group == p->group)
            first = q - 1;
    return m->first_profile + 1 + (uint32_t) (first - m->src->profiles);
}

static struct profile *merge_profile_head(struct remap *m, const struct scope *s, const struct profile *p)
{
    struct value_type types[PROFILE_TYPES_MAX];
    struct profile *q;

    for (uint32_t i = 0; i < p->n_types; i++)
        types[i] = (struct value_type){map_string(m, p->types[i].type), map_string(m, p->types[i].unit)};
    q = builder_profile(m->b, types, p->n_types);
    if (!q)
        return NULL;
    q->default_type = p->default_type;
    q->period_type = (struct value_type){map_string(m, p->period_type.type), map_string(m, p->period_type.unit)};
    q->period = p->period;
    q->time_ns = p->time_ns;
    q->duration_ns = p->duration_ns;
    memcpy(q->id, p->id, sizeof q->id);
    q->dropped_attrs = p->dropped_attrs;
    q->payload_format = keep(m->b, p->payload_format);
    q->payload = keep(m->b, p->payload);
    q->group = map_group(m, s, p);
    q->attrs = map_set(m, p->attrs);
    return q;
}

/* The samples of p that lie in [from, from + n) of the source's samples. */
static void merge_profile(struct remap *m, const struct scope *scope, const struct profile *p, uint32_t from,
                          uint32_t n)
{
    const struct batch *src = m->src;
    uint32_t first = MAX(from, p->samples.off);
    uint32_t end = (uint32_t) MIN((uint64_t) from + n, (uint64_t) p->samples.off + p->samples.n);

    if (!merge_profile_head(m, scope, p) || first >= end)
        return;
    builder_reserve_samples(m->b, end - first);
    for (uint32_t i = first; i < end && !builder_error(m->b); i++) {
        const struct sample *s = &src->samples[i];
        const int64_t *values = s->values.n ? src->values + s->values.off : NULL; /* the tables may be NULL */
        const uint64_t *times = s->timestamps.n ? src->timestamps + s->timestamps.off : NULL;

        builder_sample(m->b, &(struct builder_sample){.stack = map_stack(m, s->stack),
                                                      .link = map_link(m, s->link),
                                                      .attrs = map_set(m, s->attrs),
                                                      .values = values,
                                                      .n_values = s->values.n,
                                                      .timestamps = times,
                                                      .n_timestamps = s->timestamps.n});
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

/* Extends the last resource when it is equal. Children are ranges, so only the last resource can grow. */
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
    last->schema_url = keep(b, r->schema_url);
    last->entity_refs = keep(b, r->entity_refs);
}

static void merge_scope(struct builder *b, const struct scope *s)
{
    struct batch *dst = builder_batch(b);
    struct resource *r;
    struct scope *last;

    if (builder_error(b))
        return;
    r = &dst->resources[dst->n_resources - 1];
    last = r->scopes.n ? &dst->scopes[dst->n_scopes - 1] : NULL;
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
    last->schema_url = keep(b, s->schema_url);
    last->dropped_attrs = s->dropped_attrs;
}

/* Whether a profile belongs to the part. An empty profile goes with the part that its position lies in. */
static bool in_part(const struct profile *p, uint32_t from, uint32_t n)
{
    uint64_t start = p->samples.off, end = start + MAX(p->samples.n, 1u);

    return end > from && start < (uint64_t) from + n;
}

static void merge_body(struct remap *m, uint32_t from, uint32_t n, bool all)
{
    const struct batch *src = m->src;
    struct builder *b = m->b;

    for (uint32_t i = 0; i < src->n_resources && !builder_error(b); i++) {
        const struct resource *r = &src->resources[i];
        bool opened = false;

        if (all)
            merge_resource(b, r);
        for (uint32_t k = 0; k < r->scopes.n && !builder_error(b); k++) {
            const struct scope *s = &src->scopes[r->scopes.off + k];
            bool scoped = false;

            if (all)
                merge_scope(b, s);
            for (uint32_t j = 0; j < s->profiles.n && !builder_error(b); j++) {
                const struct profile *p = &src->profiles[s->profiles.off + j];

                if (!all && !in_part(p, from, n))
                    continue;
                if (!all && !opened)
                    merge_resource(b, r);
                if (!all && !scoped)
                    merge_scope(b, s);
                opened = scoped = true;
                if (!builder_error(b))
                    merge_profile(m, s, p, from, n);
            }
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

static uint32_t *index_table(struct arena *a, uint32_t n)
{
    uint32_t *v = arena_alloc(a, n * sizeof *v);

    if (!v)
        return NULL;
    memset(v, 0xff, n * sizeof *v);
    v[0] = 0;
    return v;
}

static struct remap *new_remap(struct arena *a, struct builder *b, const struct batch *src)
{
    const struct dict *d = &src->dict;
    struct remap *m = arena_zalloc(a, sizeof *m);

    if (!m)
        return NULL;
    *m = (struct remap){
        .b = b,
        .src = src,
        .first_profile = builder_batch(b)->n_profiles,
        .strings = index_table(a, d->n_strings),
        .attrs = index_table(a, d->n_attrs),
        .mappings = index_table(a, d->n_mappings),
        .functions = index_table(a, d->n_functions),
        .locations = index_table(a, d->n_locations),
        .stacks = index_table(a, d->n_stacks),
        .links = index_table(a, d->n_links),
        .list = arena_alloc(a, longest_list(src) * sizeof(uint32_t)),
        .lines = arena_alloc(a, most_lines(d) * sizeof(struct line)),
    };
    return m->strings && m->attrs && m->mappings && m->functions && m->locations && m->stacks && m->links && m->list &&
                   m->lines
               ? m
               : NULL;
}

static int append(struct builder *b, const struct batch *src, uint32_t from, uint32_t n, bool all)
{
    struct arena scratch;
    struct remap *m;

    if (builder_error(b))
        return builder_error(b);
    arena_init(&scratch, 0);
    m = new_remap(&scratch, b, src);
    if (m && all)
        map_all(m);
    if (m)
        merge_body(m, from, n, all);
    arena_done(&scratch);
    return m ? builder_error(b) : -ENOMEM;
}

int builder_append(struct builder *b, const struct batch *src)
{
    return append(b, src, 0, src->n_samples, true);
}

int builder_append_part(struct builder *b, const struct batch *src, uint32_t from, uint32_t n)
{
    return append(b, src, from, n, false);
}

/* A first batch, which is not kept, shows what is reached; the second has it in the order of src. */
static int build_reached(struct arena *scratch, const struct batch *src, struct builder *first, struct builder *second)
{
    struct remap *reached = new_remap(scratch, first, src), *m = new_remap(scratch, second, src);

    if (!reached || !m)
        return -ENOMEM;
    merge_body(reached, 0, UINT32_MAX, false);
    if (builder_error(first))
        return builder_error(first);
    m->reached = reached;
    map_all(m);
    merge_body(m, 0, UINT32_MAX, false);
    return builder_error(second);
}

int builder_reached(const struct batch *src, struct batch **ret, struct err *e)
{
    _cleanup_(builder_freep) struct builder *first = NULL, *second = NULL;
    struct arena scratch;
    int r = builder_new(NULL, &first);

    if (r >= 0)
        r = builder_new(NULL, &second);
    if (r >= 0) {
        arena_init(&scratch, 0);
        r = build_reached(&scratch, src, first, second);
        arena_done(&scratch);
    }
    if (r < 0)
        return err_set(e, r, "out of memory for a batch");
    return builder_finish(second, ret, e);
}
