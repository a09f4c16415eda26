/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each thread did when: the samples of a selection in the order of their times, by thread. Time is divided into columns;
 * a cell of a thread and a column shows the stack that was sampled for the longest part of it. CPU time ends at the time of
 * its sample; waiting (off-CPU) begins there.
 *
 * Reading whole profiles of a long range would take long. If there is data for more than CHART_WHOLE_NS, only a short time of
 * each column is read, from its first profile on, the columns in an order that covers the range evenly, until CHART_PATIENCE_NS
 * have passed.
 */
#ifndef QUERY_QUERY_CHART_H
#define QUERY_QUERY_CHART_H

#include "query/query.h"

enum {
    CHART_COLUMNS = 1000,
    CHART_COLUMNS_MAX = 4000,
    CHART_SLICES = 128, /* columns of a long range; a power of 2 */
    CHART_THREADS = 64,
    CHART_THREADS_MAX = 512,
    CHART_PIECES_MAX = 1 << 20,
    CHART_SPANS_MAX = 4096,
};
#define CHART_WHOLE_NS (900 * NS_PER_S)
#define CHART_SLICE_NS (2 * NS_PER_S)
#define CHART_PATIENCE_NS (400 * NS_PER_MS)

enum chart_kind { CHART_RUNNING, CHART_WAITING };

struct chart_cell {
    uint32_t column, n; /* the columns [column, column + n) */
    uint32_t node;      /* of the tree */
    uint8_t kind;       /* enum chart_kind */
};

struct chart_thread {
    struct str name, service;
    int64_t id, pid;  /* 0 = not known */
    int64_t value[2]; /* by kind, nanoseconds */
    uint64_t samples;
    struct chart_cell *cells; /* by column */
    uint32_t n_cells;
};

/* A span that samples of a thread are linked to. */
struct chart_span {
    struct link link;
    uint32_t thread;
    int64_t from, to; /* first and last sample; of the span itself if the index knows it */
    struct str name;  /* empty when it does not */
};

struct query_chart {
    uint32_t n_columns, n_threads; /* set by the caller: at most so many; 0 = the defaults */
    int64_t from, step;
    struct chart_thread *threads;
    uint32_t n_all;    /* threads that were seen */
    struct tree *tree; /* stacks; its values are not used */
    struct chart_span *spans;
    uint32_t n_spans;
    uint64_t untimed; /* samples that have no time and are not in it */
    uint32_t n_read;  /* columns that were read; less than n_columns: the others are not known */
    bool sliced;      /* only a short time of each column was read */
    struct arena arena;
};

int query_chart(struct store *s, const struct query *q, struct query_chart *ret, struct err *e);
void query_chart_done(struct query_chart *c);

#endif
