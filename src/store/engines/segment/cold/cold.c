/* SPDX-License-Identifier: Apache-2.0 */
/* Reads objects through the cache; see cold.h. */
#include "store/engines/segment/cold/cold.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

enum {
    GAP_BLOCKS = 4,  /* blocks between two that are needed are read with them */
    RUN_BLOCKS = 64, /* of one request */
    PIECE = 4 << 20, /* of a whole object */
    PIECES = 4,      /* in parallel */
};

int cold_new(const char *place, const char *id, size_t cache, struct cold **ret)
{
    struct cold *c = mem_zalloc(sizeof *c);
    struct err e = {0};
    int r = c ? cold_cache_new(cache, &c->cache) : -ENOMEM;

    if (r < 0) {
        mem_free(c);
        return r;
    }
    snprintf(c->id, sizeof c->id, "%s", id);
    if (objects_open(place, &c->objects, &e) < 0)
        snprintf(c->problem, sizeof c->problem, "%.290s", e.message);
    *ret = c;
    return 0;
}

void cold_free(struct cold *c)
{
    if (!c)
        return;
    objects_close(c->objects);
    cold_cache_free(c->cache);
    mem_free(c);
}

/* An object that is missing or too short is damage; see cold.h. */
static int fail(const struct cold_source *s, int r, struct err *e)
{
    if (r != -ENOMEM && r != -EBADMSG && r != -ECANCELED && r != -ENOSPC && r != -EDQUOT)
        r = r == -ENOENT ? -EBADMSG : -EREMOTEIO;
    if (e)
        e->code = r;
    return err_prefix(e, r, "segment %llu: ", (unsigned long long) s->number);
}

static int check_source(const struct cold_source *s, struct err *e)
{
    if (s->cold && s->cold->objects)
        return 0;
    return err_set(e, -EREMOTEIO, "segment %llu is in the object store: %s", (unsigned long long) s->number,
                   s->cold ? s->cold->problem : "its location is unknown: the file COLD is missing");
}

static int u64_cmp(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

    return x < y ? -1 : x > y;
}

/* Lists the blocks of the ranges that are not in the cache, sorted, each once. */
static int list_missing(const struct cold_source *s, const struct segment_range *v, uint32_t n, uint64_t **ret,
                        uint32_t *ret_n)
{
    size_t cap = 0;
    uint32_t k = 0, kept = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (!v[i].len || v[i].off >= s->stub->size || v[i].len > s->stub->size - v[i].off)
            continue; /* reading it reports the error */
        for (uint64_t b = v[i].off / COLD_BLOCK; b <= (v[i].off + v[i].len - 1) / COLD_BLOCK; b++)
            if (array_push(*ret, k, cap, 1 << 24, b) < 0)
                return -ENOMEM;
    }
    if (k)
        qsort(*ret, k, sizeof **ret, u64_cmp);
    for (uint32_t i = 0; i < k; i++)
        if ((!i || (*ret)[i] != (*ret)[i - 1]) && !cold_cache_has(s->cold->cache, s->number, (*ret)[i]))
            (*ret)[kept++] = (*ret)[i];
    *ret_n = MIN(kept, cold_cache_max(s->cold->cache) / 2);
    return 0;
}

/* Reads runs of blocks and adds them to the cache. */
static int read_runs(const struct cold_source *s, struct object_part *runs, uint32_t n, struct err *e)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < n; i++) {
        runs[i].into = mem_alloc(runs[i].len);
        r = runs[i].into ? 0 : err_set(e, -ENOMEM, "out of memory");
    }
    if (r == 0)
        r = objects_read(s->cold->objects, s->stub->path, runs, n, e);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t at = 0; r == 0 && at < runs[i].len; at += COLD_BLOCK)
            cold_cache_add(s->cold->cache, s->number, (runs[i].off + at) / COLD_BLOCK, runs[i].into + at,
                           MIN((size_t) COLD_BLOCK, runs[i].len - at));
        mem_free(runs[i].into);
    }
    return r < 0 ? fail(s, r, e) : 0;
}

