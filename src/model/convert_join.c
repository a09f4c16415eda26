/* SPDX-License-Identifier: Apache-2.0 */
/*
 * convert_to_single() and convert_join_types() of convert.h. Both work on units: a profile, or profiles of one scope
 * and group. Units of equal types are merged into one profile.
 *
 * The result shares the dictionary of its source, so order and unused entries stay; only where labels are added
 * (resource attributes, links) do strings, attributes and index lists become copies that can grow.
 *
 * Samples of a unit that is not merged with another stay as they are, one by one, even when two are equal: a pprof that
 * went through OTLP still has its original samples.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "model/convert.h"
#include "model/convert_joiner.h"

static struct value_type unit_type(const struct batch *b, const struct unit *u, uint32_t t)
{
    return u->n > 1 ? b->profiles[u->first + t].types[0] : b->profiles[u->first].types[t];
}

static bool type_eq(const struct batch *b, struct value_type x, struct value_type y)
{
    const struct str *s = b->dict.strings;

    return (x.type == y.type || str_eq(s[x.type], s[y.type])) && (x.unit == y.unit || str_eq(s[x.unit], s[y.unit]));
}

/* --- units --- */

/* Returns the end of the group that begins at `from`: a repeated type begins the next group. */
static uint32_t group_end(const struct batch *b, uint32_t from, uint32_t end)
{
    const struct profile *p = &b->profiles[from];
    uint32_t i = from + 1;

    if (!p->group || p->n_types != 1)
        return i;
    for (; i < end && i - from < PROFILE_TYPES_MAX; i++) {
        if (b->profiles[i].group != p->group || b->profiles[i].n_types != 1)
            return i;
        for (uint32_t k = from; k < i; k++)
            if (type_eq(b, b->profiles[k].types[0], b->profiles[i].types[0]))
                return i;
    }
    return i;
}

static bool same_types(const struct batch *b, const struct unit *x, const struct unit *y)
{
    if (x->n_types != y->n_types)
        return false;
    for (uint32_t i = 0; i < x->n_types; i++)
        if (!type_eq(b, unit_type(b, x, i), unit_type(b, y, i)))
            return false;
    return true;
}

static uint64_t types_hash(const struct batch *b, const struct unit *u)
{
    uint64_t h = u->n_types;

    for (uint32_t i = 0; i < u->n_types; i++) {
        struct value_type t = unit_type(b, u, i);

        h = hash64_u64(h ^ hash64_str(b->dict.strings[t.type])) ^ hash64_str(b->dict.strings[t.unit]);
    }
    return h;
}

/* j->rows serves as the index of sets until samples need it. */
static int add_unit(struct joiner *j, struct unit u)
{
    uint64_t h = types_hash(j->b, &u);
    size_t set = j->n_sets;
    int r;

    for (struct map_pos p = map_find(&j->rows, h); j->single && p.index != MAP_NONE; p = map_next(&j->rows, p))
        if (same_types(j->b, &j->units[j->sets[p.index].unit], &u)) {
            set = p.index;
            break;
        }
    u.set = (uint32_t) set;
    r = array_reserve(j->units, j->cap_units, j->n_units + 1, UINT32_MAX);
    if (r == 0 && set == j->n_sets)
        r = array_reserve(j->sets, j->cap_sets, j->n_sets + 1, UINT32_MAX);
    if (r == 0 && set == j->n_sets)
        r = map_insert(&j->rows, h, (uint32_t) set);
    if (r < 0)
        return r;
    if (set == j->n_sets)
        j->sets[j->n_sets++] = (struct set){.unit = (uint32_t) j->n_units};
    j->sets[set].n_units++;
    for (uint32_t i = 0; i < u.n; i++)
        j->sets[set].n_samples += j->b->profiles[u.first + i].samples.n;
    j->units[j->n_units++] = u;
    return 0;
}

