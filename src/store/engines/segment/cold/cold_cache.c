/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of blocks of objects; see cold.h. It never holds more than its maximum, and its memory is allocated as it
 * fills. */
#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "store/engines/segment/cold/cold.h"

enum { BLOCKS_MIN = 16, NONE = -1 };

struct cold_entry {
    uint64_t number, block;
    uint32_t n;
    int32_t next;         /* of the same bucket */
    int32_t newer, older; /* by use */
    char *data;
};

struct cold_cache {
    pthread_mutex_t lock;
    struct cold_entry *v;
    int32_t *buckets;
    uint32_t n, max, mask;
    int32_t newest, oldest;
};

int cold_cache_new(size_t bytes, struct cold_cache **ret)
{
    struct cold_cache *c = mem_zalloc(sizeof *c);

    if (!c)
        return -ENOMEM;
    c->max = (uint32_t) MIN(MAX(bytes / COLD_BLOCK, (size_t) BLOCKS_MIN), (size_t) 1 << 20);
    for (c->mask = 1; c->mask < c->max; c->mask *= 2)
        ;
    c->mask = c->mask * 2 - 1;
    pthread_mutex_init(&c->lock, NULL);
    c->v = mem_zalloc_array(c->max, sizeof *c->v);
    c->buckets = mem_alloc((c->mask + (size_t) 1) * sizeof *c->buckets);
    c->newest = c->oldest = NONE;
    if (!c->v || !c->buckets) {
        cold_cache_free(c);
        return -ENOMEM;
    }
    memset(c->buckets, 0xff, (c->mask + (size_t) 1) * sizeof *c->buckets);
    *ret = c;
    return 0;
}

void cold_cache_free(struct cold_cache *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; c->v && i < c->n; i++)
        mem_free(c->v[i].data);
    mem_free(c->v);
    mem_free(c->buckets);
    pthread_mutex_destroy(&c->lock);
    mem_free(c);
}

uint32_t cold_cache_max(const struct cold_cache *c)
{
    return c->max;
}

static int32_t *bucket_of(struct cold_cache *c, uint64_t number, uint64_t block)
{
    return &c->buckets[hash64_u64(number << 24 ^ block) & c->mask];
}

static int32_t find(struct cold_cache *c, uint64_t number, uint64_t block)
{
    int32_t i = *bucket_of(c, number, block);

    while (i != NONE && (c->v[i].number != number || c->v[i].block != block))
        i = c->v[i].next;
    return i;
}

static void take_out(struct cold_cache *c, int32_t i)
{
    struct cold_entry *x = &c->v[i];

    *(x->newer == NONE ? &c->newest : &c->v[x->newer].older) = x->older;
    *(x->older == NONE ? &c->oldest : &c->v[x->older].newer) = x->newer;
}

static void put_first(struct cold_cache *c, int32_t i)
{
    c->v[i].newer = NONE;
    c->v[i].older = c->newest;
    *(c->newest == NONE ? &c->oldest : &c->v[c->newest].newer) = i;
    c->newest = i;
}

bool cold_cache_has(struct cold_cache *c, uint64_t number, uint64_t block)
{
    int32_t i;

    pthread_mutex_lock(&c->lock);
    i = find(c, number, block);
    if (i != NONE) {
        take_out(c, i);
        put_first(c, i);
    }
    pthread_mutex_unlock(&c->lock);
    return i != NONE;
}

bool cold_cache_copy(struct cold_cache *c, const struct cold_cache_part *part, void *to)
{
    int32_t i;
    bool found;

    pthread_mutex_lock(&c->lock);
    i = find(c, part->number, part->block);
    found = i != NONE && part->from <= c->v[i].n && part->n <= c->v[i].n - part->from;
    if (found) {
        memcpy(to, c->v[i].data + part->from, part->n);
        take_out(c, i);
        put_first(c, i);
    }
    pthread_mutex_unlock(&c->lock);
    return found;
}

/* Under lock: the entry to be filled, which is in no list; NONE without memory. */
static int32_t take_entry(struct cold_cache *c)
{
    int32_t i = c->oldest, *at;

    if (c->n < c->max) {
        c->v[c->n].data = mem_alloc(COLD_BLOCK);
        if (c->v[c->n].data)
            return (int32_t) c->n++;
    }
    if (i == NONE)
        return NONE;
    take_out(c, i);
    for (at = bucket_of(c, c->v[i].number, c->v[i].block); *at != i;)
        at = &c->v[*at].next;
    *at = c->v[i].next;
    return i;
}

void cold_cache_add(struct cold_cache *c, uint64_t number, uint64_t block, const void *p, size_t n)
{
    int32_t i, *bucket;

    if (n > COLD_BLOCK)
        return;
    pthread_mutex_lock(&c->lock);
    i = find(c, number, block) == NONE ? take_entry(c) : NONE;
    if (i != NONE) {
        bucket = bucket_of(c, number, block);
        c->v[i].number = number;
        c->v[i].block = block;
        c->v[i].n = (uint32_t) n;
        c->v[i].next = *bucket;
        memcpy(c->v[i].data, p, n);
        *bucket = i;
        put_first(c, i);
    }
    pthread_mutex_unlock(&c->lock);
}
