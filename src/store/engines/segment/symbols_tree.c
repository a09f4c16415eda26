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

uint32_t symbols_stack(struct symbols *s, struct sym_memo *m, uint32_t service, uint32_t stack, uint32_t *scratch)
{
    struct sym_service *v = sym_service(s, service);
    struct run st = m->batch->dict.stacks[stack];
    uint64_t a = 0xa0761d6478bd642full ^ st.n, b = 0x8ebc6af09c88c6e3ull;
    uint32_t k, node;

    for (uint32_t i = 0; i < st.n; i++) {
        scratch[i] = symbols_location(s, m, m->batch->dict.indices[st.off + i]);
        if (unlikely(scratch[i] == NONE))
            return NONE;
        a = hash_mix(a ^ scratch[i], 0xe7037ed1a0b428dbull);
        b = (b << 23 | b >> 41) ^ a;
    }
    if ((v->n_stacks + 1) * 2 > v->stack_mask && grow_stacks(v) < 0)
        return NONE;
    for (k = (uint32_t) b & v->stack_mask; v->stacks[k].node; k = (k + 1) & v->stack_mask)
        if (v->stacks[k].hi == a && v->stacks[k].lo == b)
            return v->stacks[k].node - 1;
    node = walk(s, v, service, scratch, st.n);
    if (node == NONE)
        return NONE;
    v->stacks[k] = (struct sym_stack){a, b, node + 1};
    v->n_stacks++;
    return node;
}
