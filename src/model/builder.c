/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See builder.h. Each table is a growing array with a hash index beside it. The arrays live in batch.owned, so that
 * finishing hands them over without a copy; the indexes stay here and are freed with the builder.
 */
#include "model/builder.h"

#include <errno.h>

#include "base/mem.h"

/* batch.owned[] and caps[] are indexed by these. */
enum table {
    T_STRINGS,
    T_MAPPINGS,
    T_FUNCTIONS,
    T_LOCATIONS,
    T_STACKS,
    T_LINKS,
    T_ATTRS,
    T_LINES,
    T_INDICES,
    T_RESOURCES,
    T_SCOPES,
    T_PROFILES,
    T_SAMPLES,
    T_VALUES,
    T_TIMESTAMPS,
    TABLES
};
_Static_assert((int) TABLES <= (int) BATCH_OWNED_MAX, "a batch can own every table of a builder");

struct builder {
    struct batch *batch;
    struct builder_limits limits;
    size_t caps[TABLES];
    struct map strings, mappings, functions, locations, stacks, links, attrs, attr_sets;
    struct run *sets; /* what attr_sets points at */
    size_t n_sets, cap_sets;
    size_t cap_kvs; /* of the last resource's or scope's attributes */
    int err;
};

static void *fail(struct builder *b, int r)
{
    if (!b->err)
        b->err = r;
    return NULL;
}

/* Makes room for `more` elements after n in table t, whose pointer is *p. Returns where they go. */
static void *grow(struct builder *b, enum table t, void *p, uint32_t n, uint32_t more, size_t elem)
{
    struct batch *batch = b->batch;
    void **array = p;
    size_t old = b->caps[t], limit = b->limits.memory ? b->limits.memory / elem : UINT32_MAX - 1;
    int r;

    if (unlikely(b->err))
        return NULL;
    if (likely((size_t) n + more <= old))
        return n ? (char *) *array + n * elem : *array;
    if (!batch->owned[t]) { /* still the shared zero entry, or nothing */
        void *zero = *array;

        *array = NULL;
        r = mem_grow(array, &b->caps[t], (size_t) n + more + 16, elem, limit);
        if (r < 0) {
            *array = zero;
            return fail(b, r);
        }
        if (n)
            memcpy(*array, zero, n * elem);
    } else {
        r = mem_grow(array, &b->caps[t], (size_t) n + more, elem, limit);
        if (r < 0)
            return fail(b, r);
    }
    batch->owned[t] = *array;
    batch->owned_size += (b->caps[t] - old) * elem;
    if (b->limits.memory && batch->owned_size + batch->arena.used > b->limits.memory)
        return fail(b, -E2BIG);
    return (char *) *array + n * elem;
}

static void index_add(struct builder *b, struct map *m, uint64_t hash, uint32_t index)
{
    int r = map_insert(m, hash, index);

    if (r < 0)
        fail(b, r);
}

static void index_entry(struct builder *b, struct map *m, uint64_t hash, uint32_t index)
{
    if (!b->limits.every_entry)
        index_add(b, m, hash, index);
}

int builder_new(const struct builder_limits *limits, struct builder **ret)
{
    struct builder *b = mem_zalloc(sizeof *b);
    int r;

    if (!b)
        return -ENOMEM;
    if (limits)
        b->limits = *limits;
    r = batch_new(b->limits.memory, &b->batch);
    if (r < 0) {
        builder_free(b);
        return r;
    }
    *ret = b;
    return 0;
}

void builder_free(struct builder *b)
{
    if (!b)
        return;
    batch_unref(b->batch);
    map_done(&b->strings);
    map_done(&b->mappings);
    map_done(&b->functions);
    map_done(&b->locations);
    map_done(&b->stacks);
    map_done(&b->links);
    map_done(&b->attrs);
    map_done(&b->attr_sets);
    mem_free(b->sets);
    mem_free(b);
}

