/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments in an object store (store.cold). A segment older than a day is copied to an object, the object is read back and
 * its checksum compared, N.cold (cold_stub.h) is written and synced, and only then the file N.seg is removed. From then on
 * chunks are read from the object through a cache of blocks. A complete file N.seg, where there is one, is always used
 * instead.
 *
 *   DIR/COLD         the location of the objects, and an id that separates the objects of stores with the same location
 *   DIR/T/seg/N.cold see cold_stub.h
 *   DIR/T/seg/N.gone an N.cold whose segment was removed, and whose object has yet to be deleted
 *
 * Objects are named PREFIX/ID/TENANT/N.seg. An object that cannot be reached is an error of the query, not damage; an object
 * that does not exist or is too short is damage.
 */
#ifndef SEGMENT_COLD_H
#define SEGMENT_COLD_H

#include <pthread.h>

#include "objects/objects.h"
#include "store/engines/segment/cold/cold_stub.h"

struct cold;
struct cold_cache;
struct engine;
struct segment;

/* A range of a segment that will be read. */
struct segment_range {
    uint64_t off;
    uint32_t len;
};

struct cold {
    struct object_store *objects; /* NULL: problem says why */
    struct cold_cache *cache;
    char id[33];
    char problem[300];
};

/* place: of objects. cache: bytes. When the object store cannot be used, *ret is valid, reads fail, and problem is set. */
int cold_new(const char *place, const char *id, size_t cache, struct cold **ret);
void cold_free(struct cold *c);
/* Reads a part of an object, from the cache where possible. number: of the segment. c may be NULL: then it fails. */
struct cold_source {
    struct cold *cold;
    const struct cold_stub *stub;
    uint64_t number;
};
int cold_read(const struct cold_source *s, void *p, uint32_t n, uint64_t off, struct err *e);
/* Reads what is not in the cache of these ranges, close ones together and all in parallel, as far as half of the cache can
 * take it; the rest is read when it is needed. */
int cold_fetch(const struct cold_source *s, const struct segment_range *v, uint32_t n, struct err *e);
/* Reads the whole object and compares its checksum. fn (may be NULL) gets the bytes in order. */
int cold_read_all(const struct cold_source *s, int (*fn)(void *ctx, const char *p, size_t n), void *ctx, struct err *e);

/* --- the cache (cold_cache.c): blocks of COLD_BLOCK bytes, the least recently used ones are dropped --- */
enum { COLD_BLOCK = 65536 };
int cold_cache_new(size_t bytes, struct cold_cache **ret);
void cold_cache_free(struct cold_cache *c);
uint32_t cold_cache_max(const struct cold_cache *c); /* blocks */
bool cold_cache_has(struct cold_cache *c, uint64_t number, uint64_t block);
/* Copies from a block; false if it is not there. */
struct cold_cache_part {
    uint64_t number, block;
    uint32_t from, n;
};
bool cold_cache_copy(struct cold_cache *c, const struct cold_cache_part *part, void *to);
/* Adds a block; a block that is there already stays. Without memory nothing is added. */
void cold_cache_add(struct cold_cache *c, uint64_t number, uint64_t block, const void *p, size_t n);

/* --- the engine's side (cold_move.c) --- */
/* Opens what DIR/COLD and the configuration name; g->cold stays NULL when there is neither. */
int engine_open_cold(struct engine *g, struct err *e);
void engine_close_cold(struct engine *g);
/* Moves what is due, and deletes objects of removed segments. No lock is held. */
int engine_cool(struct engine *g, struct err *e);
void *engine_cold_run(void *engine);
/* Records why segments could not be moved, and reports it once; NULL: they could. */
void engine_cold_problem(struct engine *g, const char *problem);
/* Brings the complete file of a segment back. Under flush_lock. */
int engine_thaw(struct engine *g, struct segment *s, struct err *e);
/* Writes the complete file of a segment in the object store to `name` in dir, synced. */
int engine_fetch_file(struct engine *g, struct segment *s, int dir, const char *name, struct err *e);

#endif
