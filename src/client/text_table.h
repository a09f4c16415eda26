/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of text for a terminal: a line of headings, and rows whose columns are as wide as their widest cell.
 *
 *     text_table_init(&t, 2, (const struct text_column[]){{"SELF", true}, {"FUNCTION", false}});
 *     text_table_put(&t, "%.1f", self);
 *     text_table_put(&t, "%.*s", STR_FMT(name));
 *     r = text_table_print(&t, width, out);
 *     text_table_done(&t);
 */
#ifndef CLIENT_TEXT_TABLE_H
#define CLIENT_TEXT_TABLE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/macros.h"
#include "base/str.h"

enum { TEXT_COLUMNS_MAX = 16 };

struct text_column {
    const char *heading;
    bool right; /* aligned to the right, as numbers are */
};

struct text_table {
    struct arena arena;
    struct text_column columns[TEXT_COLUMNS_MAX];
    size_t n_columns;
    struct str *cells; /* row by row */
    size_t n, cap;
    int err; /* the first failure; text_table_print() returns it */
};

void text_table_init(struct text_table *t, size_t n, const struct text_column *columns);
/* The next cell, from left to right and from top to bottom. */
void text_table_put(struct text_table *t, const char *fmt, ...) _printf_(2, 3);
size_t text_table_rows(const struct text_table *t);
/* Appends the table to out. Lines longer than width are cut off; 0: none is. */
int text_table_print(const struct text_table *t, int width, struct buf *out);
void text_table_done(struct text_table *t);

/* The number of characters of UTF-8 text, and text cut to at most `width` of them, the last one then being an ellipsis. */
int text_width(struct str s);
void text_put_cut(struct buf *out, struct str s, int width);

#endif