struct batch *builder_batch(struct builder *b)
{
    return b->batch;
}

int builder_error(const struct builder *b)
{
    return b->err;
}

int builder_finish(struct builder *b, struct batch **ret, struct err *e)
{
    if (b->err == -E2BIG)
        return err_set(e, b->err, "profile data is larger than the limit of %zu bytes", b->limits.memory);
    if (b->err)
        return err_set(e, b->err, "cannot build profile: %m");
    *ret = TAKE(b->batch);
    return 0;
}

/* --- dictionary --- */

static uint32_t intern_string(struct builder *b, struct str s, bool borrow)
{
    struct dict *d = &b->batch->dict;
    uint64_t h;
    struct str *slot;

    if (!s.n)
        return 0;
    h = hash64_str(s);
    for (struct map_pos p = map_find(&b->strings, h); p.index != MAP_NONE; p = map_next(&b->strings, p))
        if (str_eq(d->strings[p.index], s))
            return p.index;
    slot = grow(b, T_STRINGS, &d->strings, d->n_strings, 1, sizeof *slot);
    if (!slot)
        return 0;
    *slot = borrow ? s : arena_str(&b->batch->arena, s);
    if (!slot->p) {
        fail(b, -ENOMEM);
        return 0;
    }
    index_add(b, &b->strings, h, d->n_strings);
    return d->n_strings++;
}

uint32_t builder_string(struct builder *b, struct str s)
{
    return intern_string(b, s, false);
}

static bool list_eq(const struct dict *d, struct run r, const uint32_t *v, uint32_t n)
{
    return r.n == n && (!n || memcmp(d->indices + r.off, v, n * sizeof *v) == 0);
}

/* Copies a list to the end of the index pool. */
static struct run add_list(struct builder *b, const uint32_t *v, uint32_t n)
{
    struct dict *d = &b->batch->dict;
    struct run run = {d->n_indices, n};
    uint32_t *slot;

    if (!n)
        return (struct run){0};
    slot = grow(b, T_INDICES, &d->indices, d->n_indices, n, sizeof *slot);
    if (!slot)
        return (struct run){0};
    memcpy(slot, v, n * sizeof *v);
    d->n_indices += n;
    return run;
}

struct run builder_attrs(struct builder *b, const uint32_t *attrs, uint32_t n)
{
    uint64_t h;
    struct run run;
    int r;

    if (!n)
        return (struct run){0};
    h = hash64(attrs, n * sizeof *attrs);
    for (struct map_pos p = map_find(&b->attr_sets, h); p.index != MAP_NONE; p = map_next(&b->attr_sets, p))
        if (list_eq(&b->batch->dict, b->sets[p.index], attrs, n))
            return b->sets[p.index];
    run = add_list(b, attrs, n);
    r = b->err ? b->err : array_push(b->sets, b->n_sets, b->cap_sets, UINT32_MAX, run);
    if (r < 0) {
        fail(b, r);
        return (struct run){0};
    }
    index_add(b, &b->attr_sets, h, (uint32_t) b->n_sets - 1);
    return run;
}

uint32_t builder_mapping(struct builder *b, const struct mapping *m, const uint32_t *attrs, uint32_t n_attrs)
{
    struct dict *d = &b->batch->dict;
    uint64_t key[5] = {m->start, m->limit, m->offset, (uint64_t) m->filename << 32 | n_attrs, m->skew};
    uint64_t h = hash64(key, sizeof key) ^ hash64(attrs, n_attrs * sizeof *attrs);
    struct mapping *slot;

    if (!b->limits.every_entry && !n_attrs && !m->start && !m->limit && !m->offset && !m->filename)
        return 0;
    for (struct map_pos p = map_find(&b->mappings, h); p.index != MAP_NONE; p = map_next(&b->mappings, p)) {
        const struct mapping *o = &d->mappings[p.index];

        if (o->start == m->start && o->limit == m->limit && o->offset == m->offset && o->filename == m->filename &&
            o->skew == m->skew && list_eq(d, o->attrs, attrs, n_attrs))
            return p.index;
    }
    slot = grow(b, T_MAPPINGS, &d->mappings, d->n_mappings, 1, sizeof *slot);
    if (!slot)
        return 0;
    *slot = *m;
    slot->attrs = builder_attrs(b, attrs, n_attrs);
    index_entry(b, &b->mappings, h, d->n_mappings);
    return d->n_mappings++;
}

