/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums by row: a table of functions, files, lines, binaries or packages. The query says what a row stands for; the
 * engine adds up what the selection spent in each row. The first half of this file is the question and its answer; the
 * second half helps engines that have frames at hand, so that all of them agree on the row of a frame.
 */
#ifndef STORE_STORE_TABLE_H
#define STORE_STORE_TABLE_H

#include "model/tree.h"

/* What a row stands for, and which fields of its key (struct table_key) are set. A frame without a name is called binary+0xaddress in
 * tables by function or line, and [unknown] where nothing at all is known about it. */
enum store_rows {
    ROWS_FUNCTION, /* a function: name, and its file if it is known and only one (struct table_key) */
    ROWS_FILE,     /* name is that of the file */
    ROWS_LINE,     /* name of the function, file, line */
    ROWS_MAPPING,  /* name is that of the binary */
    ROWS_PACKAGE,  /* name is that of the package (frame_package()) */
    ROWS_FRAME,    /* every frame that BY_ADDRESS distinguishes: store_table_frame() instead of a key */
    ROWS_UNLINED,  /* addresses of user space whose name or line is unknown: name is the build ID; address */
};

struct store_table_query {
    enum store_rows rows;
    struct str function, file; /* if not empty: only rows with exactly this name, this file */
    uint32_t max_rows;         /* frames of further rows are in no row; 0 = no limit */
};

struct table_row {
    int64_t self[2], total[2]; /* per column; a row that is on a path twice counts once in total */
    uint32_t on_path;          /* used by engines while adding */
    uint8_t kind;              /* enum frame_kind: the highest of its frames; unknown for binaries and packages */
};

/* In tables by function, the file distinguishes only functions of scripts (frame_is_of_script()); the kernel's functions are
 * distinct from those of user space. */
struct table_key {
    struct str name, file;
    int64_t line;
    uint64_t address;
    enum table_scope { SCOPE_FILE, SCOPE_USER, SCOPE_KERNEL } scope; /* SCOPE_FILE: file is part of the key */
    bool several_files;                                              /* then file is empty */
};

/* A binary with frames in the table that lack a name, or that have a name and lack a line. */
struct table_gap {
    struct str build_id;
    bool named;
};

struct store_table {
    struct store_table_query q;
    struct table_row *rows;
    struct table_key *keys; /* of the rows; not set with ROWS_FRAME */
    uint32_t n_rows;
    int64_t sum[2];         /* of the whole selection: the base of shares */
    struct str type, unit;  /* valid until store_table_done(), as are all strings */
    struct table_gap *gaps; /* each (build ID, named) once */
    uint32_t n_gaps;
    /* private */
    size_t cap_rows, cap_keys, cap_gaps;
    struct tree *frames; /* with ROWS_FRAME: its frames, from 1 on, are the rows; it has no nodes */
    struct map key_map, gap_map;
    struct arena arena;
};

/* The frame that a row of ROWS_FRAME stands for. */
static inline const struct frame *store_table_frame(const struct store_table *t, uint32_t row)
{
    return &t->frames->frames[row + 1];
}
/* Accepts a zeroed table. */
void store_table_done(struct store_table *t);

/* --- for engines --- */

#define TABLE_NO_ROW UINT32_MAX          /* the frame is in no row; its values count only in the table's sum */
#define TABLE_NO_MEMORY (UINT32_MAX - 1) /* aborts the query */

int store_table_init(struct store_table *t, const struct store_table_query *q);
/* The granularity at which frames must be passed to store_table_row(). */
enum granularity store_table_granularity(enum store_rows rows);
/* Returns the row of a frame, adding it if it is new; or TABLE_NO_ROW or TABLE_NO_MEMORY. It need not be called twice
 * for the same frame. */
uint32_t store_table_row(struct store_table *t, const struct frame *f);
/* Adds up a tree whose totals are correct. Its folded parts are in no row. */
int store_table_add_tree(struct store_table *t, const struct tree *tree);

#endif
