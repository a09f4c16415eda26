/* SPDX-License-Identifier: Apache-2.0 */
/* 128-bit hashes of frames, stacks, profiles and resources; see identity.h. The hashed input must never change: tests
 * pin it. */
#include "model/identity.h"

#include <errno.h>

#include "model/semconv.h"

/* Domains separate equal bytes of different kinds. */
enum { DOMAIN_NATIVE = 1, DOMAIN_INTERPRETED, DOMAIN_STACK, DOMAIN_PROFILE, DOMAIN_RESOURCE, DOMAIN_SENT };

struct str identity_build_id(const struct batch *b, uint32_t mapping)
{
    static const char *const keys[] = {SEMCONV_BUILD_ID_GNU, SEMCONV_BUILD_ID_GO, SEMCONV_BUILD_ID_HTLHASH};
    struct run attrs = b->dict.mappings[mapping].attrs;

    for (size_t i = 0; attrs.n && i < ARRAY_SIZE(keys); i++) {
        const struct attr *a = batch_attr(b, attrs, str_from(keys[i]));

        if (a && value_str(&a->value).n)
            return value_str(&a->value);
    }
    return (struct str){0};
}

struct str identity_build_id_key(struct str id)
{
    return str_find_char(id, '/') >= 0 ? STR(SEMCONV_BUILD_ID_GO) : STR(SEMCONV_BUILD_ID_GNU);
}

uint64_t identity_elf_address(const struct mapping *m, uint64_t address)
{
    if (m->start < IDENTITY_FIXED_MAX || address < m->start || (m->limit && address >= m->limit))
        return address;
    return address - m->start + m->offset + m->skew;
}

static void hash_str(struct hash128_state *s, struct str v)
{
    hash128_bytes(s, v.p, v.n);
}

static struct id128 hash_interpreted(const struct batch *b, const struct location *l)
{
    const struct attr *kind = batch_attr(b, l->attrs, STR(SEMCONV_FRAME_TYPE));
    struct hash128_state s;

    hash128_init(&s, DOMAIN_INTERPRETED);
    hash_str(&s, kind ? value_str(&kind->value) : (struct str){0});
    if (!l->lines.n) /* nothing but perhaps a mapping, which then identifies it */
        hash_str(&s, batch_string(b, b->dict.mappings[l->mapping].filename));
    for (uint32_t i = 0; i < l->lines.n; i++) {
        const struct line *line = &b->dict.lines[l->lines.off + i];
        const struct function *f = &b->dict.functions[line->function];

        hash_str(&s, batch_string(b, f->name ? f->name : f->system_name));
        hash_str(&s, batch_string(b, f->filename));
        hash128_u64(&s, (uint64_t) line->line);
    }
    return hash128_final(&s);
}

/* Hashes the part of a native frame's identity that depends only on its binary. */
static struct hash128_state hash_binary(const struct batch *b, uint32_t mapping)
{
    struct str id = identity_build_id(b, mapping);
    struct hash128_state s;

    hash128_init(&s, DOMAIN_NATIVE);
    hash_str(&s, id.n ? id : batch_string(b, b->dict.mappings[mapping].filename));
    return s;
}

/* binaries: hash_binary() of every mapping, or NULL. */
static struct id128 hash_location(const struct batch *b, const struct location *l, const struct hash128_state *binaries)
{
    struct hash128_state s;

    if (!l->address || (!l->mapping && l->lines.n))
        return hash_interpreted(b, l);
    s = binaries ? binaries[l->mapping] : hash_binary(b, l->mapping);
    hash128_u64(&s, identity_elf_address(&b->dict.mappings[l->mapping], l->address));
    return hash128_final(&s);
}

struct id128 identity_location(const struct batch *b, uint32_t location)
{
    return hash_location(b, &b->dict.locations[location], NULL);
}

static void hash_value(struct hash128_state *s, const struct value *v)
{
    hash128_u64(s, v->kind);
    switch (v->kind) {
    case VALUE_STR:
    case VALUE_BYTES:
        hash_str(s, value_str(v));
        break;
    case VALUE_BOOL:
        hash128_u64(s, v->boolean);
        break;
    case VALUE_INT:
        hash128_u64(s, (uint64_t) v->integer);
        break;
    case VALUE_DOUBLE:
        hash128_bytes(s, &v->number, sizeof v->number);
        break;
    case VALUE_ARRAY:
        hash128_u64(s, v->n);
        for (uint32_t i = 0; i < v->n; i++)
            hash_value(s, &v->array[i]);
        break;
    case VALUE_MAP:
        hash128_u64(s, v->n);
        for (uint32_t i = 0; i < v->n; i++) {
            hash_str(s, v->map[i].key);
            hash_value(s, &v->map[i].value);
        }
        break;
    default:
        break;
    }
}

static uint64_t fold(struct id128 id)
{
    return id.hi ^ hash_mix(id.lo, 0x9e3779b97f4a7c15ull);
}

struct id128 identity_resource(const struct resource *r)
{
    uint64_t sum_hi = 0, sum_lo = 0;
    struct hash128_state s;