uint32_t builder_function(struct builder *b, const struct function *f)
{
    struct dict *d = &b->batch->dict;
    uint64_t key[3] = {(uint64_t) f->name << 32 | f->system_name, f->filename, (uint64_t) f->start_line};
    uint64_t h = hash64(key, sizeof key);
    struct function *slot;

    if (!b->limits.every_entry && !(f->name | f->system_name | f->filename) && !f->start_line)
        return 0;
    for (struct map_pos p = map_find(&b->functions, h); p.index != MAP_NONE; p = map_next(&b->functions, p)) {
        const struct function *o = &d->functions[p.index];

        if (o->name == f->name && o->system_name == f->system_name && o->filename == f->filename &&
            o->start_line == f->start_line)
            return p.index;
    }
    slot = grow(b, T_FUNCTIONS, &d->functions, d->n_functions, 1, sizeof *slot);
    if (!slot)
        return 0;
    *slot = *f;
    index_entry(b, &b->functions, h, d->n_functions);
    return d->n_functions++;
}

static bool lines_eq(const struct dict *d, struct run r, const struct line *v, uint32_t n)
{
    if (r.n != n)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const struct line *o = &d->lines[r.off + i];

        if (o->function != v[i].function || o->line != v[i].line || o->column != v[i].column)
            return false;
    }
    return true;
}

static struct run add_lines(struct builder *b, const struct line *v, uint32_t n)
{
    struct dict *d = &b->batch->dict;
    struct run run = {d->n_lines, n};
    struct line *slot;

    if (!n)
        return (struct run){0};
    slot = grow(b, T_LINES, &d->lines, d->n_lines, n, sizeof *slot);
    if (!slot)
        return (struct run){0};
    memcpy(slot, v, n * sizeof *v);
    d->n_lines += n;
    return run;
}

static uint64_t hash_location(const struct builder_location *l)
{
    uint64_t h = hash64_u64(l->address) ^ hash_mix(l->mapping + 1, 0xa0761d6478bd642full);

    for (uint32_t i = 0; i < l->n_lines; i++)
        h = hash_mix(h ^ ((uint64_t) l->lines[i].function << 32 | (uint32_t) l->lines[i].line),
                     0xe7037ed1a0b428dbull + i);
    return h;
}

uint32_t builder_location(struct builder *b, const struct builder_location *l)
{
    struct dict *d = &b->batch->dict;
    uint64_t h = hash_location(l);
    struct location *slot;

    if (!b->limits.every_entry && !l->mapping && !l->address && !l->n_lines && !l->n_attrs)
        return 0;
    for (struct map_pos p = map_find(&b->locations, h); p.index != MAP_NONE; p = map_next(&b->locations, p)) {
        const struct location *o = &d->locations[p.index];

        if (o->address == l->address && o->mapping == l->mapping && lines_eq(d, o->lines, l->lines, l->n_lines) &&
            list_eq(d, o->attrs, l->attrs, l->n_attrs))
            return p.index;
    }
    slot = grow(b, T_LOCATIONS, &d->locations, d->n_locations, 1, sizeof *slot);
    if (!slot)
        return 0;
    *slot = (struct location){.mapping = l->mapping,
                              .address = l->address,
                              .lines = add_lines(b, l->lines, l->n_lines),
                              .attrs = builder_attrs(b, l->attrs, l->n_attrs)};
    index_entry(b, &b->locations, h, d->n_locations);
    return d->n_locations++;
}

