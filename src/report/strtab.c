/* SPDX-License-Identifier: Apache-2.0 */
/* A table that gives each distinct string a number. */
#include "report/strtab.h"

#include <errno.h>

#include "base/hash.h"
#include "base/mem.h"

enum { STRTAB_MAX = 1u << 30 };

int strtab_init(struct strtab *t)
{
    *t = (struct strtab){0};
    arena_init(&t->arena, 0);
    if (array_reserve(t->v, t->cap, 64, STRTAB_MAX) < 0)
        return t->err = -ENOMEM;
    t->v[0] = STR("");
    t->n = 1;
    return 0;
}

void strtab_done(struct strtab *t)
{
    mem_free(t->v);
    map_done(&t->map);
    arena_done(&t->arena);
    *t = (struct strtab){0};
}

static uint32_t add(struct strtab *t, uint64_t hash, struct str s)
{
    int r;

    if (t->err)
        return 0;
    r = array_reserve(t->v, t->cap, t->n + 1, STRTAB_MAX);
    if (r >= 0)
        r = map_insert(&t->map, hash, (uint32_t) t->n);
    if (r < 0) {
        t->err = r;
        return 0;
    }
    t->v[t->n] = s;
    return (uint32_t) t->n++;
}

static uint32_t find(const struct strtab *t, uint64_t hash, struct str s)
{
    for (struct map_pos p = map_find(&t->map, hash); p.index != MAP_NONE; p = map_next(&t->map, p))
        if (str_eq(t->v[p.index], s))
            return p.index;
    return MAP_NONE;
}

uint32_t strtab_id(struct strtab *t, struct str s)
{
    uint64_t hash;
    uint32_t id;

    if (!s.n)
        return 0;
    hash = hash64_str(s);
    id = find(t, hash, s);
    return id != MAP_NONE ? id : add(t, hash, s);
}

uint32_t strtab_copy(struct strtab *t, struct str s)
{
    uint64_t hash;
    uint32_t id;
    struct str own;

    if (!s.n)
        return 0;
    hash = hash64_str(s);
    id = find(t, hash, s);
    if (id != MAP_NONE)
        return id;
    own = arena_str(&t->arena, s);
    if (!own.p) {
        t->err = -ENOMEM;
        return 0;
    }
    return add(t, hash, own);
}