    /* attributes are unordered: each is hashed alone and the hashes are added up */
    for (uint32_t i = 0; i < r->attrs.n; i++) {
        struct id128 id;

        hash128_init(&s, DOMAIN_RESOURCE);
        hash_str(&s, r->attrs.v[i].key);
        hash_value(&s, &r->attrs.v[i].value);
        id = hash128_final(&s);
        sum_hi += id.hi;
        sum_lo += fold(id);
    }
    hash128_init(&s, DOMAIN_RESOURCE);
    hash128_u64(&s, sum_hi);
    hash128_u64(&s, sum_lo);
    return hash128_final(&s);
}

static void hash_attrs(struct hash128_state *s, const struct batch *b, struct run attrs)
{
    hash128_u64(s, attrs.n);
    for (uint32_t i = 0; i < attrs.n; i++) {
        const struct attr *a = &b->dict.attrs[b->dict.indices[attrs.off + i]];

        hash_str(s, batch_string(b, a->key));
        hash_str(s, batch_string(b, a->unit));
        hash_value(s, &a->value);
    }
}

/* One multiplication per frame, since profiles have many frames. Both lanes depend on every frame. memo may be NULL. */
static struct id128 hash_frames(const struct batch *b, struct run st, const struct identity_memo *memo)
{
    uint64_t x = 0xa0761d6478bd642full ^ st.n, y = 0x8ebc6af09c88c6e3ull;

    for (uint32_t i = 0; i < st.n; i++) {
        uint32_t k = b->dict.indices[st.off + i];
        struct id128 id;

        if (!memo) {
            id = identity_location(b, k);
        } else {
            if (id128_is_zero(memo->locations[k]))
                memo->locations[k] = identity_location(b, k);
            id = memo->locations[k];
        }
        x = hash_mix(x ^ id.hi, id.lo ^ 0xe7037ed1a0b428dbull);
        y = (y << 23 | y >> 41) ^ x;
    }
    return (struct id128){x, y};
}

int identity_memo_init(struct identity_memo *m, const struct batch *b, struct arena *a)
{
    m->locations = arena_zalloc_array(a, b->dict.n_locations, sizeof *m->locations);
    m->stacks = arena_zalloc_array(a, b->dict.n_stacks, sizeof *m->stacks);
    return m->locations && m->stacks ? 0 : -ENOMEM;
}

struct id128 identity_stack_of(const struct batch *b, uint32_t stack, const struct identity_memo *memo)
{
    if (!memo)
        return hash_frames(b, b->dict.stacks[stack], NULL);
    if (id128_is_zero(memo->stacks[stack]))
        memo->stacks[stack] = hash_frames(b, b->dict.stacks[stack], memo);
    return memo->stacks[stack];
}

struct id128 *identity_stacks(const struct batch *b, struct arena *a)
{
    struct identity_memo memo;

    if (identity_memo_init(&memo, b, a) < 0)
        return NULL;
    for (uint32_t i = 0; i < b->dict.n_stacks; i++)
        identity_stack_of(b, i, &memo);
    return memo.stacks;
}

static void hash_sample(struct hash128_state *s, const struct batch *b, const struct sample *v, struct id128 st)
{
    const struct link *l = &b->dict.links[v->link];

    hash128_u64(s, st.hi);
    hash128_u64(s, st.lo);
    hash128_u64(s, (uint64_t) (v->link != 0) << 63 | (uint64_t) v->attrs.n << 32 | v->values.n << 16 | v->timestamps.n);
    if (v->link) {
        hash128_bytes(s, l->trace_id, sizeof l->trace_id);
        hash128_bytes(s, l->span_id, sizeof l->span_id);
    }
    if (v->attrs.n)
        hash_attrs(s, b, v->attrs);
    for (uint32_t i = 0; i < v->values.n; i++)
        hash128_u64(s, (uint64_t) b->values[v->values.off + i]);
    for (uint32_t i = 0; i < v->timestamps.n; i++)
        hash128_u64(s, b->timestamps[v->timestamps.off + i]);
}

struct id128 identity_profile(const struct batch *b, const struct resource *r, const struct profile *p)
{
    struct id128 res = identity_resource(r);
    struct hash128_state s;

    hash128_init(&s, DOMAIN_PROFILE);
    hash128_u64(&s, res.hi);
    hash128_u64(&s, res.lo);
    hash128_u64(&s, p->n_types);
    for (uint32_t i = 0; i < p->n_types; i++) {
        hash_str(&s, batch_string(b, p->types[i].type));
        hash_str(&s, batch_string(b, p->types[i].unit));
    }
    hash_str(&s, batch_string(b, p->period_type.type));
    hash_str(&s, batch_string(b, p->period_type.unit));
    hash128_u64(&s, (uint64_t) p->period);
    hash128_u64(&s, (uint64_t) p->time_ns);
    hash128_u64(&s, (uint64_t) p->duration_ns);
    hash_attrs(&s, b, p->attrs);
    hash128_u64(&s, p->samples.n);
    for (uint32_t i = 0; i < p->samples.n; i++) {
        const struct sample *v = &b->samples[p->samples.off + i];

        hash_sample(&s, b, v, identity_stack_of(b, v->stack, NULL));
    }
    return hash128_final(&s);
}

struct id128 identity_profile_sent(struct id128 request, uint32_t i)
{
    struct hash128_state s;

    hash128_init(&s, DOMAIN_SENT);
    hash128_u64(&s, request.hi);
    hash128_u64(&s, request.lo);
    hash128_u64(&s, i);
    return hash128_final(&s);
}
