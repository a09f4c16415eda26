/* SPDX-License-Identifier: Apache-2.0 */
/* The snapshots that readers use, each replaced as a whole; see engine.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "store/engines/segment/engine.h"

struct snapshot *snapshot_get(struct engine *g)
{
    struct snapshot *s;

    pthread_mutex_lock(&g->lock);
    s = g->snapshot;
    if (s)
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    pthread_mutex_unlock(&g->lock);
    return s;
}

void snapshot_unref(struct snapshot *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; i < s->n_segments; i++) {
        segment_unref(s->segments[i].segment);
        symbols_unref(s->segments[i].symbols);
    }
    for (uint32_t i = 0; i < s->n_memtables; i++)
        memtable_unref(s->memtables[i]);
    for (uint32_t i = 0; i < s->n_tombstones; i++)
        tombstone_unref(s->tombstones[i]);
    mem_free(s->segments);
    mem_free(s->memtables);
    mem_free(s->tombstones);
    mem_free(s);
}

static int u64_cmp(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

    return x < y ? -1 : x > y;
}

/* The numbers are sorted (engine.h). */
static bool is_removed(const struct snapshot_change *c, uint64_t number)
{
    if (c->n_removed > 8)
        return bsearch(&number, c->removed, c->n_removed, sizeof number, u64_cmp) != NULL;
    for (uint32_t i = 0; i < c->n_removed; i++)
        if (c->removed[i] == number)
            return true;
    return false;
}

static void add_segment(struct snapshot *s, struct segment *segment, struct symbols *symbols)
{
    s->segments[s->n_segments].segment = segment_ref(segment);
    s->segments[s->n_segments++].symbols = symbols_ref(symbols);
}

/* --- room --- */

static int grow(void *array, uint32_t *cap, uint32_t need, size_t elem)
{
    void **at = array, *p;

    if (need <= *cap && *at)
        return 0;
    p = mem_realloc_array(*at, (size_t) need + 4, elem);
    if (!p)
        return -ENOMEM;
    *at = p;
    *cap = need + 4;
    return 0;
}

/* Called under lock. Makes room for the current contents and everything that is announced: n_added segments, n
 * memtables and tombstones. */
static int grow_room(struct engine *g, struct snapshot_room *room, uint32_t n_added, uint32_t n) _locked_(g->lock)
{
    const struct snapshot *now = g->snapshot;
    struct snapshot *s = room->next;
    int r = grow(&s->segments, &room->cap_segments, (now ? now->n_segments : 0) + n_added, sizeof *s->segments);

    if (r == 0)
        r = grow(&s->memtables, &room->cap_memtables, (now ? now->n_memtables : 0) + n, sizeof *s->memtables);
    if (r == 0)
        r = grow(&s->tombstones, &room->cap_tombstones, (now ? now->n_tombstones : 0) + n, sizeof *s->tombstones);
    return r;
}

/* Called under lock. Changes may be published in any order, so each room must be large enough for all of them. */
static int grow_all(struct engine *g, struct snapshot_room *room) _locked_(g->lock)
{
    uint32_t n_added = room->n_added, n = 1;
    int r;

    for (const struct snapshot_room *o = g->rooms; o; o = o->other) {
        n_added += o->n_added;
        n++;
    }
    r = grow_room(g, room, n_added, n);
    for (struct snapshot_room *o = g->rooms; r == 0 && o; o = o->other)
        r = grow_room(g, o, n_added, n);
    return r;
}

int snapshot_make_room(struct engine *g, uint32_t n_added, struct snapshot_room *room)
{
    int r;

    *room = (struct snapshot_room){.g = g, .next = mem_zalloc(sizeof *room->next), .n_added = n_added};
    if (!room->next)
        return -ENOMEM;
    room->next->refs = 1;
    pthread_mutex_lock(&g->lock);
    r = grow_all(g, room);
    if (r == 0) {
        room->other = g->rooms;
        g->rooms = room;
    }
    pthread_mutex_unlock(&g->lock);
    if (r < 0) {
        snapshot_unref(room->next);
        room->next = NULL;
    }
    return r;
}

/* Called under lock. */
static void leave(struct snapshot_room *room)
{
    struct snapshot_room **at = &room->g->rooms;

    while (*at != room)
        at = &(*at)->other;
    *at = room->other;
}

void snapshot_room_done(struct snapshot_room *room)
{
    if (!room->next)
        return;
    pthread_mutex_lock(&room->g->lock);
    leave(room);
    pthread_mutex_unlock(&room->g->lock);
    snapshot_unref(room->next);
    room->next = NULL;
}

static void fill(struct snapshot *s, const struct snapshot *old, const struct snapshot_change *c)
{
    for (uint32_t i = 0; old && i < old->n_segments; i++) {
        struct segment *x = old->segments[i].segment;

        if (is_removed(c, x->meta.number))
            atomic_store(&x->dead, true);
        else
            add_segment(s, x, old->segments[i].symbols);
    }
    for (uint32_t i = 0; i < c->n_added; i++)
        add_segment(s, c->added[i], c->added_symbols[i]);
    for (uint32_t i = 0; old && i < old->n_memtables; i++)
        if (old->memtables[i] != c->remove_memtable)
            s->memtables[s->n_memtables++] = memtable_ref(old->memtables[i]);
    if (c->add_memtable)
        s->memtables[s->n_memtables++] = memtable_ref(c->add_memtable);
    for (uint32_t i = 0; old && i < old->n_tombstones; i++)
        if (old->tombstones[i] != c->remove_tombstone)
            s->tombstones[s->n_tombstones++] = tombstone_ref(old->tombstones[i]);
    if (c->add_tombstone)
        s->tombstones[s->n_tombstones++] = tombstone_ref(c->add_tombstone);
}

void snapshot_publish_in(struct snapshot_room *room, const struct snapshot_change *c)
{
    struct engine *g = room->g;
    struct snapshot *old;

    pthread_mutex_lock(&g->lock);
    old = g->snapshot;
    fill(room->next, old, c);
    g->snapshot = room->next;
    leave(room);
    pthread_mutex_unlock(&g->lock);
    room->next = NULL;
    snapshot_unref(old);
}

int snapshot_publish(struct engine *g, const struct snapshot_change *c)
{
    struct snapshot_room room;
    int r = snapshot_make_room(g, c->n_added, &room);

    if (r == 0)
        snapshot_publish_in(&room, c);
    return r;
}