uint32_t builder_stack(struct builder *b, const uint32_t *locations, uint32_t n)
{
    struct dict *d = &b->batch->dict;
    uint64_t h;
    struct run *slot;

    if (b->limits.depth && n > b->limits.depth)
        n = b->limits.depth;
    if (!n)
        return 0;
    h = hash64(locations, n * sizeof *locations);
    for (struct map_pos p = map_find(&b->stacks, h); p.index != MAP_NONE; p = map_next(&b->stacks, p))
        if (list_eq(d, d->stacks[p.index], locations, n))
            return p.index;
    slot = grow(b, T_STACKS, &d->stacks, d->n_stacks, 1, sizeof *slot);
    if (!slot)
        return 0;
    *slot = add_list(b, locations, n);
    index_entry(b, &b->stacks, h, d->n_stacks);
    return d->n_stacks++;
}

uint32_t builder_link(struct builder *b, const struct link *l)
{
    static const struct link none;
    struct dict *d = &b->batch->dict;
    uint64_t h = hash64(l, sizeof *l);
    struct link *slot;

    if (memcmp(l, &none, sizeof none) == 0)
        return 0;
    for (struct map_pos p = map_find(&b->links, h); p.index != MAP_NONE; p = map_next(&b->links, p))
        if (memcmp(&d->links[p.index], l, sizeof *l) == 0)
            return p.index;
    slot = grow(b, T_LINKS, &d->links, d->n_links, 1, sizeof *slot);
    if (!slot)
        return 0;
    *slot = *l;
    index_add(b, &b->links, h, d->n_links);
    return d->n_links++;
}

static uint64_t hash_value(const struct value *v)
{
    uint64_t h = v->kind;

    switch (v->kind) {
    case VALUE_STR:
    case VALUE_BYTES:
        return hash64(v->str, v->n) + h;
    case VALUE_ARRAY:
        for (uint32_t i = 0; i < v->n; i++)
            h = hash_mix(h ^ hash_value(&v->array[i]), 0x8ebc6af09c88c6e3ull);
        return h;
    case VALUE_MAP:
        for (uint32_t i = 0; i < v->n; i++)
            h = hash_mix(h ^ hash_value(&v->map[i].value) ^ hash64_str(v->map[i].key), 0x8ebc6af09c88c6e3ull);
        return h;
    case VALUE_BOOL:
        return hash64_u64(v->boolean) + h;
    case VALUE_EMPTY:
        return h;
    default:
        return hash64_u64((uint64_t) v->integer) + h; /* INT, and DOUBLE by its bits */
    }
}

struct value builder_value(struct builder *b, const struct value *v)
{
    struct value copy = *v;

    if (v->kind == VALUE_STR || v->kind == VALUE_BYTES) {
        copy.str = arena_cstr(&b->batch->arena, value_str(v));
        if (!copy.str)
            fail(b, -ENOMEM);
    } else if (v->kind == VALUE_ARRAY) {
        copy.array = arena_zalloc_array(&b->batch->arena, v->n, sizeof *v->array);
        for (uint32_t i = 0; copy.array && i < v->n; i++)
            copy.array[i] = builder_value(b, &v->array[i]);
    } else if (v->kind == VALUE_MAP) {
        copy.map = arena_zalloc_array(&b->batch->arena, v->n, sizeof *v->map);
        for (uint32_t i = 0; copy.map && i < v->n; i++) {
            copy.map[i].key = arena_str(&b->batch->arena, v->map[i].key);
            copy.map[i].value = builder_value(b, &v->map[i].value);
        }
    }
    if ((v->kind == VALUE_ARRAY || v->kind == VALUE_MAP) && !copy.array)
        fail(b, -ENOMEM);
    if (b->err)
        return (struct value){0};
    return copy;
}