int cold_fetch(const struct cold_source *s, const struct segment_range *v, uint32_t n, struct err *e)
{
    _cleanup_(mem_freep) uint64_t *blocks = NULL;
    _cleanup_(mem_freep) struct object_part *runs = NULL;
    uint32_t n_blocks = 0, n_runs = 0;
    int r = check_source(s, e);

    if (r == 0)
        r = list_missing(s, v, n, &blocks, &n_blocks);
    if (r < 0 || !n_blocks)
        return r;
    runs = mem_zalloc_array(n_blocks, sizeof *runs);
    if (!runs)
        return err_set(e, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < n_blocks; i++) {
        uint64_t off = blocks[i] * COLD_BLOCK, end = MIN(off + COLD_BLOCK, s->stub->size);
        struct object_part *last = n_runs ? &runs[n_runs - 1] : NULL;

        if (last && off <= last->off + last->len + GAP_BLOCKS * COLD_BLOCK &&
            end - last->off <= RUN_BLOCKS * COLD_BLOCK)
            last->len = (uint32_t) (end - last->off);
        else
            runs[n_runs++] = (struct object_part){.off = off, .len = (uint32_t) (end - off)};
    }
    return read_runs(s, runs, n_runs, e);
}

static bool copy_cached(const struct cold_source *s, char *p, uint32_t n, uint64_t off)
{
    while (n) {
        struct cold_cache_part part = {.number = s->number, .block = off / COLD_BLOCK, .from = off % COLD_BLOCK};

        part.n = MIN(n, COLD_BLOCK - part.from);
        if (!cold_cache_copy(s->cold->cache, &part, p))
            return false;
        p += part.n;
        off += part.n;
        n -= part.n;
    }
    return true;
}

int cold_read(const struct cold_source *s, void *p, uint32_t n, uint64_t off, struct err *e)
{
    struct segment_range range = {off, n};
    int r = check_source(s, e);

    if (r < 0 || copy_cached(s, p, n, off))
        return r;
    r = cold_fetch(s, &range, 1, e);
    if (r < 0 || copy_cached(s, p, n, off))
        return r;
    /* larger than the cache, or dropped again by other readers */
    r = objects_read(s->cold->objects, s->stub->path, &(struct object_part){off, n, p}, 1, e);
    return r < 0 ? fail(s, r, e) : 0;
}

int cold_read_all(const struct cold_source *s, int (*fn)(void *ctx, const char *p, size_t n), void *ctx, struct err *e)
{
    _cleanup_(mem_freep) char *p = mem_alloc((size_t) PIECE * PIECES);
    uint32_t crc = 0;
    uint64_t size = 0;
    int r = check_source(s, e);

    if (r == 0 && !p)
        r = err_set(e, -ENOMEM, "out of memory");
    if (r == 0)
        r = objects_size(s->cold->objects, s->stub->path, &size, e);
    if (r == 0 && size != s->stub->size)
        r = err_set(e, -EBADMSG, "object %s has %llu bytes instead of %llu", s->stub->path, (unsigned long long) size,
                    (unsigned long long) s->stub->size);
    for (uint64_t off = 0; r == 0 && off < size; off += (uint64_t) PIECE * PIECES) {
        struct object_part parts[PIECES];
        uint32_t n = 0;

        for (uint64_t at = off; n < PIECES && at < size; at += PIECE, n++)
            parts[n] = (struct object_part){at, (uint32_t) MIN((uint64_t) PIECE, size - at), p + (size_t) n * PIECE};
        r = objects_read(s->cold->objects, s->stub->path, parts, n, e);
        for (uint32_t i = 0; r == 0 && i < n; i++) {
            crc = crc32c(crc, parts[i].into, parts[i].len);
            r = fn ? fn(ctx, parts[i].into, parts[i].len) : 0;
        }
    }
    if (r == 0 && crc != s->stub->crc)
        r = err_set(e, -EBADMSG, "object %s: its checksum is wrong", s->stub->path);
    return r < 0 ? fail(s, r, e) : 0;
}
