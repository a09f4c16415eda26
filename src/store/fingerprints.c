/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the fingerprints of a batch (fingerprints.h), each on demand and once. */
#include "store/fingerprints.h"

#include <errno.h>
#include <string.h>

#include "model/identity.h"
#include "model/semconv.h"

/* The initial values separate equal numbers of different kinds. */
static const struct id128 begin_function = {0xa0761d6478bd642full, 11}, begin_mapping = {0xa0761d6478bd642full, 12},
                          begin_lines = {0xa0761d6478bd642full, 14}, begin_attr = {0xa0761d6478bd642full, 15},
                          begin_attrs = {0xa0761d6478bd642full, 16}, begin_resource = {0xa0761d6478bd642full, 17},
                          begin_scope = {0xa0761d6478bd642full, 18}, begin_profile = {0xa0761d6478bd642full, 19};

enum { DENSE = 16 }; /* up to this many locations per sample, the dictionary is assumed to belong to these samples */

int fingerprints_init(struct fingerprints *p, const struct batch *b, struct arena *a)
{
    const struct dict *d = &b->dict;
    size_t n[] = {d->n_strings, d->n_functions, d->n_mappings, d->n_locations, d->n_stacks, d->n_attrs, 0}, all = 0;
    struct id128 *v,
        **tables[] = {&p->strings, &p->functions, &p->mappings, &p->locations, &p->stacks, &p->attrs, &p->sets};

    for (uint32_t i = 0; i < b->n_samples && !n[6]; i++)
        n[6] = b->samples[i].attrs.n ? b->n_samples : 0;
    for (size_t i = 0; i < ARRAY_SIZE(n); i++)
        all += n[i];
    v = arena_zalloc_array(a, all + 1, sizeof *v);
    if (!v)
        return -ENOMEM;
    p->batch = b;
    for (size_t i = 0; i < ARRAY_SIZE(n); v += n[i++])
        *tables[i] = v;
    return 0;
}

static struct id128 not_zero(struct id128 id)
{
    return id128_is_zero(id) ? (struct id128){0, 1} : id;
}

/* Hashes 16 bytes per step in two lanes that both depend on all bytes. */
static struct id128 hash_bytes(struct str v)
{
    uint64_t a = 0xa0761d6478bd642full ^ v.n, b = 0xe7037ed1a0b428dbull + v.n, x, y;
    const char *p = v.p;
    uint32_t left = v.n;

    for (; left >= 16; left -= 16, p += 16) {
        memcpy(&x, p, 8);
        memcpy(&y, p + 8, 8);
        a = hash_mix(a ^ x, y ^ 0x8ebc6af09c88c6e3ull);
        b = hash_mix(b ^ y, x ^ 0x589965cc75374cc3ull) + a;
    }
    if (left) {
        char tail[16] = {0};

        memcpy(tail, p, left);
        memcpy(&x, tail, 8);
        memcpy(&y, tail + 8, 8);
        a = hash_mix(a ^ x, y ^ 0x8ebc6af09c88c6e3ull);
        b = hash_mix(b ^ y, x ^ 0x589965cc75374cc3ull) + a;
    }
    return (struct id128){hash_mix(a ^ 0x589965cc75374cc3ull, b ^ 0xa0761d6478bd642full), b + a + 1};
}

struct id128 fingerprints_string(struct fingerprints *p, uint32_t i)
{
    if (id128_is_zero(p->strings[i]))
        p->strings[i] = hash_bytes(p->batch->dict.strings[i]);
    return p->strings[i];
}

static struct id128 add_value(struct id128 s, const struct value *v)
{
    uint64_t u;

    switch (v->kind) {
    case VALUE_STR:
    case VALUE_BYTES:
        return print_add_id(print_add(s, v->kind, v->n), hash_bytes(value_str(v)));
    case VALUE_BOOL:
        return print_add(s, v->kind, v->boolean);
    case VALUE_INT:
        return print_add(s, v->kind, (uint64_t) v->integer);
    case VALUE_DOUBLE:
        memcpy(&u, &v->number, 8);
        return print_add(s, v->kind, u);
    case VALUE_ARRAY:
        s = print_add(s, v->kind, v->n);
        for (uint32_t i = 0; i < v->n; i++)
            s = add_value(s, &v->array[i]);
        return s;
    case VALUE_MAP:
        s = print_add(s, v->kind, v->n);
        for (uint32_t i = 0; i < v->n; i++)
            s = add_value(print_add_id(s, hash_bytes(v->map[i].key)), &v->map[i].value);
        return s;
    default:
        return print_add(s, v->kind, 0);
    }
}

