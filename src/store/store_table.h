/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums by row: what a table of functions, files, lines or binaries is made of. The caller says which row a frame belongs
 * to; the engine adds up what the selection spent in each, without a tree of the whole selection.
 *
 * `row` is asked at least once for every frame that the selection has (at the query's granularity) and gives numbers from
 * 0 on, each used before the next. Strings of the frame are valid during the call.
 */
#ifndef STORE_STORE_TABLE_H
#define STORE_STORE_TABLE_H

#include "model/tree.h"

#define TABLE_NO_ROW UINT32_MAX          /* the frame is in no row; what is in it is in the table's sum alone */
#define TABLE_NO_MEMORY (UINT32_MAX - 1) /* ends the question */

struct table_row {
    int64_t self[2], total[2]; /* a row that is on a path twice counts once in total */
    uint32_t on_path;          /* the engine's, while it adds */
};

struct store_table {
    /* the caller's */
    uint32_t (*row)(void *ctx, const struct frame *f);
    void (*restart)(void *ctx); /* forget all rows: the question is asked again from the start */
    void *ctx;
    /* the engine's */
    struct table_row *rows;
    size_t cap_rows;
    uint32_t n_rows;
    int64_t sum[2];        /* of the whole selection: what shares are of */
    struct str type, unit; /* in the arena */
    struct arena arena;
};

/* The row of a frame, with room for it; TABLE_NO_ROW or TABLE_NO_MEMORY. */
uint32_t store_table_row(struct store_table *t, const struct frame *f);
void store_table_restart(struct store_table *t);
/* Where the caller is done with it; takes one that was never used. */
void store_table_done(struct store_table *t);
/* Adds up a tree whose totals are right. Its folded parts are in no row. */
int store_table_add_tree(struct store_table *t, const struct tree *tree);

#endif
