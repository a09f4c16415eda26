/* SPDX-License-Identifier: Apache-2.0 */
/* See engine.h: what a reader sees, replaced as a whole. */
#include <errno.h>

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

static bool is_removed(const struct snapshot_change *c, uint64_t number)
{
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

int snapshot_publish(struct engine *g, const struct snapshot_change *c)
{
    struct snapshot *old, *s = mem_zalloc(sizeof *s);

    if (!s)
        return -ENOMEM;
    s->refs = 1;
    pthread_mutex_lock(&g->lock);
    old = g->snapshot;
    s->segments = mem_alloc(((old ? old->n_segments : 0) + c->n_added + 1) * sizeof *s->segments);
    s->memtables = mem_alloc(((old ? old->n_memtables : 0) + 2) * sizeof *s->memtables);
    s->tombstones = mem_alloc(((old ? old->n_tombstones : 0) + 1) * sizeof *s->tombstones);
    if (!s->segments || !s->memtables || !s->tombstones) {
        pthread_mutex_unlock(&g->lock);
        snapshot_unref(s);
        return -ENOMEM;
    }
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
    g->snapshot = s;
    pthread_mutex_unlock(&g->lock);
    snapshot_unref(old);
    return 0;
}
