/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the tables `samples` and `links` on their way to ClickHouse. They are collected as structs and encoded in the order of the table,
 * because a server that gets a block in its order does not sort it: that costs it more than anything else of an insert.
 */
#ifndef CLICKHOUSE_CLICK_SAMPLES_H
#define CLICKHOUSE_CLICK_SAMPLES_H

#include "base/arena.h"
#include "base/map.h"
#include "model/batch.h"
#include "store/engines/clickhouse/click_tables.h"

struct click_sample {
    struct id128 stack;
    struct link link;
    int64_t time, ts, value;
    uint64_t series, meta, attrs;
    uint32_t group;
    uint16_t seq;
    bool linked;
};

/* What the rows of a profile have in common, as far as the order of the table begins with it. */
struct click_group {
    struct str tenant, service, type;
    int64_t hour;
};

struct click_samples {
    struct click_sample *v;
    size_t cap;
    uint32_t n, n_linked;
    struct click_group *groups;
    size_t cap_groups;
    uint32_t n_groups;
    struct map map;     /* of groups */
    struct arena arena; /* of their strings */
};

void click_samples_init(struct click_samples *s);
void click_samples_done(struct click_samples *s);
void click_samples_reset(struct click_samples *s); /* keeps the memory of the rows */

/* The group of rows of a profile with this start; -ENOMEM. Strings are copied. */
int click_samples_group(struct click_samples *s, const struct click_group *names, int64_t time, uint32_t *ret);
int click_samples_add(struct click_samples *s, const struct click_sample *row);
/* Appends the block of CLICK_SAMPLES (all rows) or CLICK_LINKS (the linked ones) in the Native format, if it has rows: then 1. */
int click_samples_encode(const struct click_samples *s, enum click_table t, struct buf *out);

#endif