static int find_units(struct joiner *j)
{
    const struct batch *b = j->b;
    int r = 0;

    for (uint32_t i = 0; i < b->n_resources; i++)
        for (uint32_t k = 0; k < b->resources[i].scopes.n; k++) {
            struct run p = b->scopes[b->resources[i].scopes.off + k].profiles;

            for (uint32_t at = p.off; r == 0 && at < p.off + p.n;) {
                uint32_t end = group_end(b, at, p.off + p.n);

                r = add_unit(j, (struct unit){
                                    .first = at,
                                    .n = end - at,
                                    .resource = i,
                                    .n_types = end - at > 1 ? end - at : b->profiles[at].n_types,
                                });
                at = end;
            }
        }
    return r;
}

/* --- samples --- */

/* Appends a sample whose values are all zero. */
static int add_sample(struct joiner *j, uint32_t stack, struct run attrs, uint32_t link, uint32_t n_types)
{
    struct batch *x = j->out;
    int r = array_reserve(x->samples, j->cap_samples, (size_t) x->n_samples + 1, UINT32_MAX);

    if (r == 0)
        r = array_reserve(x->values, j->cap_values, (size_t) x->n_values + n_types, UINT32_MAX);
    x->owned[OWN_SAMPLES] = x->samples;
    x->owned[OWN_VALUES] = x->values;
    if (r < 0)
        return r;
    if (n_types) /* timestamps alone have none */
        memset(x->values + x->n_values, 0, n_types * sizeof *x->values);
    x->samples[x->n_samples++] =
        (struct sample){.stack = stack, .attrs = attrs, .link = link, .values = {x->n_values, n_types}};
    x->n_values += n_types;
    return 0;
}

static bool same_list(const struct dict *d, struct run x, struct run y)
{
    return x.n == y.n &&
           (!x.n || x.off == y.off || memcmp(d->indices + x.off, d->indices + y.off, x.n * sizeof *d->indices) == 0);
}

/* Finds the sample of the result with this stack, these attributes and this link, or adds it. */
static int find_sample(struct joiner *j, uint32_t stack, struct run attrs, uint32_t link, uint32_t n_types,
                       uint32_t *ret)
{
    struct batch *x = j->out;
    uint64_t h = hash64_u64((uint64_t) stack << 32 | link) ^
                 (attrs.n ? hash64(x->dict.indices + attrs.off, attrs.n * sizeof(uint32_t)) : 0);
    int r;

    for (struct map_pos p = map_find(&j->rows, h); p.index != MAP_NONE; p = map_next(&j->rows, p)) {
        const struct sample *s = &x->samples[p.index];

        if (s->stack == stack && s->link == link && same_list(&x->dict, s->attrs, attrs)) {
            *ret = p.index;
            return 0;
        }
    }
    r = add_sample(j, stack, attrs, link, n_types);
    if (r == 0)
        r = map_insert(&j->rows, h, x->n_samples - 1);
    *ret = x->n_samples - 1;
    return r;
}

/* Adds profile p of the source to types [type, type + p->n_types) of the set's samples. base != UINT32_MAX: sample i of
 * p is sample base + i of the result. */
static int add_profile(struct joiner *j, const struct profile *p, uint32_t type, uint32_t n_types, uint32_t base)
{
    const struct batch *b = j->b;
    struct batch *x = j->out;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < p->samples.n; i++) {
        const struct sample *s = &b->samples[p->samples.off + i];
        uint32_t at = base + i;
        struct run attrs;

        if (base == UINT32_MAX) {
            r = joiner_sample_attrs(j, s, &attrs);
            if (r == 0)
                r = find_sample(j, s->stack, attrs, j->single ? 0 : s->link, n_types, &at);
        }
        for (uint32_t k = 0; r == 0 && k < p->n_types; k++) {
            int64_t *sum = &x->values[x->samples[at].values.off + type + k];

            *sum = wrap_add(*sum, batch_sample_value(b, p, s, k));
        }
    }
    return r;
}