/* --- of the dictionary --- */

static struct id128 print_function(struct fingerprints *p, uint32_t i)
{
    if (id128_is_zero(p->functions[i])) {
        const struct function *f = &p->batch->dict.functions[i];
        struct id128 s = print_add_id(begin_function, fingerprints_string(p, f->name));

        if (f->system_name)
            s = print_add_id(s, fingerprints_string(p, f->system_name));
        s = print_add(s, 0, (uint64_t) f->start_line);
        p->functions[i] = not_zero(print_add_id(s, fingerprints_string(p, f->filename)));
    }
    return p->functions[i];
}

static struct id128 make_mapping(struct fingerprints *p, uint32_t i)
{
    struct str id = identity_build_id(p->batch, i);
    struct str name = id.n ? id : batch_string(p->batch, p->batch->dict.mappings[i].filename);

    p->mappings[i] = not_zero(print_add_id(print_add(begin_mapping, 0, id.n != 0), hash_bytes(name)));
    return p->mappings[i];
}

static inline struct id128 print_mapping(struct fingerprints *p, uint32_t i)
{
    return unlikely(id128_is_zero(p->mappings[i])) ? make_mapping(p, i) : p->mappings[i];
}

static inline struct id128 print_native(struct fingerprints *p, const struct location *l)
{
    const struct mapping *m = &p->batch->dict.mappings[l->mapping];
    uint64_t address = m->start ? identity_elf_address(m, l->address) : l->address;

    return not_zero(print_add(print_mapping(p, l->mapping), 0, address));
}

static struct id128 print_lines(struct fingerprints *p, const struct location *l)
{
    const struct attr *kind;
    struct id128 s;

    s = print_add(begin_lines, 0, l->address);
    kind = l->attrs.n ? batch_attr(p->batch, l->attrs, STR(SEMCONV_FRAME_TYPE)) : NULL;
    if (kind)
        s = print_add_id(s, hash_bytes(value_str(&kind->value)));
    if (!l->lines.n)
        s = print_add_id(s, print_mapping(p, l->mapping));
    for (uint32_t k = 0; k < l->lines.n; k++) {
        const struct line *n = &p->batch->dict.lines[l->lines.off + k];

        s = print_add(print_add_id(s, print_function(p, n->function)), 0, (uint64_t) n->line);
    }
    return not_zero(s);
}

static inline struct id128 print_location(struct fingerprints *p, uint32_t i)
{
    if (unlikely(id128_is_zero(p->locations[i]))) {
        const struct location *l = &p->batch->dict.locations[i];

        p->locations[i] = l->address && (l->mapping || !l->lines.n) ? print_native(p, l) : print_lines(p, l);
    }
    return p->locations[i];
}

/* Two independent chains, each over every other location, so that neither waits for the other's multiplication. */
struct id128 fingerprints_make_stack(struct fingerprints *p, uint32_t stack)
{
    struct run st = p->batch->dict.stacks[stack];
    const uint32_t *list = st.n ? p->batch->dict.indices + st.off : NULL; /* a batch of empty stacks has no pool */
    struct id128 a = {0xa0761d6478bd642full ^ st.n, 0x8ebc6af09c88c6e3ull},
                 b = {0x589965cc75374cc3ull, 0xa0761d6478bd642full ^ st.n};
    uint32_t i = 0;

    for (; i + 1 < st.n; i += 2) {
        a = print_add_id(a, print_location(p, list[i]));
        b = print_add_id(b, print_location(p, list[i + 1]));
    }
    if (i < st.n)
        a = print_add_id(a, print_location(p, list[i]));
    a = print_add_id(a, b);
    p->stacks[stack] = (struct id128){a.hi, a.lo | 1};
    return p->stacks[stack];
}

void fingerprints_samples(struct fingerprints *p, const struct sample *samples, uint32_t n)
{
    const struct dict *d = &p->batch->dict;

    if (d->n_locations <= DENSE * (uint64_t) n) /* nearly all are needed, so they are hashed in memory order */
        for (uint32_t i = 1; i < d->n_locations; i++)
            print_location(p, i);
    for (uint32_t i = 0; i < n; i++) {
        if (i + 24 < n)
            __builtin_prefetch(&d->stacks[samples[i + 24].stack]);
        if (i + 12 < n) {
            struct run ahead = d->stacks[samples[i + 12].stack];

            for (uint32_t k = 0; k < ahead.n && k < 64; k += 16)
                __builtin_prefetch(&d->indices[ahead.off + k]);
        }
        fingerprints_stack(p, samples[i].stack);
    }
}

