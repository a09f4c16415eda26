/* SPDX-License-Identifier: Apache-2.0 */
/* What the span index (span/span_index.h) knows about latency: names of spans with their percentiles, and how many spans
 * started when and took how long. */
#ifndef QUERY_SPAN_STATS_H
#define QUERY_SPAN_STATS_H

#include "span/span_index.h"

struct span_name_row {
    struct str name, service;
    uint64_t count, errors;
    int64_t p50, p95, p99, max, total; /* ns; a percentile is the smallest duration that so many spans do not exceed */
    /* private */
    int64_t *durations; /* one in one_in of them */
    size_t n, cap;
    uint64_t one_in;
};

struct span_names {
    struct span_name_row *v; /* most total time first */
    uint32_t n;
    /* private */
    size_t cap;
    struct arena arena;
};

/* Of very many names, the last row stands for all others ("(other names)"); of very many spans, percentiles are those of
 * an even selection. */
int span_names_list(struct span_index *x, const struct span_filter *f, struct span_names *ret, struct err *e);
void span_names_done(struct span_names *l);

enum { SPAN_ROWS_MAX = 200, SPAN_SLOTS_MAX = 5000 };

struct span_heatmap {
    int64_t from, step; /* set by the caller */
    uint32_t n_rows;    /* set by the caller, at most SPAN_ROWS_MAX */
    uint32_t n_slots;
    uint64_t count, errors;
    int64_t *bounds;  /* n_rows + 1: row i has durations in [bounds[i], bounds[i + 1]) */
    uint32_t *counts; /* n_slots times n_rows */
    struct arena arena;
};

/* Rows are ranges of latency of equal ratio between the shortest and the longest span. */
int span_heatmap_fill(struct span_index *x, const struct span_filter *f, struct span_heatmap *h, struct err *e);
void span_heatmap_done(struct span_heatmap *h);

#endif
