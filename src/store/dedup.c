/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of recent profile keys and its hash index; see dedup.h. Removal from the index shifts the following entries
 * back, so no tombstones accumulate. */
#include "store/dedup.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

void dedup_init(struct dedup *d, uint32_t max, int64_t window)
{
    *d = (struct dedup){.max = max, .window = window};
}

void dedup_done(struct dedup *d)
{
    mem_free(d->ring);
    mem_free(d->slots);
    *d = (struct dedup){0};
}

static uint32_t home(const struct dedup *d, struct id128 key)
{
    return (uint32_t) (hash_mix(hash64_u64(key.hi), key.lo & DEDUP_SHORT) >> 7) & (d->n_slots - 1);
}

/* Returns the slot of key, or the free slot where it would go. */
static uint32_t find_slot(const struct dedup *d, struct id128 key)
{
    uint32_t i = home(d, key);

    while (d->slots[i] && !id128_eq(d->ring[d->slots[i] - 1].key, key))
        i = (i + 1) & (d->n_slots - 1);
    return i;
}

void dedup_ahead(const struct dedup *d, struct id128 key, bool second)
{
    uint32_t i;

    if (!d->n_slots)
        return;
    i = home(d, key);
    if (!second)
        __builtin_prefetch(&d->slots[i]);
    else if (d->slots[i])
        __builtin_prefetch(&d->ring[d->slots[i] - 1]);
}

bool dedup_has(const struct dedup *d, struct id128 key)
{
    return d->n && (d->slots[find_slot(d, key)] || d->slots[find_slot(d, dedup_short(key))]);
}

static int grow(struct dedup *d)
{
    uint32_t cap = d->cap ? d->cap * 2 : 1024, slots = 1;
    struct dedup_entry *ring;
    uint32_t *table;

    cap = MIN(cap, d->max);
    while (slots < cap * 2)
        slots *= 2;
    ring = mem_alloc(cap * sizeof *ring);
    table = mem_zalloc_array(slots, sizeof *table);
    if (!ring || !table) {
        mem_free(ring);
        mem_free(table);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < d->n; i++)
        ring[i] = *dedup_at(d, i);
    mem_free(d->ring);
    mem_free(d->slots);
    d->ring = ring;
    d->slots = table;
    d->cap = cap;
    d->head = 0;
    d->n_slots = slots;
    for (uint32_t i = 0; i < d->n; i++)
        table[find_slot(d, ring[i].key)] = i + 1;
    return 0;
}

static void drop_oldest(struct dedup *d)
{
    uint32_t mask = d->n_slots - 1, hole = find_slot(d, d->ring[d->head].key), i = hole;

    for (;;) {
        uint32_t want;

        i = (i + 1) & mask;
        if (!d->slots[i])
            break;
        want = home(d, d->ring[d->slots[i] - 1].key);
        if (((i - want) & mask) >= ((i - hole) & mask)) {
            d->slots[hole] = d->slots[i];
            hole = i;
        }
    }
    d->slots[hole] = 0;
    d->head = d->head + 1 == d->cap ? 0 : d->head + 1;
    d->n--;
}

int dedup_add(struct dedup *d, struct id128 key, int64_t time_ns)
{
    uint32_t at, slot;
    int r;

    while (d->n && (d->n >= d->max || d->ring[d->head].time_ns < time_ns - d->window))
        drop_oldest(d);
    if (d->n == d->cap) {
        r = grow(d);
        if (r < 0)
            return r;
    }
    slot = find_slot(d, key);
    if (d->slots[slot])
        return 0;
    at = d->head + d->n;
    at = at >= d->cap ? at - d->cap : at;
    d->ring[at] = (struct dedup_entry){key, time_ns};
    d->slots[slot] = at + 1;
    d->n++;
    return 0;
}
