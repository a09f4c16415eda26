/* SPDX-License-Identifier: Apache-2.0 */
/* What the printers of answers share (query_text.c, query_tree_text.c, query_lists.c, query_drift_text.c,
 * query_span_text.c, query_time_text.c): the answer, read by its table (query/answer_fields.h), and the text being written.
 * An answer whose table has columns needs no printer. */
#ifndef CLIENT_QUERY_PAGE_H
#define CLIENT_QUERY_PAGE_H

#include "client/record_text.h"
#include "client/text_table.h"
#include "query/answer_fields.h"

struct page {
    struct arena arena;
    struct buf *out, *notes;
    int width;        /* of the terminal; 0: lines are not cut */
    size_t rows;      /* of data printed so far */
    struct type type; /* of the values */
    struct answer_head head;
    struct answer_tail tail;
};

/* A value of the answer, a duration, and a share of the whole, as text that is valid as long as the page. */
const char *page_value(struct page *p, double v);
const char *page_duration(struct page *p, int64_t ns);
const char *page_share(struct page *p, double v, double whole);
/* A time, cut to a multiple of unit_ns: 2026-01-02T03:04:05Z */
const char *page_time(struct page *p, int64_t ns, int64_t unit_ns);
/* Prints the table, counts its rows and frees it. A table without rows is not printed. */
int page_table(struct page *p, struct text_table *t);
/* The same for the columns of records. */
int page_records(struct page *p, const struct record_field *list, const struct record_list *records);

/* Begins a table: TABLE(&t, {"NAME", false}, {"VALUE", true}) */
#define TABLE(t, ...)                                                       \
    do {                                                                    \
        const struct text_column columns_[] = {__VA_ARGS__};                \
        text_table_init(t, sizeof columns_ / sizeof columns_[0], columns_); \
    } while (0)

/* The printers, by question; answer is the struct that answer_fields.h names. */
int page_tree(struct page *p, const void *answer);    /* flame */
int page_callers(struct page *p, const void *answer); /* two trees */
int page_top(struct page *p, const void *answer);     /* top, lines */
int page_types(struct page *p, const void *answer);
int page_series(struct page *p, const void *answer);
int page_coverage(struct page *p, const void *answer);
int page_leaks(struct page *p, const void *answer);
int page_symbols(struct page *p, const void *answer);
int page_spans(struct page *p, const void *answer);
int page_span(struct page *p, const void *answer);
int page_trace(struct page *p, const void *answer);
int page_span_heatmap(struct page *p, const void *answer);
int page_heatmap(struct page *p, const void *answer);
int page_chart(struct page *p, const void *answer);
int page_drift(struct page *p, const void *answer);
int page_verdict(struct page *p, const void *answer);
int page_verdicts(struct page *p, const void *answer);
int page_explain(struct page *p, const void *answer);
int page_findings(struct page *p, const void *answer);
int page_trends(struct page *p, const void *answer);

#endif