/* True when all profiles of the unit list the same stacks with the same attributes in the same order. */
static bool is_parallel(const struct batch *b, const struct unit *u)
{
    const struct profile *p = &b->profiles[u->first];

    for (uint32_t i = 1; i < u->n; i++) {
        const struct profile *q = &b->profiles[u->first + i];

        if (q->samples.n != p->samples.n)
            return false;
        for (uint32_t k = 0; k < p->samples.n; k++) {
            const struct sample *s = &b->samples[p->samples.off + k], *t = &b->samples[q->samples.off + k];

            if (s->stack != t->stack || s->link != t->link || s->attrs.n != t->attrs.n)
                return false;
        }
    }
    return true;
}

/* Appends a sample of zeroes for each sample of p, in order. */
static int copy_samples(struct joiner *j, const struct profile *p, uint32_t n_types)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < p->samples.n; i++) {
        const struct sample *s = &j->b->samples[p->samples.off + i];
        struct run attrs;

        r = joiner_sample_attrs(j, s, &attrs);
        if (r == 0)
            r = add_sample(j, s->stack, attrs, j->single ? 0 : s->link, n_types);
    }
    return r;
}

/* A profile that is not joined with another keeps its samples, including their timestamps. */
static int keep_samples(struct joiner *j, const struct profile *p)
{
    struct batch *x = j->out;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < p->samples.n; i++) {
        const struct sample *s = &j->b->samples[p->samples.off + i];

        r = add_sample(j, s->stack, s->attrs, s->link, s->values.n);
        if (r < 0)
            return r;
        x->samples[x->n_samples - 1].timestamps = s->timestamps;
        if (s->values.n)
            memcpy(x->values + x->n_values - s->values.n, j->b->values + s->values.off,
                   s->values.n * sizeof *x->values);
    }
    return 0;
}

static int add_unit_samples(struct joiner *j, const struct unit *u)
{
    const struct profile *p = &j->b->profiles[u->first];
    uint32_t base = UINT32_MAX;
    int r;

    if (!j->single && u->n == 1)
        return keep_samples(j, p);
    r = joiner_resource_labels(j, u);
    if (r == 0 && j->sets[u->set].n_units == 1 && is_parallel(j->b, u)) {
        base = j->out->n_samples;
        r = copy_samples(j, p, u->n_types);
    }
    for (uint32_t i = 0; r == 0 && i < u->n; i++)
        r = add_profile(j, &p[i], i, u->n_types, base);
    return r;
}

/* --- profiles --- */

static bool list_has(const uint32_t *v, uint32_t n, uint32_t x)
{
    for (uint32_t i = 0; i < n; i++)
        if (v[i] == x)
            return true;
    return false;
}

/* Collects the attributes of all profiles of the set, each once. */
static int join_attrs(struct joiner *j, uint32_t set, struct run *ret)
{
    const struct batch *b = j->b;
    uint32_t n = ret->n;
    int r = 0;

    if (j->sets[set].n_units == 1)
        return 0;
    r = array_reserve(j->list, j->cap_list, n + 1, UINT32_MAX);
    if (r == 0 && n)
        memcpy(j->list, b->dict.indices + ret->off, n * sizeof *j->list);
    for (size_t i = 0; r == 0 && i < j->n_units; i++) {
        struct run more = b->profiles[j->units[i].first].attrs;

        for (uint32_t k = 0; r == 0 && j->units[i].set == set && k < more.n; k++) {
            uint32_t attr = b->dict.indices[more.off + k];

            if (list_has(j->list, n, attr))
                continue;
            r = array_push(j->list, n, j->cap_list, UINT32_MAX, attr);
        }
    }
    return r < 0 || n == ret->n ? r : joiner_add_run(j, j->list, n, ret);
}

/* The result spans the earliest start to the latest end; without times, durations are added, as pprof does. */
static void join_times(const struct joiner *j, uint32_t set, struct profile *q)
{
    int64_t start = 0, end = 0, sum = 0;

    for (size_t i = 0; i < j->n_units; i++) {
        const struct profile *p = &j->b->profiles[j->units[i].first];

        if (j->units[i].set != set)
            continue;
        wrap_inc(&sum, p->duration_ns);
        q->period = MAX(q->period, p->period);
        if (p->time_ns && (!start || p->time_ns < start))
            start = p->time_ns;
        if (p->time_ns)
            end = MAX(end, wrap_add(p->time_ns, p->duration_ns));
    }
    q->time_ns = start;
    q->duration_ns = start ? wrap_sub(end, start) : sum;
}

