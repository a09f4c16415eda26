/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engine `clickhouse`: keeps profiles in the tables of click_tables.h, which any number of servers share.
 *
 * Writing: store_append() queues; one thread turns what is queued into blocks (click_block.h), others insert them table by
 * table (dictionaries before samples before profiles), and then complete the acks. With a spool (store_config.spool) the
 * acks are completed when the blocks are in a log on disk, from where the same blocks are sent, also after a restart. If an insert fails or its outcome is
 * unknown, the senders get a retryable error at once, and the same blocks are sent again until they are stored: a
 * replicated table stores an identical block once. Meanwhile new requests are refused as unavailable. So a profile that a sender
 * repeats to this server is stored exactly once; repeated to another server after a failure, at least once.
 *
 * Reading: every query is a GROUP BY on the server over the columns that it needs (click_load.h); the rows, with stacks
 * and names from a bounded cache (click_cache.h), become a temporary store of engine `memory`, which computes the
 * answer. So both engines agree by construction.
 */
#ifndef CLICKHOUSE_CLICK_H
#define CLICKHOUSE_CLICK_H

#include <pthread.h>

#include "base/clock.h"
#include "store/engines/clickhouse/click_cache.h"
#include "store/engines/clickhouse/click_http.h"
#include "store/engines/clickhouse/click_writer.h"
#include "store/intake.h"
#include "store/store.h"

struct click {
    struct store store;
    struct store_config config;
    struct intake_limits limits;
    struct click_http http;
    struct click_writer *writer; /* NULL: read-only */
    pthread_mutex_t lock;        /* of what follows */
    struct click_cache *cache;
    size_t cache_max;
};

static inline struct click *to_click(struct store *s)
{
    return container_of(s, struct click, store);
}

static inline int64_t click_now(const struct click *c)
{
    return c->config.now ? c->config.now() : clock_wall();
}

/* A reference to the cache, which is replaced by an empty one first if it is full. NULL when memory runs out. */
struct click_cache *click_take_cache(struct click *c);

/* click_query.c */
int click_select(struct store *s, const struct store_query *q, struct tree **ret, struct err *e);
int click_table_of(struct store *s, const struct store_query *q, const struct store_table_query *tq,
                   struct store_table *ret, struct err *e);
int click_spans(struct store *s, const struct store_query *q, struct store_spans *ret, struct err *e);
int click_series(struct store *s, const struct store_query *q, const struct store_series_query *sq,
                 struct store_points *ret, struct err *e);
int click_each_series(struct store *s, const struct store_range *r, store_series_fn fn, void *ctx);
int click_attributes(struct store *s, const struct store_query *q, struct str name, store_attribute_fn fn, void *ctx,
                     struct err *e);
int click_profiles(struct store *s, const struct store_query *q, store_profile_fn fn, void *ctx, struct err *e);
int click_export(struct store *s, const struct store_query *q, store_batch_fn fn, void *ctx, struct err *e);

/* click_change.c */
int click_delete(struct store *s, const char *tenant, const struct store_column *what, struct err *e);
int click_retain(struct store *s, bool compact_all, struct err *e);
/* wait: until deletions have finished. */
int click_retain_now(struct click *c, bool wait, struct err *e);
int click_name_later(struct store *s, const char *tenant, struct str build_id, const uint64_t *addresses,
                     const struct symbol_answer *names, struct err *e);

#endif
