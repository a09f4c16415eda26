/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service's call tree, as the writer grows it. A stack that was seen before is found by the 128-bit hash of its
 * locations' numbers, in one look; a new one is walked from the root down.
 */
#include <errno.h>

#include "store/engines/segment/symbols_add.h"

#define NONE UINT32_MAX

uint32_t sym_add_node(struct sym_service *v, uint32_t parent, uint32_t location)
{
    struct sym_node *at = stable_next(&v->nodes);

    if (!at)
        return NONE;
    *at = (struct sym_node){parent, location};
    return stable_publish(&v->nodes);
}

static uint64_t node_hash(uint32_t parent, uint32_t location)
{
    return hash64_u64((uint64_t) parent << 32 | location);
}

static int catch_up(struct sym_service *v)
{
    uint32_t n = stable_count(&v->nodes);
    int r = v->mapped < n ? map_reserve(&v->node_map, n) : 0;

    for (; r == 0 && v->mapped < n; v->mapped++)
        if (v->mapped) { /* the root is nobody's child */
            const struct sym_node *x = sym_node(v, v->mapped);

            r = map_insert(&v->node_map, node_hash(x->parent, x->location), v->mapped);
        }
    return r;
}

static uint32_t child(struct sym_service *v, uint32_t parent, uint32_t location)
{
    uint64_t h = node_hash(parent, location);
    uint32_t n;

    for (struct map_pos p = map_find(&v->node_map, h); p.index != MAP_NONE; p = map_next(&v->node_map, p)) {
        const struct sym_node *x = sym_node(v, p.index);

        if (x->parent == parent && x->location == location)
            return p.index;
    }
    n = sym_add_node(v, parent, location);
    if (n == NONE || map_insert(&v->node_map, h, n) < 0)
        return NONE;
    v->mapped = n + 1;
    return n;
}

static int grow_stacks(struct sym_service *v)
{
    uint32_t size = v->stacks ? (v->stack_mask + 1) * 2 : 256;
    struct sym_stack *n = mem_zalloc_array(size, sizeof *n);

    if (!n)
        return -ENOMEM;
    for (uint32_t i = 0; v->stacks && i <= v->stack_mask; i++)
        if (v->stacks[i].node) {
            uint32_t k = (uint32_t) v->stacks[i].lo & (size - 1);

            while (n[k].node)
                k = (k + 1) & (size - 1);
            n[k] = v->stacks[i];
        }
    mem_free(v->stacks);
    v->stacks = n;
    v->stack_mask = size - 1;
    return 0;
}

static uint32_t walk(struct symbols *s, struct sym_service *v, uint32_t service, const uint32_t *locations, uint32_t n)
{
    uint32_t before, node = 0, after;

    if (catch_up(v) < 0)
        return NONE;
    before = stable_count(&v->nodes);
    for (uint32_t i = n; i-- > 0 && node != NONE;)
        node = child(v, node, locations[i]);
    after = stable_count(&v->nodes);
    if (after > before && !s->replaying) {
        buf_putc(&s->defs, DEF_NODES);
        put_varint(&s->defs, service);
        put_varint(&s->defs, before);
        put_varint(&s->defs, after - before);
        for (uint32_t i = before; i < after; i++) {
            put_varint(&s->defs, i - sym_node(v, i)->parent);
            put_varint(&s->defs, sym_node(v, i)->location);
        }
    }
    return node;
}

static void hash_str(struct hash128_state *h, struct str v)
{
    hash128_bytes(h, v.p, v.n);
}

/* A location's content as identity.h has it: what it is, not which number it has. */
static struct id128 make_print(const struct symbols *s, const struct sym_location *l)
{
    const struct sym_mapping *m = stable_at(&s->mappings, l->mapping);
    const struct sym_lines *lines = atomic_load_explicit(&((struct sym_location *) l)->lines, memory_order_relaxed);
    struct hash128_state h;

    hash128_init(&h, l->address != 0);
    hash128_u64(&h, l->address);
    hash_str(&h, sym_string(s, m->build_id ? m->build_id : m->filename));
    hash128_u64(&h, l->kind);
    for (uint32_t i = 0; (!l->address || !l->mapping) && lines && i < lines->n; i++) {
        const struct sym_function *f = stable_at(&s->functions, lines->v[i].function);

        hash_str(&h, sym_string(s, f->name ? f->name : f->system_name));
        hash_str(&h, sym_string(s, f->file));
        hash128_u64(&h, (uint64_t) lines->v[i].line);
    }
    return hash128_final(&h);
}

static const struct id128 *find_print(struct symbols *s, uint32_t location)
{
    struct id128 *p;

    while (unlikely(stable_count(&s->prints) <= location)) {
        p = stable_next(&s->prints);
        if (!p)
            return NULL;
        *p = (struct id128){0, 0};
        stable_publish(&s->prints);
    }
    p = stable_at(&s->prints, location);
    if (unlikely(id128_is_zero(*p)))
        *p = make_print(s, sym_location(s, location));
    return p;
}

struct id128 symbols_stack_id(struct symbols *s, struct sym_memo *m, uint32_t stack)
{
    struct run st = m->batch->dict.stacks[stack];
    uint64_t x = 0xa0761d6478bd642full ^ st.n, y = 0x8ebc6af09c88c6e3ull;

    if (!id128_is_zero(m->stacks[stack]))
        return m->stacks[stack];
    for (uint32_t i = 0; i < st.n; i++) {
        uint32_t k = m->batch->dict.indices[st.off + i];

        if (unlikely(!m->locations[k])) {
            uint32_t location = symbols_location(s, m, k);
            const struct id128 *p = location == NONE ? NULL : find_print(s, location);

            if (!p)
                return (struct id128){0, 0};
            m->prints[k] = *p;
        }
        x = hash_mix(x ^ m->prints[k].hi, m->prints[k].lo ^ 0xe7037ed1a0b428dbull);
        y = (y << 23 | y >> 41) ^ x;
    }
    m->stacks[stack] = (struct id128){x, y};
    return m->stacks[stack];
}

uint32_t symbols_stack(struct symbols *s, struct sym_memo *m, uint32_t service, uint32_t stack)
{
    struct sym_service *v = sym_service(s, service);
    struct run st = m->batch->dict.stacks[stack];
    struct id128 id = symbols_stack_id(s, m, stack);
    uint32_t k, node;

    if (id128_is_zero(id))
        return NONE;
    if ((v->n_stacks + 1) * 2 > v->stack_mask && grow_stacks(v) < 0)
        return NONE;
    for (k = (uint32_t) id.lo & v->stack_mask; v->stacks[k].node; k = (k + 1) & v->stack_mask)
        if (v->stacks[k].hi == id.hi && v->stacks[k].lo == id.lo)
            return v->stacks[k].node - 1;
    for (uint32_t i = 0; i < st.n; i++)
        m->scratch[i] = m->locations[m->batch->dict.indices[st.off + i]] - 1;
    node = walk(s, v, service, m->scratch, st.n);
    if (node == NONE)
        return NONE;
    v->stacks[k] = (struct sym_stack){id.hi, id.lo, node + 1};
    v->n_stacks++;
    return node;
}
