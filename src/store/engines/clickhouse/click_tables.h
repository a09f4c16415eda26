/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables, and blocks of rows for them in ClickHouse's Native format.
 *
 *   samples    one row per sample and timestamp: what trees and series are computed from
 *   links      the rows of samples that are linked to a span, once more, with the IDs of trace and span and in their order
 *   profiles   one row per profile and type
 *   series     labels of a series
 *   stacks     locations of a stack, leaf first
 *   locations  one row per location, and a newer version when its names are found later
 *   metas      resource, scope and header of profiles, encoded (blobs.h)
 *   attrs      sets of attributes of samples, encoded (blobs.h)
 *   schema     versions of the schema
 *
 * IDs are hashes of the content, so ingesters need no coordination. Rows of the last five kinds are inserted again every
 * week, so that retention can drop whole weeks of them. `time` is the start of the profile; `ts` is the time of the
 * sample after it, CLICK_NO_TS if it has none.
 */
#ifndef CLICKHOUSE_CLICK_TABLES_H
#define CLICKHOUSE_CLICK_TABLES_H

#include "base/buf.h"
#include "base/bytes.h"
#include "base/hash.h"

#define CLICK_NO_TS INT64_MIN
#define CLICK_DAY_NS (86400 * 1000000000ll)

enum click_table {
    CLICK_SERIES,
    CLICK_STACKS,
    CLICK_LOCATIONS,
    CLICK_METAS,
    CLICK_ATTRS,
    CLICK_SAMPLES,
    CLICK_LINKS,
    CLICK_PROFILES,
    CLICK_TABLES
};

enum { CLICK_COLUMNS_MAX = 20 };

struct click_column {
    const char *name, *type;
    const char *modern; /* type and codec on servers that have codecs; NULL = the same */
    const char *newest; /* on servers that have the codec GCD; NULL = modern */
};

struct click_table_def {
    const char *name;
    struct click_column columns[CLICK_COLUMNS_MAX]; /* ends with name NULL */
    const char *engine;                             /* MergeTree or ReplacingMergeTree, with its arguments */
    const char *arguments;
    const char *partition, *order, *shard;
};

extern const struct click_table_def click_tables[CLICK_TABLES];

/* Rows that are collected for one INSERT. A column of arrays has its offsets besides the elements. */
struct click_rows {
    const struct click_table_def *def;
    struct buf columns[CLICK_COLUMNS_MAX], offsets[CLICK_COLUMNS_MAX];
    uint64_t elements[CLICK_COLUMNS_MAX];
    uint32_t n;
    uint32_t at; /* the column of the row that is being put */
};

void click_rows_init(struct click_rows *r, enum click_table t);
void click_rows_done(struct click_rows *r);
void click_rows_reset(struct click_rows *r); /* keeps the memory */
/* Appends the block; 0 or a negative errno of the columns. */
int click_rows_encode(const struct click_rows *r, struct buf *out);

/* Each puts the next column of the current row. Values must be put in the order of the columns. */
static inline struct buf *click_next(struct click_rows *r)
{
    return &r->columns[r->at++];
}

static inline void click_put_u64(struct click_rows *r, uint64_t v)
{
    put_u64(click_next(r), v);
}

static inline void click_put_u32(struct click_rows *r, uint32_t v)
{
    put_u32(click_next(r), v);
}

static inline void click_put_u16(struct click_rows *r, uint16_t v)
{
    put_u16(click_next(r), v);
}

static inline void click_put_str(struct click_rows *r, struct str s)
{
    put_bytes(click_next(r), s.p, s.n);
}

static inline void click_put_raw(struct click_rows *r, const void *p, size_t n)
{
    buf_put(click_next(r), p, n);
}

static inline void click_put_id(struct click_rows *r, struct id128 id)
{
    struct buf *b = click_next(r);

    put_u64(b, id.hi);
    put_u64(b, id.lo);
}

/* Elements of an array go to the returned buffer; click_end_array() ends it. */
static inline struct buf *click_begin_array(struct click_rows *r)
{
    return &r->columns[r->at];
}

static inline void click_end_array(struct click_rows *r, uint32_t n)
{
    r->elements[r->at] += n;
    put_u64(&r->offsets[r->at], r->elements[r->at]);
    r->at++;
}

static inline void click_end_row(struct click_rows *r)
{
    r->at = 0;
    r->n++;
}

#endif
