/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A map from 128-bit identities to numbers. Identities are trusted: equal ones are the same object. Open addressing,
 * linear probing, at most half full; no removal. Belongs to one thread.
 */
#ifndef SEGMENT_IDMAP_H
#define SEGMENT_IDMAP_H

#include <errno.h>

#include "base/hash.h"
#include "base/mem.h"

struct idmap {
    struct idmap_slot {
        struct id128 id;
        uint32_t number; /* + 1; 0 = free */
    } * slots;
    uint32_t mask, n; /* mask: slots - 1 */
};

static inline void idmap_done(struct idmap *m)
{
    mem_free(m->slots);
    *m = (struct idmap){0};
}

static inline struct idmap_slot *idmap_slot(const struct idmap *m, struct id128 id)
{
    uint32_t k = (uint32_t) hash64_id(id) & m->mask;

    while (m->slots[k].number && !id128_eq(m->slots[k].id, id))
        k = (k + 1) & m->mask;
    return &m->slots[k];
}

/* Prefetches the slot for a lookup that follows soon. */
static inline void idmap_ahead(const struct idmap *m, struct id128 id)
{
    if (m->slots)
        __builtin_prefetch(&m->slots[(uint32_t) hash64_id(id) & m->mask]);
}

/* Returns UINT32_MAX when it is absent. */
static inline uint32_t idmap_find(const struct idmap *m, struct id128 id)
{
    return m->slots ? idmap_slot(m, id)->number - 1 : UINT32_MAX;
}

/* Returns 0, or -ENOMEM with the map unchanged. */
static inline int idmap_put(struct idmap *m, struct id128 id, uint32_t number)
{
    if (!m->slots || (m->n + 1) * 2 > m->mask) {
        struct idmap old = *m;

        m->mask = old.slots ? old.mask * 2 + 1 : 255;
        m->slots = mem_zalloc_array(m->mask + 1ull, sizeof *m->slots);
        if (!m->slots) {
            *m = old;
            return -ENOMEM;
        }
        for (uint32_t i = 0; old.slots && i <= old.mask; i++)
            if (old.slots[i].number)
                *idmap_slot(m, old.slots[i].id) = old.slots[i];
        mem_free(old.slots);
    }
    *idmap_slot(m, id) = (struct idmap_slot){id, number + 1};
    m->n++;
    return 0;
}

#endif
