/* SPDX-License-Identifier: Apache-2.0 */
/* The hash index of map.h: open addressing with linear probing. */
#include "base/map.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

void map_done(struct map *m)
{
    mem_free(m->slots);
    *m = MAP_INIT;
}

void map_reset(struct map *m)
{
    if (m->slots)
        memset(m->slots, 0xff, ((size_t) m->mask + 1) * sizeof *m->slots);
    m->n = 0;
}

static void place(struct map *m, uint32_t hash, uint32_t index)
{
    uint32_t i = hash & m->mask;

    while (m->slots[i].index != MAP_NONE)
        i = (i + 1) & m->mask;
    m->slots[i] = (struct map_slot){hash, index};
    m->n++;
}

static int resize(struct map *m, uint64_t size)
{
    struct map old = *m;

    if (size > (uint64_t) UINT32_MAX / 2)
        return -ENOMEM;
    m->slots = mem_alloc(size * sizeof *m->slots);
    if (!m->slots) {
        *m = old;
        return -ENOMEM;
    }
    m->mask = (uint32_t) size - 1;
    map_reset(m);
    for (uint32_t i = 0; old.slots && i <= old.mask; i++)
        if (old.slots[i].index != MAP_NONE)
            place(m, old.slots[i].hash, old.slots[i].index);
    mem_free(old.slots);
    return 0;
}

int map_reserve(struct map *m, uint32_t n)
{
    uint64_t size = m->slots ? (uint64_t) m->mask + 1 : 16;

    while (size * 3 / 4 < n)
        size *= 2;
    return m->slots && size == (uint64_t) m->mask + 1 ? 0 : resize(m, size);
}

int map_insert(struct map *m, uint64_t hash, uint32_t index)
{
    int r = map_reserve(m, m->n + 1);

    if (r < 0)
        return r;
    place(m, (uint32_t) (hash >> 32), index);
    return 0;
}
