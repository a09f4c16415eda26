/* SPDX-License-Identifier: Apache-2.0 */
/* The rows that are in the log but not in a segment yet; see memtable.h. */
#include "store/engines/segment/write/memtable.h"

#include <errno.h>

#include "store/dedup.h"

int memtable_new(uint64_t log, struct memtable **ret)
{
    struct memtable *m = mem_zalloc(sizeof *m);

    if (!m)
        return -ENOMEM;
    m->log = log;
    m->refs = 1;
    *ret = m;
    return 0;
}

struct memtable *memtable_ref(struct memtable *m)
{
    atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    return m;
}

static void part_free(struct mempart *p)
{
    symbols_unref(p->symbols);
    pinned_done(&p->profs);
    blobs_done(&p->blobs);
    idmap_done(&p->headers);
    idmap_done(&p->sets);
    idmap_done(&p->attrs);
    buf_done(&p->defs);
    arena_done(&p->arena);
    mem_free(p);
}

void memtable_unref(struct memtable *m)
{
    struct mempart *p, *next;

    if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (p = m->parts; p; p = next) {
        next = p->next;
        part_free(p);
    }
    mem_free(m->keys);
    mem_free(m);
}

int memtable_part(struct memtable *m, struct symbols *s, struct mempart **ret)
{
    struct mempart *p;
    int r;

    for (p = m->parts; p; p = p->next)
        if (p->symbols == s) {
            *ret = p;
            return 0;
        }
    p = mem_zalloc(sizeof *p);
    if (!p)
        return -ENOMEM;
    p->symbols = symbols_ref(s);
    pinned_init(&p->profs, sizeof(struct stored_profile));
    arena_init(&p->arena, 0);
    r = blobs_init(&p->blobs);
    if (r < 0) {
        part_free(p);
        return r;
    }
    p->next = m->parts;
    atomic_store_explicit(&m->parts, p, memory_order_release);
    *ret = p;
    return 0;
}

struct stored_profile *mempart_add(struct mempart *p, uint32_t n_rows, uint32_t n_extras)
{
    struct stored_profile *out = pinned_place(&p->profs, p->n_added);

    if (!out)
        return NULL;
    *out = (struct stored_profile){.n_rows = n_rows, .n_extras = n_extras};
    out->rows = arena_alloc(&p->arena, n_rows * sizeof *out->rows);
    out->extras = n_extras ? arena_alloc(&p->arena, n_extras * sizeof *out->extras) : NULL;
    if ((n_rows && !out->rows) || (n_extras && !out->extras))
        return NULL;
    p->n_added++;
    return out;
}

void mempart_publish(struct mempart *p)
{
    atomic_store_explicit(&p->profs.n, p->n_added, memory_order_release);
}

int memtable_add_key(struct memtable *m, struct id128 key, int64_t time_ns)
{
    return array_push(m->keys, m->n_keys, m->cap_keys, 1 << 24, (struct dedup_entry){key, time_ns});
}
