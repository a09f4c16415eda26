/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums by row: the basis of a table of functions, files, lines or binaries. The caller decides which row a frame
 * belongs to; the engine adds up what the selection spent in each, without a tree of the whole selection.
 *
 * `row` is called at least once for every frame of the selection (at the query's granularity) and returns consecutive
 * numbers from 0 on. Strings of the frame are valid during the call.
 */
#ifndef STORE_STORE_TABLE_H
#define STORE_STORE_TABLE_H

#include "model/tree.h"

#define TABLE_NO_ROW UINT32_MAX          /* the frame is in no row; its values count only in the table's sum */
#define TABLE_NO_MEMORY (UINT32_MAX - 1) /* aborts the query */

struct table_row {
    int64_t self[2], total[2]; /* a row that is on a path twice counts once in total */
    uint32_t on_path;          /* used by the engine while adding */
};

struct store_table {
    /* set by the caller */
    uint32_t (*row)(void *ctx, const struct frame *f);
    void (*restart)(void *ctx); /* drops all rows: the query is run again from the start */
    void *ctx;
    /* set by the engine */
    struct table_row *rows;
    size_t cap_rows;
    uint32_t n_rows;
    int64_t sum[2];        /* of the whole selection: the base of shares */
    struct str type, unit; /* in the arena */
    struct arena arena;
};

/* Returns the row of a frame and makes room for it; or TABLE_NO_ROW or TABLE_NO_MEMORY. */
uint32_t store_table_row(struct store_table *t, const struct frame *f);
void store_table_restart(struct store_table *t);
/* Called when the caller no longer needs it; accepts a table that was never used. */
void store_table_done(struct store_table *t);
/* Adds up a tree whose totals are correct. Its folded parts are in no row. */
int store_table_add_tree(struct store_table *t, const struct tree *tree);

#endif
