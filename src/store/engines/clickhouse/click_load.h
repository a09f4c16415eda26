/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads a selection from ClickHouse into a temporary store of engine `memory`.
 *
 * The server groups by the columns that the question needs, and only those: a flame graph is one row per stack, however
 * many samples there are. A column that is not wanted is the same for all rows: without `time`, the rows of all profiles are
 * one profile; without `meta`, it has no resource; without `series`, it has no labels.
 */
#ifndef CLICKHOUSE_CLICK_LOAD_H
#define CLICKHOUSE_CLICK_LOAD_H

#include "store/engines/clickhouse/click.h"
#include "store/engines/memory/memory.h"
#include "store/match.h"

struct click_want {
    bool stack, series, meta, attrs, link, ts;
    bool time;     /* every profile by itself; includes series and meta */
    int64_t step;  /* profiles by steps of time; 0 = not */
    bool profiles; /* profiles without samples, too */
    bool samples;  /* false: only profiles */
};

/* One column of a query. */
struct click_column_of {
    struct match match;
    uint64_t *series; /* those that match */
    uint32_t n_series;
    bool all;            /* every series of the time range matches */
    struct buf services; /* SQL: IN (...) of their names; empty when there are too many */
    uint64_t profiles;   /* of these series, in this time */
    struct type type;    /* with its unit */
};

struct click_load {
    struct click *c;
    const struct store_query *q;
    struct click_cache *cache;
    struct memory_store *memory;
    struct builder *builder;
    struct arena arena;
    struct click_column_of columns[2];
    /* the query for `memory`: only what the server has not selected already */
    struct store_query rest;
    struct selector selectors[2];
    struct matcher details[2][MATCH_DETAIL_MAX];
    uint64_t samples; /* that the rows stand for */
    uint64_t *counts; /* per item of memory: samples, where profiles are wanted */
    size_t cap_counts;
    uint32_t lost;                /* stacks, names or attributes that the dictionary tables do not have */
    uint32_t *stacks, *locations; /* per entry of the cache: index in the builder + 1 */
    uint32_t n_stacks, n_locations;
};

/* Finds the series of all columns. need_type as in match_init(). *l must be freed in either case. */
int click_load_begin(struct click_load *l, struct click *c, const struct store_query *q, bool need_type, struct err *e);
/* Loads column i. With `shift`, the profiles get the time i and the column of `rest` is [i, i + 1), so that ranges of
 * columns may overlap. */
int click_load_column(struct click_load *l, uint32_t i, const struct click_want *want, bool shift, struct err *e);
/* Makes what was loaded readable in l->memory. */
int click_load_finish(struct click_load *l, struct err *e);
void click_load_done(struct click_load *l);
/* What the reader of the answer should know. */
void click_load_note(const struct click_load *l);

/* Appends the WHERE clause of column i: tenant, type, time and series. */
void click_put_where(struct buf *sql, const struct click_load *l, uint32_t i);
/* The canonical type of this name; its strings are those of the arguments unless it is known. */
void click_make_type(struct str name, struct str unit, struct type *ret);
/* The labels of a series, copied to the arena, from the cache, which must be locked. 1 if they are not there. */
int click_labels_of(struct click_cache *cache, const char *tenant, uint64_t series, struct arena *a,
                    struct labels *ret);

/* --- in click_rows_read.c: rows of an answer, in the order of the columns of the SQL --- */
struct click_row {
    struct str type, unit;
    uint64_t series, meta, attrs;
    int64_t time;
    uint16_t seq;
    struct id128 stack;
    struct link link;
    int64_t ts, value;
    uint64_t count;
    /* of profiles */
    int64_t duration;
    uint32_t joined;
    uint8_t id[16];
    bool is_profile;
};

/* Appends the columns of samples or of profiles that are wanted, each followed by a comma, and reads a row of them. Samples are
 * followed by sum(value) and count(). typed: the selection has one type. c is NULL for the names in GROUP BY. */
void click_put_sample_columns(struct buf *sql, const struct click_want *w, bool typed, const struct store_column *c);
void click_put_profile_columns(struct buf *sql, const struct click_want *w, bool typed, const struct store_column *c);
void click_read_sample(struct cursor *r, const struct click_want *w, bool typed, struct click_row *ret);
void click_read_profile(struct cursor *r, const struct click_want *w, bool typed, struct click_row *ret);
/* Orders rows by profile; a profile's own row comes before its samples. */
int click_row_cmp(const void *a, const void *b);
bool click_row_same_profile(const struct click_row *a, const struct click_row *b);

/* --- in click_emit.c --- */
/* Adds rows, sorted, to the builder and the memory store. */
int click_emit_rows(struct click_load *l, const struct click_row *rows, size_t n, const struct click_want *want,
                    uint32_t column, int64_t shift);

#endif
