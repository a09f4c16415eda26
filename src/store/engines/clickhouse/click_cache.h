/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What queries have read from the dictionary tables: stacks, locations, metas, sets of attributes and labels of series,
 * by their IDs. Entries are only added, so that a query which holds a reference can rely on what it has seen; a cache that is too large is
 * replaced as a whole (click_take_cache()). Rows of these tables never change, except that locations get names later:
 * those without are asked for again after CLICK_NAMELESS_NS.
 *
 * The lock is the user's to take: click_cache_find() and click_cache_add() need it, click_cache_fetch() takes it itself.
 */
#ifndef CLICKHOUSE_CLICK_CACHE_H
#define CLICKHOUSE_CLICK_CACHE_H

#include <pthread.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/map.h"
#include "store/engines/clickhouse/click_http.h"
#include "store/engines/clickhouse/click_tables.h"

#define CLICK_NAMELESS_NS (30 * 1000000000ll)

struct click_entry {
    struct id128 key;
    /* stacks: 16 bytes per location; locations: head, lines (each with its length); series: n, n x (name, value); metas
     * and attrs: their body */
    struct str bytes;
    uint64_t version;
    int64_t asked_ns; /* locations without names: when */
};

struct click_cache {
    _Atomic uint32_t refs;
    pthread_mutex_t lock;
    struct {
        struct click_entry *v;
        size_t cap;
        uint32_t n;
        struct map map;
    } kinds[CLICK_SAMPLES]; /* by enum click_table: the dictionaries come first */
    struct arena arena;
};

int click_cache_new(struct click_cache **ret);
void click_cache_unref(struct click_cache *c);
DEFINE_CLEANUP(struct click_cache *, click_cache_unref)
size_t click_cache_bytes(struct click_cache *c);

/* The key of an ID of a tenant. */
struct id128 click_cache_key(const char *tenant, struct id128 id);
static inline struct id128 click_id64(uint64_t id)
{
    return (struct id128){0, id};
}
/* The index of an entry, or MAP_NONE. */
uint32_t click_cache_find(const struct click_cache *c, enum click_table kind, struct id128 key);
/* Adds an entry, or replaces one of an older version. */
int click_cache_add(struct click_cache *c, enum click_table kind, const struct click_entry *e);
struct click_ids {
    const char *tenant;
    enum click_table kind;
    const struct id128 *v;
    uint32_t n;
};
/* Reads those of the IDs that are not cached. What the server does not have is not added. */
int click_cache_fetch(struct click_cache *c, struct click_http *h, const struct click_ids *ids, struct err *e);

/* Decodes rows of an answer of the server to a query for this kind. -EPROTO if it is damaged. Exposed for the fuzzer. */
int click_cache_parse(struct click_cache *c, const char *tenant, enum click_table kind, struct str answer);

#endif