static const struct scope *scope_of(const struct batch *b, uint32_t profile)
{
    uint32_t i = 0;

    while (profile < b->scopes[i].profiles.off || profile >= b->scopes[i].profiles.off + b->scopes[i].profiles.n)
        i++;
    return &b->scopes[i];
}

static int join_types(struct joiner *j, const struct unit *u, struct profile *q)
{
    q->n_types = u->n_types;
    q->types = arena_zalloc_array(&j->out->arena, u->n_types, sizeof *q->types);
    if (!q->types)
        return -ENOMEM;
    for (uint32_t i = 0; i < u->n_types; i++) {
        q->types[i] = unit_type(j->b, u, i);
        if (u->n > 1 && j->b->profiles[u->first + i].default_type)
            q->default_type = i + 1;
    }
    return 0;
}

/* Makes the profile of a set from its units. */
static int join_set(struct joiner *j, uint32_t set)
{
    const struct unit *u = &j->units[j->sets[set].unit];
    struct profile *q = &j->out->profiles[j->out->n_profiles];
    uint32_t before = j->out->n_samples;
    int r;

    *q = j->b->profiles[u->first];
    if (u->n > 1)
        q->default_type = 0;
    q->group = 0;
    map_reset(&j->rows);
    r = join_types(j, u, q);
    if (r == 0)
        r = joiner_find_keys(j, set);
    if (j->sets[set].n_units == 1 && r == 0)
        r = add_unit_samples(j, u);
    for (size_t i = 0; r == 0 && j->sets[set].n_units > 1 && i < j->n_units; i++)
        if (j->units[i].set == set)
            r = add_unit_samples(j, &j->units[i]);
    if (r == 0)
        r = join_attrs(j, set, &q->attrs);
    if (r < 0)
        return r;
    q->samples = (struct run){before, j->out->n_samples - before};
    if (j->sets[set].n_units > 1)
        join_times(j, set, q);
    if (u->n > 1)
        joiner_restore_order(j->out, scope_of(j->b, u->first), q);
    j->out->n_profiles++;
    return 0;
}

/* --- whole batches --- */

static int begin(struct joiner *j, struct batch *b, bool single)
{
    struct batch *x;
    int r = batch_share(b, &x);

    if (r < 0)
        return r;
    *j = (struct joiner){.b = b, .out = x, .single = single, .rows = MAP_INIT};
    x->mapping_ids = b->mapping_ids;
    x->location_ids = b->location_ids;
    x->function_ids = b->function_ids;
    x->samples = NULL;
    x->values = NULL;
    x->n_samples = x->n_values = x->n_profiles = 0;
    if (single) {
        x->timestamps = NULL;
        x->n_timestamps = 0;
    }
    r = find_units(j);
    if (r == 0) {
        x->profiles = arena_zalloc_array(&x->arena, j->n_sets, sizeof *x->profiles);
        x->scopes = arena_zalloc_array(&x->arena, MAX(b->n_scopes, 1u), sizeof *x->scopes);
        if (!x->profiles || !x->scopes)
            r = -ENOMEM;
    }
    return r;
}

static void end(struct joiner *j)
{
    mem_free(j->units);
    mem_free(j->sets);
    mem_free(j->keys);
    mem_free(j->resource_attrs);
    mem_free(j->link_attrs);
    mem_free(j->list);
    map_done(&j->rows);
    batch_unref(j->out);
}

static int by_samples(const void *a, const void *b, void *arg)
{
    const struct joiner *j = arg;
    uint64_t x = j->sets[*(const uint32_t *) a].n_samples, y = j->sets[*(const uint32_t *) b].n_samples;

    return x != y ? (x < y ? 1 : -1) : *(const uint32_t *) a < *(const uint32_t *) b ? -1 : 1;
}

