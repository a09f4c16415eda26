/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns batches into rows for all tables: the blocks of one group of requests. Belongs to the writer's thread.
 *
 * What the dictionary tables got recently is remembered (struct click_known), so that each entry is inserted once a week
 * by each ingester; forgetting some of it only costs a repeated row.
 */
#ifndef CLICKHOUSE_CLICK_BLOCK_H
#define CLICKHOUSE_CLICK_BLOCK_H

#include "base/map.h"
#include "store/cumulative.h"
#include "store/dedup.h"
#include "store/engines/clickhouse/click_samples.h"
#include "store/engines/clickhouse/click_tables.h"
#include "store/intake.h"
#include "store/store.h"

/* A set of IDs. */
struct click_known {
    struct id128 *v;
    size_t cap;
    uint32_t n;
    struct map map;
};

struct click_block {
    struct click_rows rows[CLICK_TABLES]; /* of samples and links: none */
    struct click_samples sample_rows;
    struct click_known known;
    uint32_t week; /* of `known` */
    struct dedup dedup;
    struct dedup places; /* (series, meta, type, start, seq) that are taken */
    struct intake_memo memo;
    struct cumulative cumulative;
    const struct intake_limits *limits;
    enum store_timestamps timestamps;
    uint64_t profiles, samples, duplicates; /* of the rows */
    struct click_key {
        uint8_t kind; /* 0: dedup, 1: places */
        struct id128 key;
        int64_t time;
    } * keys; /* that were added with these rows; only with keep_keys */
    size_t cap_keys;
    uint32_t n_keys;
    bool keep_keys;
};

void click_block_init(struct click_block *b, const struct store_config *c, const struct intake_limits *limits);
void click_block_done(struct click_block *b);
void click_block_reset(struct click_block *b); /* after the rows were stored */
/* Forgets what the dictionary tables have: their rows were not stored. */
void click_block_forget(struct click_block *b);

/* The key of a place; see click_block.places. */
struct id128 click_place_key(const char *tenant, struct str type, uint64_t series, uint64_t meta, int64_t time,
                             uint32_t seq);
/* Adds the profiles of a batch that are accepted and not duplicates. On failure, the rows must not be used. */
int click_block_add(struct click_block *k, struct batch *b, const struct sink_context *ctx, int64_t now,
                    struct ack_result *result);

/* The encoding of a location's lines (functions), innermost first: name, system name, file, start line, line, column. */
void click_put_line(struct buf *out, const struct str strings[3], int64_t start_line, int64_t line, int64_t column);

#endif
