/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extends a service's call tree for the writer. A stack that was seen before is found by its fingerprint
 * (fingerprints.h), in one lookup; for a new stack, its locations are looked up and the tree is walked from the root
 * down.
 */
#include <errno.h>

#include "store/engines/segment/symbols/symbols_add.h"

#define NONE UINT32_MAX

uint32_t sym_add_node(struct sym_service *v, uint32_t parent, uint32_t location)
{
    struct sym_node *at = pinned_next(&v->nodes);

    if (!at)
        return NONE;
    *at = (struct sym_node){parent, location};
    return pinned_publish(&v->nodes);
}

static uint64_t node_hash(uint32_t parent, uint32_t location)
{
    return hash64_u64((uint64_t) parent << 32 | location);
}

static int catch_up(struct sym_service *v)
{
    uint32_t n = pinned_count(&v->nodes);
    int r = v->mapped < n ? map_reserve(&v->node_map, n) : 0;

    for (; r == 0 && v->mapped < n; v->mapped++)
        if (v->mapped) { /* the root has no parent */
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

/* Returns the slot of this identity in the service's table, or the free slot where it goes. NULL when memory runs
 * out. */
static struct sym_stack *find_slot(struct sym_service *v, struct id128 id)
{
    uint32_t k;

    if ((v->n_stacks + 1) * 2 > v->stack_mask && grow_stacks(v) < 0)
        return NULL;
    for (k = (uint32_t) id.lo & v->stack_mask; v->stacks[k].node; k = (k + 1) & v->stack_mask)
        if (v->stacks[k].hi == id.hi && v->stacks[k].lo == id.lo)
            break;
    return &v->stacks[k];
}

static int remember(struct sym_service *v, struct id128 id, uint32_t node, bool unnamed)
{
    struct sym_stack *at = find_slot(v, id);

    if (!at)
        return -ENOMEM;
    v->n_stacks += !at->node;
    *at = (struct sym_stack){id.hi, id.lo, node + 1, unnamed};
    return 0;
}

static void put_nodes(struct symbols *s, const struct sym_service *v, uint32_t service, uint32_t before)
{
    uint32_t after = pinned_count(&v->nodes);

    if (after == before || s->replaying)
        return;
    buf_putc(&s->defs, DEF_NODES);
    put_varint(&s->defs, service);
    put_varint(&s->defs, before);
    put_varint(&s->defs, after - before);
    for (uint32_t i = before; i < after; i++) {
        put_varint(&s->defs, i - sym_node(v, i)->parent);
        put_varint(&s->defs, sym_node(v, i)->location);
    }
}

/* Every eighth node on a path is recorded by the hash of its path, so that a new stack begins near its first new
 * node. */
enum { STRIDE = 8, STRIDES_MAX = 64 };

/* Computes the identities of the first 8, 16, ... frames from the root; returns their count. */
static uint32_t prefix_ids(const struct sym_memo *m, struct run st, struct id128 *ids)
{
    uint64_t x = 0xe7037ed1a0b428dbull, y = 0x589965cc75374cc3ull;
    uint32_t n = 0;

    for (uint32_t i = 0; i + 1 < st.n && n < STRIDES_MAX; i++) { /* a whole stack has its own entry */
        struct id128 id = m->prints.locations[m->batch->dict.indices[st.off + st.n - 1 - i]];

        x = hash_mix(x ^ id.hi, id.lo ^ 0x8ebc6af09c88c6e3ull);
        y = (y << 23 | y >> 41) ^ x;
        if ((i + 1) % STRIDE == 0)
            ids[n++] = (struct id128){x, y & ~1ull}; /* odd ones are whole stacks */
    }
    return n;
}

static bool is_unnamed(const struct symbols *s, uint32_t location)
{
    const struct sym_location *l = sym_location(s, location);

    return l->address && !atomic_load_explicit(&((struct sym_location *) l)->lines, memory_order_relaxed);
}

/* Only locations below the known part are looked up. */
static uint32_t add_stack(struct symbols *s, struct sym_memo *m, struct sym_service *v, uint32_t service, struct run st,
                          bool *ret_unnamed)
{
    const uint32_t *list = st.n ? m->batch->dict.indices + st.off : NULL;
    struct id128 ids[STRIDES_MAX];
    uint32_t n_ids = prefix_ids(m, st, ids), known = n_ids, node = 0, before;
    bool unnamed = false;

    if (sym_memo_tables(m) < 0 || catch_up(v) < 0)
        return NONE;
    for (; known > 0; known--) {
        const struct sym_stack *at = find_slot(v, ids[known - 1]);

        if (at && at->node) {
            node = at->node - 1;
            unnamed = at->unnamed;
            break;
        }
    }
    for (uint32_t i = 0; i + known * STRIDE < st.n; i++) {
        m->scratch[i] = symbols_location(s, m, list[i]);
        if (m->scratch[i] == NONE)
            return NONE;
    }
    if (!sym_room(s, 1 + (3 + 2 * (size_t) (st.n - known * STRIDE)) * VARINT_MAX))
        return NONE;
    before = pinned_count(&v->nodes);
    for (uint32_t i = known * STRIDE; i < st.n && node != NONE; i++) {
        uint32_t location = m->scratch[st.n - 1 - i];

        node = child(v, node, location);
        unnamed |= is_unnamed(s, location);
        if (node != NONE && (i + 1) % STRIDE == 0 && (i + 1) / STRIDE <= n_ids)
            remember(v, ids[(i + 1) / STRIDE - 1], node, unnamed); /* if memory runs out, it is only slower */
    }
    put_nodes(s, v, service, before);
    *ret_unnamed = unnamed;
    return node;
}

/* Adds names that the batch has to native locations of its stack that lack them. Returns whether some still lack names
 * afterwards. */
static int name_stack(struct symbols *s, struct sym_memo *m, struct run st)
{
    int unnamed = 0;

    if (sym_memo_tables(m) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < st.n; i++) {
        uint32_t k = m->batch->dict.indices[st.off + i], location;
        const struct location *l = &m->batch->dict.locations[k];

        if (!l->address)
            continue;
        if (!l->lines.n) {
            unnamed = 1;
            continue;
        }
        location = symbols_location(s, m, k); /* adds names if it has none */
        if (location == NONE)
            return -ENOMEM;
    }
    return unnamed;
}

uint32_t symbols_stack(struct symbols *s, struct sym_memo *m, uint32_t service, uint32_t stack)
{
    struct sym_service *v = sym_service(s, service);
    struct run st = m->batch->dict.stacks[stack];
    struct id128 id = fingerprints_stack(&m->prints, stack);
    struct sym_stack *at = find_slot(v, id);
    uint32_t node;
    bool unnamed;

    if (!at)
        return NONE;
    if (likely(at->node)) {
        if (unlikely(at->unnamed && m->batch->dict.n_lines)) {
            int r = name_stack(s, m, st);

            if (r < 0)
                return NONE;
            at->unnamed = (uint32_t) r;
        }
        return at->node - 1;
    }
    if (unlikely(s->frozen))
        return NONE;
    node = add_stack(s, m, v, service, st, &unnamed);
    if (node == NONE || remember(v, id, node, unnamed) < 0)
        return NONE;
    return node;
}

void symbols_stack_ahead(const struct symbols *s, struct sym_memo *m, uint32_t service, uint32_t stack)
{
    const struct sym_service *v = sym_service(s, service);

    if (v->stacks)
        __builtin_prefetch(&v->stacks[fingerprints_stack(&m->prints, stack).lo & v->stack_mask]);
}
