/* SPDX-License-Identifier: Apache-2.0 */
/* See prints.h. */
#include "store/engines/segment/prints.h"

#include <errno.h>
#include <string.h>

#include "model/identity.h"

/* Domains keep equal numbers of different kinds apart. */
enum { PRINT_FUNCTION = 11, PRINT_MAPPING, PRINT_NATIVE, PRINT_LINES };

int prints_init(struct prints *p, const struct batch *b, struct arena *a)
{
    const struct dict *d = &b->dict;
    size_t n[] = {d->n_strings, d->n_functions, d->n_mappings, d->n_locations, d->n_stacks}, all = 0;
    struct id128 *v;

    for (size_t i = 0; i < ARRAY_SIZE(n); i++)
        all += n[i];
    v = arena_zalloc_array(a, all + 1, sizeof *v);
    if (!v)
        return -ENOMEM;
    *p = (struct prints){.batch = b,
                         .strings = v,
                         .functions = v + n[0],
                         .mappings = v + n[0] + n[1],
                         .locations = v + n[0] + n[1] + n[2],
                         .stacks = v + n[0] + n[1] + n[2] + n[3]};
    return 0;
}

static void add_id(struct hash128_state *h, struct id128 id)
{
    hash128_u64(h, id.hi);
    hash128_u64(h, id.lo);
}

static struct id128 finish(const struct hash128_state *h)
{
    struct id128 id = hash128_final(h);

    return id128_is_zero(id) ? (struct id128){0, 1} : id;
}

/* Sixteen bytes a step in two lanes that both see all of them. */
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

static struct id128 print_string(struct prints *p, uint32_t i)
{
    if (id128_is_zero(p->strings[i]))
        p->strings[i] = hash_bytes(p->batch->dict.strings[i]);
    return p->strings[i];
}

static struct id128 print_function(struct prints *p, uint32_t i)
{
    if (id128_is_zero(p->functions[i])) {
        const struct function *f = &p->batch->dict.functions[i];
        struct hash128_state h;

        hash128_init(&h, PRINT_FUNCTION);
        add_id(&h, print_string(p, f->name));
        if (f->system_name)
            add_id(&h, print_string(p, f->system_name));
        hash128_u64(&h, (uint64_t) f->start_line);
        add_id(&h, print_string(p, f->filename));
        p->functions[i] = finish(&h);
    }
    return p->functions[i];
}

static struct id128 print_mapping(struct prints *p, uint32_t i)
{
    if (id128_is_zero(p->mappings[i])) {
        struct str id = identity_build_id(p->batch, i);
        struct hash128_state h;

        hash128_init(&h, PRINT_MAPPING);
        hash128_u64(&h, id.n != 0);
        add_id(&h, hash_bytes(id.n ? id : batch_string(p->batch, p->batch->dict.mappings[i].filename)));
        p->mappings[i] = finish(&h);
    }
    return p->mappings[i];
}

static struct id128 print_location(struct prints *p, uint32_t i)
{
    const struct location *l = &p->batch->dict.locations[i];
    const struct attr *kind;
    struct hash128_state h;

    if (l->address && (l->mapping || !l->lines.n)) {
        hash128_init(&h, PRINT_NATIVE);
        add_id(&h, print_mapping(p, l->mapping));
        hash128_u64(&h, identity_elf_address(&p->batch->dict.mappings[l->mapping], l->address));
        return finish(&h);
    }
    hash128_init(&h, PRINT_LINES);
    hash128_u64(&h, l->address);
    kind = l->attrs.n ? batch_attr(p->batch, l->attrs, STR("profile.frame.type")) : NULL;
    if (kind)
        add_id(&h, hash_bytes(value_str(&kind->value)));
    if (!l->lines.n)
        add_id(&h, print_mapping(p, l->mapping));
    for (uint32_t k = 0; k < l->lines.n; k++) {
        const struct line *n = &p->batch->dict.lines[l->lines.off + k];

        add_id(&h, print_function(p, n->function));
        hash128_u64(&h, (uint64_t) n->line);
    }
    return finish(&h);
}

struct id128 prints_make_stack(struct prints *p, uint32_t stack)
{
    struct run st = p->batch->dict.stacks[stack];
    const uint32_t *list = p->batch->dict.indices + st.off;
    uint64_t x = 0xa0761d6478bd642full ^ st.n, y = 0x8ebc6af09c88c6e3ull;

    for (uint32_t i = 0; i < st.n; i++) {
        struct id128 *id = &p->locations[list[i]];

        if (unlikely(id128_is_zero(*id)))
            *id = print_location(p, list[i]);
        x = hash_mix(x ^ id->hi, id->lo ^ 0xe7037ed1a0b428dbull);
        y = (y << 23 | y >> 41) ^ x;
    }
    p->stacks[stack] = (struct id128){x, y | 1};
    return p->stacks[stack];
}

void prints_samples(struct prints *p, const struct sample *samples, uint32_t n)
{
    const struct dict *d = &p->batch->dict;

    for (uint32_t i = 0; i < n; i++) {
        if (i + 24 < n)
            __builtin_prefetch(&d->stacks[samples[i + 24].stack]);
        if (i + 12 < n) {
            struct run ahead = d->stacks[samples[i + 12].stack];

            for (uint32_t k = 0; k < ahead.n && k < 64; k += 16)
                __builtin_prefetch(&d->indices[ahead.off + k]);
        }
        prints_stack(p, samples[i].stack);
    }
}