uint32_t builder_attr(struct builder *b, uint32_t key, uint32_t unit, const struct value *v)
{
    struct dict *d = &b->batch->dict;
    uint64_t h = hash_mix(hash_value(v) ^ key, 0x589965cc75374cc3ull ^ unit);
    struct attr *slot;

    if (!key && !unit && v->kind == VALUE_EMPTY)
        return 0;
    for (struct map_pos p = map_find(&b->attrs, h); p.index != MAP_NONE; p = map_next(&b->attrs, p)) {
        const struct attr *o = &d->attrs[p.index];

        if (o->key == key && o->unit == unit && value_eq(&o->value, v))
            return p.index;
    }
    slot = grow(b, T_ATTRS, &d->attrs, d->n_attrs, 1, sizeof *slot);
    if (!slot)
        return 0;
    *slot = (struct attr){.key = key, .unit = unit, .value = builder_value(b, v)};
    index_add(b, &b->attrs, h, d->n_attrs);
    return d->n_attrs++;
}

uint32_t builder_attr_str(struct builder *b, struct str key, struct str value)
{
    struct value v = {.kind = VALUE_STR, .n = value.n, .str = value.p};

    return builder_attr(b, builder_string(b, key), 0, &v);
}

uint32_t builder_attr_int(struct builder *b, struct str key, int64_t value, struct str unit)
{
    struct value v = {.kind = VALUE_INT, .integer = value};

    return builder_attr(b, builder_string(b, key), builder_string(b, unit), &v);
}

uint32_t builder_attr_bool(struct builder *b, struct str key, bool value)
{
    struct value v = {.kind = VALUE_BOOL, .boolean = value};

    return builder_attr(b, builder_string(b, key), 0, &v);
}

/* --- body --- */

uint32_t builder_resource(struct builder *b)
{
    struct batch *x = b->batch;
    struct resource *slot = grow(b, T_RESOURCES, &x->resources, x->n_resources, 1, sizeof *slot);

    if (!slot)
        return 0;
    *slot = (struct resource){.scopes = {x->n_scopes, 0}};
    b->cap_kvs = 0;
    return x->n_resources++;
}

static void add_kv(struct builder *b, struct kvs *kvs, struct str key, const struct value *v)
{
    struct arena *a = &b->batch->arena;

    if (b->err)
        return;
    if (kvs->n == b->cap_kvs) {
        size_t cap = b->cap_kvs ? b->cap_kvs * 2 : 8;
        struct kv *more = arena_zalloc_array(a, cap, sizeof *more);

        if (!more) {
            fail(b, -ENOMEM);
            return;
        }
        if (kvs->n)
            memcpy(more, kvs->v, kvs->n * sizeof *more);
        kvs->v = more;
        b->cap_kvs = cap;
    }
    kvs->v[kvs->n] = (struct kv){.key = arena_str(a, key), .value = builder_value(b, v)};
    kvs->n++;
}

void builder_resource_attr(struct builder *b, struct str key, const struct value *v)
{
    if (b->batch->n_resources)
        add_kv(b, &b->batch->resources[b->batch->n_resources - 1].attrs, key, v);
}

void builder_resource_attr_str(struct builder *b, struct str key, struct str value)
{
    builder_resource_attr(b, key, &(struct value){.kind = VALUE_STR, .n = value.n, .str = value.p});
}

uint32_t builder_scope(struct builder *b, struct str name, struct str version)
{
    struct batch *x = b->batch;
    struct scope *slot;

    if (!x->n_resources)
        builder_resource(b);
    slot = grow(b, T_SCOPES, &x->scopes, x->n_scopes, 1, sizeof *slot);
    if (!slot)
        return 0;
    *slot = (struct scope){.profiles = {x->n_profiles, 0}};
    slot->name = name.n ? arena_str(&x->arena, name) : (struct str){0};
    slot->version = version.n ? arena_str(&x->arena, version) : (struct str){0};
    x->resources[x->n_resources - 1].scopes.n++;
    b->cap_kvs = 0;
    return x->n_scopes++;
}

