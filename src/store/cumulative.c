/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the last value of each cumulative counter in a bounded hash table and turns new values into deltas; see
 * cumulative.h. */
#include "store/cumulative.h"

#include <errno.h>

#include "base/mem.h"
#include "base/wrap.h"

enum { ENTRIES_MAX = 1 << 20 };

struct cumulative_entry {
    struct id128 key;
    int64_t last;
};

void cumulative_done(struct cumulative *c)
{
    mem_free(c->entries);
    map_done(&c->map);
    *c = (struct cumulative){0};
}

static struct cumulative_entry *find(struct cumulative *c, struct id128 key)
{
    for (struct map_pos p = map_find(&c->map, hash64_id(key)); p.index != MAP_NONE; p = map_next(&c->map, p))
        if (id128_eq(c->entries[p.index].key, key))
            return &c->entries[p.index];
    return NULL;
}

static int put(struct cumulative *c, struct id128 key, int64_t last)
{
    struct cumulative_entry *e = find(c, key);
    int r;

    if (e) {
        e->last = last;
        return 0;
    }
    if (c->n >= ENTRIES_MAX) {
        c->n = 0;
        map_reset(&c->map);
    }
    r = array_reserve(c->entries, c->cap, (size_t) c->n + 1, ENTRIES_MAX);
    if (r == 0)
        r = map_insert(&c->map, hash64_id(key), c->n);
    if (r < 0)
        return r;
    c->entries[c->n++] = (struct cumulative_entry){key, last};
    return 0;
}

static struct id128 join(struct id128 a, struct id128 b)
{
    struct hash128_state s;

    hash128_init(&s, 0x63756d);
    hash128_u64(&s, a.hi);
    hash128_u64(&s, a.lo);
    hash128_u64(&s, b.hi);
    hash128_u64(&s, b.lo);
    return hash128_final(&s);
}

int cumulative_difference(struct cumulative *c, struct id128 who, const struct id128 *stacks, int64_t *values,
                          uint32_t n)
{
    struct id128 total_key = join(who, (struct id128){0, 0});
    const struct cumulative_entry *before = find(c, total_key);
    bool known = before != NULL, reset;
    int64_t total = 0;
    int r;

    for (uint32_t i = 0; i < n; i++)
        total = wrap_add(total, values[i]);
    reset = known && total < before->last;
    r = put(c, total_key, total);
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        struct id128 key = join(who, stacks[i]);
        const struct cumulative_entry *e = find(c, key);
        int64_t now = values[i];

        if (!known)
            values[i] = 0;
        else if (e && !reset && now >= e->last)
            values[i] = wrap_sub(now, e->last);
        r = put(c, key, now);
    }
    return r < 0 ? r : known;
}
