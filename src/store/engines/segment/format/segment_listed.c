/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the decoded profiles of chunks, without their rows, with the segment's other cached parts. Every rate needs the
 * times of all profiles of its selection, so that the same chunks are listed by almost every query.
 *
 * The list belongs to the segment and changes only under its lock. Profiles that it returns stay valid until the caller
 * releases the segment (segment_file.h). Keeping is an optimization: when memory runs out, nothing is kept.
 */
#include "base/mem.h"
#include "store/engines/segment/format/segment_file.h"

struct segment_listed {
    struct arena arena; /* the profiles */
    struct listed_chunk {
        uint64_t key;
        struct chunk_profiles profiles; /* only profs and n_profs are set */
    } * v;
    size_t cap;
    uint32_t n;
    struct map map;
};

void segment_listed_free(struct segment_listed *l)
{
    if (!l)
        return;
    arena_done(&l->arena);
    mem_free(l->v);
    map_done(&l->map);
    mem_free(l);
}

size_t segment_listed_bytes(const struct segment_listed *l)
{
    return l ? sizeof *l + l->arena.used + l->cap * sizeof *l->v + (l->map.mask + (size_t) 1) * sizeof *l->map.slots
             : 0;
}

static uint64_t key_of(uint64_t off, bool counted)
{
    return off << 1 | counted;
}

static uint32_t find(const struct segment_listed *l, uint64_t key)
{
    for (struct map_pos p = map_find(&l->map, hash64_u64(key)); p.index != MAP_NONE; p = map_next(&l->map, p))
        if (l->v[p.index].key == key)
            return p.index;
    return MAP_NONE;
}

bool segment_listed_find(struct segment *s, uint64_t off, bool counted, struct chunk_profiles *ret)
{
    uint32_t i = MAP_NONE;

    pthread_mutex_lock(&s->lock);
    if (s->listed) {
        i = find(s->listed, key_of(off, true)); /* also right for a caller that needs no numbers of rows */
        if (i == MAP_NONE && !counted)
            i = find(s->listed, key_of(off, false));
        if (i != MAP_NONE)
            *ret = s->listed->v[i].profiles;
    }
    pthread_mutex_unlock(&s->lock);
    return i != MAP_NONE;
}

static void keep(struct segment_listed *l, uint64_t key, const struct chunk_profiles *p)
{
    struct stored_profile *v;

    if (find(l, key) != MAP_NONE || array_reserve(l->v, l->cap, (size_t) l->n + 1, UINT32_MAX) < 0)
        return;
    v = arena_alloc(&l->arena, (p->n_profs + 1) * sizeof *v);
    if (!v || map_insert(&l->map, hash64_u64(key), l->n) < 0)
        return;
    memcpy(v, p->profs, p->n_profs * sizeof *v);
    for (uint32_t i = 0; i < p->n_profs; i++) {
        v[i].rows = NULL;
        v[i].extras = NULL;
    }
    l->v[l->n++] = (struct listed_chunk){key, {.profs = v, .n_profs = p->n_profs}};
}

void segment_listed_keep(struct segment *s, uint64_t off, bool counted, const struct chunk_profiles *p)
{
    if (!s->lru)
        return;
    pthread_mutex_lock(&s->lock);
    if (!s->listed) {
        s->listed = mem_zalloc(sizeof *s->listed);
        if (s->listed)
            arena_init(&s->listed->arena, 0);
    }
    if (s->listed)
        keep(s->listed, key_of(off, counted), p);
    pthread_mutex_unlock(&s->lock);
}