void builder_scope_attr(struct builder *b, struct str key, const struct value *v)
{
    if (b->batch->n_scopes)
        add_kv(b, &b->batch->scopes[b->batch->n_scopes - 1].attrs, key, v);
}

struct profile *builder_profile(struct builder *b, const struct value_type *types, uint32_t n)
{
    struct batch *x = b->batch;
    struct profile *slot;

    if (!x->n_scopes || !x->resources[x->n_resources - 1].scopes.n)
        builder_scope(b, (struct str){0}, (struct str){0});
    if (n == 0 || n > PROFILE_TYPES_MAX)
        return fail(b, -EINVAL);
    slot = grow(b, T_PROFILES, &x->profiles, x->n_profiles, 1, sizeof *slot);
    if (!slot)
        return NULL;
    *slot = (struct profile){.n_types = n, .samples = {x->n_samples, 0}};
    slot->types = arena_zalloc_array(&x->arena, n, sizeof *types);
    if (!slot->types)
        return fail(b, -ENOMEM);
    memcpy(slot->types, types, n * sizeof *types);
    x->scopes[x->n_scopes - 1].profiles.n++;
    x->n_profiles++;
    return slot;
}

void builder_sample(struct builder *b, const struct builder_sample *s)
{
    struct batch *x = b->batch;
    uint32_t n_values = s->n_values, n_timestamps = s->n_timestamps;
    struct sample *slot = grow(b, T_SAMPLES, &x->samples, x->n_samples, 1, sizeof *slot);
    int64_t *v = n_values ? grow(b, T_VALUES, &x->values, x->n_values, n_values, sizeof *v) : NULL;
    uint64_t *t = n_timestamps ? grow(b, T_TIMESTAMPS, &x->timestamps, x->n_timestamps, n_timestamps, sizeof *t) : NULL;

    if (b->err || !x->n_profiles) {
        fail(b, -EINVAL);
        return;
    }
    *slot = (struct sample){.stack = s->stack, .link = s->link, .attrs = s->attrs};
    if (v) {
        memcpy(v, s->values, n_values * sizeof *v);
        slot->values = (struct run){x->n_values, n_values};
        x->n_values += n_values;
    }
    if (t) {
        memcpy(t, s->timestamps, n_timestamps * sizeof *t);
        slot->timestamps = (struct run){x->n_timestamps, n_timestamps};
        x->n_timestamps += n_timestamps;
    }
    x->n_samples++;
    x->profiles[x->n_profiles - 1].samples.n++;
}

void builder_reserve(struct builder *b, const struct dict *more)
{
    struct dict *d = &b->batch->dict;

    if (d->n_strings > 1) /* only when empty: later batches mostly repeat known entries */
        return;
    grow(b, T_STRINGS, &d->strings, d->n_strings, more->n_strings, sizeof *d->strings);
    grow(b, T_FUNCTIONS, &d->functions, d->n_functions, more->n_functions, sizeof *d->functions);
    grow(b, T_LOCATIONS, &d->locations, d->n_locations, more->n_locations, sizeof *d->locations);
    grow(b, T_STACKS, &d->stacks, d->n_stacks, more->n_stacks, sizeof *d->stacks);
    grow(b, T_LINES, &d->lines, d->n_lines, more->n_lines, sizeof *d->lines);
    grow(b, T_INDICES, &d->indices, d->n_indices, more->n_indices, sizeof *d->indices);
    if (b->limits.every_entry)
        return;
    if (map_reserve(&b->strings, more->n_strings) < 0 || map_reserve(&b->locations, more->n_locations) < 0 ||
        map_reserve(&b->functions, more->n_functions) < 0 || map_reserve(&b->stacks, more->n_stacks) < 0)
        fail(b, -ENOMEM);
}

void builder_reserve_samples(struct builder *b, uint32_t more)
{
    struct batch *x = b->batch;

    grow(b, T_SAMPLES, &x->samples, x->n_samples, more, sizeof *x->samples);
}
