/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps what queries decoded of a segment, with the segment's other cached parts: directories, totals of chunks, the
 * profiles of chunks without their rows, and the attributes that occur in chunks. Almost every query reads directories
 * and totals, every rate needs the times of all profiles of its selection, and every view lists the names of labels.
 *
 * The list belongs to the segment and changes only under its lock. What it returns stays valid until the caller
 * releases the segment (segment_file.h). Keeping is an optimization: when memory runs out, nothing is kept.
 */
#include "base/mem.h"
#include "store/engines/segment/format/segment_file.h"

/* What an entry holds. A place in the file and the kind are its key. */
enum { LISTED_PROFILES, LISTED_COUNTED, LISTED_DIRECTORY, LISTED_ATTRIBUTES, LISTED_TOTALS, LISTED_BITS = 3 };
enum { TOTALS_SHARE = 8 }; /* totals are kept while the segment has less than this part of the cache */

struct segment_listed {
    struct arena arena; /* what the entries point to */
    struct listed_entry {
        uint64_t key;
        const void *v; /* n stored_profiles, dir_entries or bytes of totals, or one segment_attributes */
        uint32_t n;
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

static uint64_t key_of(uint64_t off, unsigned kind)
{
    return off << LISTED_BITS | kind;
}

static const struct listed_entry *find(const struct segment_listed *l, uint64_t key)
{
    for (struct map_pos p = map_find(&l->map, hash64_u64(key)); p.index != MAP_NONE; p = map_next(&l->map, p))
        if (l->v[p.index].key == key)
            return &l->v[p.index];
    return NULL;
}

/* Locks the segment and returns its list, or NULL. */
static struct segment_listed *lock_list(struct segment *s)
{
    pthread_mutex_lock(&s->lock);
    if (!s->listed) {
        s->listed = mem_zalloc(sizeof *s->listed);
        if (s->listed)
            arena_init(&s->listed->arena, 0);
    }
    return s->listed;
}

/* Adds an entry whose data is in the list's arena; v may be NULL when memory ran out. */
static void add(struct segment_listed *l, uint64_t key, const void *v, uint32_t n)
{
    if (v && array_reserve(l->v, l->cap, (size_t) l->n + 1, UINT32_MAX) == 0 &&
        map_insert(&l->map, hash64_u64(key), l->n) >= 0)
        l->v[l->n++] = (struct listed_entry){key, v, n};
}

bool segment_listed_find(struct segment *s, uint64_t off, bool counted, struct chunk_profiles *ret)
{
    const struct listed_entry *x = NULL;

    pthread_mutex_lock(&s->lock);
    if (s->listed) {
        x = find(s->listed, key_of(off, LISTED_COUNTED)); /* also right for a caller that needs no numbers of rows */
        if (!x && !counted)
            x = find(s->listed, key_of(off, LISTED_PROFILES));
        if (x)
            *ret = (struct chunk_profiles){.profs = (struct stored_profile *) x->v, .n_profs = x->n};
    }
    pthread_mutex_unlock(&s->lock);
    return x != NULL;
}

void segment_listed_keep(struct segment *s, uint64_t off, bool counted, const struct chunk_profiles *p)
{
    uint64_t key = key_of(off, counted ? LISTED_COUNTED : LISTED_PROFILES);
    struct segment_listed *l;

    if (!s->lru)
        return;
    l = lock_list(s);
    if (l && !find(l, key)) {
        struct stored_profile *v = arena_alloc(&l->arena, (p->n_profs + 1) * sizeof *v);

        for (uint32_t i = 0; v && i < p->n_profs; i++) {
            v[i] = p->profs[i];
            v[i].rows = NULL;
            v[i].extras = NULL;
        }
        add(l, key, v, p->n_profs);
    }
    pthread_mutex_unlock(&s->lock);
}

int segment_directory(struct segment *s, const struct segment_group *g, int level, struct arena *a,
                      struct directory *ret, struct err *e)
{
    uint64_t key = key_of(g->dirs[level].off, LISTED_DIRECTORY);
    const struct listed_entry *x = NULL;
    struct segment_listed *l;
    int r;

    pthread_mutex_lock(&s->lock);
    if (s->listed && g->dirs[level].len)
        x = find(s->listed, key);
    if (x)
        *ret = (struct directory){x->v, x->n};
    pthread_mutex_unlock(&s->lock);
    if (x)
        return 0;
    r = segment_read_directory(s, g, level, a, ret, e);
    if (r < 0 || !s->lru || !ret->n)
        return r;
    l = lock_list(s);
    if (l && !find(l, key)) {
        struct dir_entry *v = arena_alloc(&l->arena, ret->n * sizeof *v);

        if (v)
            memcpy(v, ret->v, ret->n * sizeof *v);
        add(l, key, v, ret->n);
    }
    pthread_mutex_unlock(&s->lock);
    return 0;
}

int segment_totals(struct segment *s, uint64_t off, uint32_t head, struct chunk *ret, struct err *e)
{
    uint64_t key = key_of(off, LISTED_TOTALS);
    const struct listed_entry *x;
    struct segment_listed *l;
    int r;

    pthread_mutex_lock(&s->lock);
    x = s->listed ? find(s->listed, key) : NULL;
    if (x) {
        *ret = (struct chunk){.is_shared = true};
        ret->raw[SEC_TOTALS] = (unsigned char *) x->v;
        ret->size[SEC_TOTALS] = x->n;
    }
    pthread_mutex_unlock(&s->lock);
    if (x)
        return 0;
    r = segment_chunk(s, off, head, 1u << SEC_TOTALS, ret, e);
    if (r < 0 || !s->lru || !ret->raw[SEC_TOTALS])
        return r;
    l = lock_list(s);
    if (l && !find(l, key) && segment_listed_bytes(l) + ret->size[SEC_TOTALS] < s->lru->max / TOTALS_SHARE) {
        unsigned char *v = arena_alloc(&l->arena, ret->size[SEC_TOTALS] + 16u); /* as in chunk_open() */

        if (v)
            memcpy(v, ret->raw[SEC_TOTALS], ret->size[SEC_TOTALS]);
        add(l, key, v, ret->size[SEC_TOTALS]);
    }
    pthread_mutex_unlock(&s->lock);
    return 0;
}

const struct segment_attributes *segment_attributes_find(struct segment *s, uint64_t off)
{
    const struct segment_attributes *ret = NULL;
    const struct listed_entry *x;

    pthread_mutex_lock(&s->lock);
    x = s->listed ? find(s->listed, key_of(off, LISTED_ATTRIBUTES)) : NULL;
    if (x)
        ret = x->v; /* x itself moves when another thread adds an entry */
    pthread_mutex_unlock(&s->lock);
    return ret;
}

void segment_attributes_keep(struct segment *s, uint64_t off, const struct segment_attributes *p)
{
    uint64_t key = key_of(off, LISTED_ATTRIBUTES);
    struct segment_listed *l;

    if (!s->lru)
        return;
    l = lock_list(s);
    if (l && !find(l, key)) {
        struct segment_attributes *copy = arena_alloc(&l->arena, sizeof *copy);
        struct segment_attribute *v = copy ? arena_alloc(&l->arena, (p->n + 1) * sizeof *v) : NULL;

        if (v) {
            memcpy(v, p->v, p->n * sizeof *v);
            *copy = *p;
            copy->v = v;
            add(l, key, copy, 1);
        }
    }
    pthread_mutex_unlock(&s->lock);
}