/* Puts all sets under one resource and scope; the one with the most samples comes first. */
static int join_all(struct joiner *j)
{
    struct batch *x = j->out;
    _cleanup_(mem_freep) uint32_t *order = mem_zalloc_array(j->n_sets + 1, sizeof *order);
    struct resource *first = x->resources;
    int r = 0;

    if (!order)
        return -ENOMEM;
    for (uint32_t i = 0; i < j->n_sets; i++)
        order[i] = i;
    qsort_r(order, j->n_sets, sizeof *order, by_samples, j);
    for (size_t i = 0; r == 0 && i < j->n_sets; i++)
        r = join_set(j, order[i]);
    if (r < 0)
        return r;
    x->resources = arena_zalloc(&x->arena, sizeof *x->resources);
    if (!x->resources)
        return -ENOMEM;
    if (x->n_resources == 1)
        *x->resources = *first;
    x->n_resources = x->n_scopes = 1;
    if (j->b->n_scopes == 1)
        x->scopes[0] = j->b->scopes[0];
    x->scopes[0].profiles = (struct run){0, x->n_profiles};
    x->resources[0].scopes = (struct run){0, 1};
    return 0;
}

/* Whether there is nothing to join and nothing that needs a label. */
static bool is_single(const struct batch *b)
{
    if (b->n_profiles != 1 || b->n_resources != 1 || b->n_scopes != 1 || b->n_timestamps || b->profiles[0].group)
        return false;
    for (uint32_t i = 0; i < b->n_samples; i++)
        if (b->samples[i].link)
            return false;
    return true;
}

int convert_to_single(const struct batch *b, struct batch **ret, struct err *e)
{
    struct joiner j = {0};
    int r;

    /* Only the reference count of b changes. */
    if (is_single(b)) {
        *ret = batch_ref((struct batch *) b);
        return 0;
    }
    r = begin(&j, (struct batch *) b, true);
    if (r == 0)
        r = join_all(&j);
    if (r == 0)
        *ret = TAKE(j.out);
    end(&j);
    return r < 0 ? err_set(e, r, "cannot join profiles: %m") : 0;
}

/* Each unit becomes a profile again, in its original scope. Scopes need not be in the order of their resources, and
 * units know only their resource, so scopes are walked and units are looked up by their first profile. */
static int join_scopes(struct joiner *j)
{
    struct batch *x = j->out;
    _cleanup_(mem_freep) uint32_t *unit_at = mem_zalloc_array((size_t) j->b->n_profiles + 1, sizeof *unit_at);
    int r = 0;

    if (!unit_at)
        return -ENOMEM;
    for (size_t i = 0; i < j->n_units; i++)
        unit_at[j->units[i].first] = (uint32_t) i + 1;
    for (uint32_t i = 0; r == 0 && i < j->b->n_scopes; i++) {
        struct run p = j->b->scopes[i].profiles;

        x->scopes[i] = j->b->scopes[i];
        x->scopes[i].profiles.off = x->n_profiles;
        for (uint32_t k = p.off; r == 0 && k < p.off + p.n; k++)
            if (unit_at[k])
                r = join_set(j, j->units[unit_at[k] - 1].set);
        x->scopes[i].profiles.n = x->n_profiles - x->scopes[i].profiles.off;
    }
    return r;
}

static bool has_groups(const struct batch *b)
{
    for (uint32_t i = 0; i < b->n_profiles; i++)
        if (b->profiles[i].group)
            return true;
    return false;
}

int convert_join_types(struct batch *b, struct batch **ret, struct err *e)
{
    struct joiner j = {0};
    int r;

    if (!has_groups(b)) {
        *ret = batch_ref(b);
        return 0;
    }
    r = begin(&j, b, false);
    if (r == 0)
        r = join_scopes(&j);
    if (r == 0)
        *ret = TAKE(j.out);
    end(&j);
    return r < 0 ? err_set(e, r, "cannot join profiles: %m") : 0;
}