static struct id128 make_attr(struct fingerprints *p, uint32_t i)
{
    const struct attr *a = &p->batch->dict.attrs[i];
    struct id128 s = print_add_id(begin_attr, fingerprints_string(p, a->key));

    p->attrs[i] = not_zero(add_value(print_add_id(s, fingerprints_string(p, a->unit)), &a->value));
    return p->attrs[i];
}

static inline struct id128 print_attr(struct fingerprints *p, uint32_t i)
{
    return unlikely(id128_is_zero(p->attrs[i])) ? make_attr(p, i) : p->attrs[i];
}

struct id128 fingerprints_attr(struct fingerprints *p, uint32_t i)
{
    return print_attr(p, i);
}

struct id128 fingerprints_attrs(struct fingerprints *p, struct run attrs)
{
    struct id128 s = begin_attrs;

    for (uint32_t i = 0; i < attrs.n; i++)
        s = print_add_id(s, print_attr(p, p->batch->dict.indices[attrs.off + i]));
    return s;
}

struct id128 fingerprints_sample_attrs(struct fingerprints *p, uint32_t i)
{
    if (id128_is_zero(p->sets[i]))
        p->sets[i] = not_zero(fingerprints_attrs(p, p->batch->samples[i].attrs));
    return p->sets[i];
}

/* --- of resources, scopes and profiles --- */

static struct id128 add_kvs(struct id128 s, const struct kvs *kvs)
{
    s = print_add(s, 0, kvs->n);
    for (uint32_t i = 0; i < kvs->n; i++)
        s = add_value(print_add_id(s, hash_bytes(kvs->v[i].key)), &kvs->v[i].value);
    return s;
}

struct id128 fingerprints_resource(const struct resource *r)
{
    struct id128 s = add_kvs(begin_resource, &r->attrs);

    if (r->schema_url.n || r->entity_refs.n || r->dropped_attrs) {
        s = print_add(s, r->dropped_attrs, 1);
        s = print_add_id(print_add_id(s, hash_bytes(r->schema_url)), hash_bytes(r->entity_refs));
    }
    return s;
}

struct id128 fingerprints_scope(const struct scope *x)
{
    struct id128 s = add_kvs(begin_scope, &x->attrs);

    s = print_add_id(print_add_id(s, hash_bytes(x->name)), hash_bytes(x->version));
    if (x->schema_url.n || x->dropped_attrs)
        s = print_add_id(print_add(s, x->dropped_attrs, 1), hash_bytes(x->schema_url));
    return s;
}

static struct id128 add_sample(struct fingerprints *p, struct id128 s, uint32_t index)
{
    const struct batch *b = p->batch;
    const struct sample *v = &b->samples[index];
    const struct link *l = &b->dict.links[v->link];
    uint64_t id[3];

    s = print_add_id(s, fingerprints_stack(p, v->stack));
    s = print_add(s, (v->link != 0) | (v->attrs.n != 0) << 1, (uint64_t) v->values.n << 32 | v->timestamps.n);
    if (v->link) {
        memcpy(id, l->trace_id, 16);
        memcpy(id + 2, l->span_id, 8);
        s = print_add(print_add(s, id[0], id[1]), 0, id[2]);
    }
    if (v->attrs.n)
        s = print_add_id(s, fingerprints_sample_attrs(p, index));
    for (uint32_t i = 0; i < v->values.n; i++)
        s = print_add(s, 0, (uint64_t) b->values[v->values.off + i]);
    for (uint32_t i = 0; i < v->timestamps.n; i++)
        s = print_add(s, 0, b->timestamps[v->timestamps.off + i]);
    return s;
}

struct id128 fingerprints_profile(struct fingerprints *p, struct id128 resource, const struct profile *x)
{
    struct id128 s = print_add_id(begin_profile, resource);

    s = print_add(s, x->samples.n, x->n_types);
    for (uint32_t i = 0; i < x->n_types; i++)
        s = print_add_id(print_add_id(s, fingerprints_string(p, x->types[i].type)),
                         fingerprints_string(p, x->types[i].unit));
    s = print_add_id(s, fingerprints_string(p, x->period_type.type));
    s = print_add_id(s, fingerprints_string(p, x->period_type.unit));
    s = print_add(print_add(s, 0, (uint64_t) x->period), (uint64_t) x->time_ns, (uint64_t) x->duration_ns);
    s = print_add_id(s, fingerprints_attrs(p, x->attrs));
    for (uint32_t i = 0; i < x->samples.n; i++)
        s = add_sample(p, s, x->samples.off + i);
    return s;
}
