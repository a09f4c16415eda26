/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash index over an array that the caller owns: it stores (32 bits of hash, index) pairs and nothing else, so one
 * implementation serves every key type without callbacks:
 *
 *     uint64_t h = hash64_str(key);
 *     for (struct map_pos p = map_find(&m, h); p.index != MAP_NONE; p = map_next(&m, p))
 *         if (str_eq(items[p.index].key, key))
 *             return p.index;
 *     ... append to items ...
 *     r = map_insert(&m, h, n_items - 1);
 *
 * Open addressing, linear probing, at most 3/4 full, no removal (map_reset empties). Not thread-safe.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/macros.h"

#define MAP_NONE UINT32_MAX

struct map_slot {
    uint32_t hash, index; /* index MAP_NONE = free */
};

struct map {
    struct map_slot *slots;
    uint32_t mask; /* slots - 1; 0 with slots == NULL when empty */
    uint32_t n;
};

struct map_pos {
    uint32_t slot, hash, index;
};

#define MAP_INIT ((struct map){0})

void map_done(struct map *m);
void map_reset(struct map *m);
/* Makes room for n entries in total without another allocation. Returns 0 or -ENOMEM, with the map unchanged. */
int map_reserve(struct map *m, uint32_t n);
/* Adds an entry without checking for an equal one. Returns 0 or -ENOMEM, with the map unchanged. */
int map_insert(struct map *m, uint64_t hash, uint32_t index);

static inline struct map_pos map_scan(const struct map *m, uint32_t slot, uint32_t hash)
{
    for (;; slot = (slot + 1) & m->mask) {
        const struct map_slot *s = &m->slots[slot];

        if (s->index == MAP_NONE || s->hash == hash)
            return (struct map_pos){slot, hash, s->index};
    }
}

static inline struct map_pos map_find(const struct map *m, uint64_t hash)
{
    uint32_t h = (uint32_t) (hash >> 32);

    if (unlikely(!m->slots))
        return (struct map_pos){0, h, MAP_NONE};
    return map_scan(m, h & m->mask, h);
}

static inline struct map_pos map_next(const struct map *m, struct map_pos p)
{
    return map_scan(m, (p.slot + 1) & m->mask, p.hash);
}

#endif
