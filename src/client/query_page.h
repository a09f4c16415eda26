/* SPDX-License-Identifier: Apache-2.0 */
/* What the printers of answers share (query_text.c, query_tree_text.c, query_lists.c, query_drift_text.c,
 * query_span_text.c, query_time_text.c): the JSON being read and the text being written. The JSON is read once, in the order in which query_json.c and tree_form.c write it. */
#ifndef CLIENT_QUERY_PAGE_H
#define CLIENT_QUERY_PAGE_H

#include "base/json.h"
#include "client/text_table.h"
#include "model/types.h"

struct page {
    struct json json;
    struct arena arena;
    struct buf *out;
    int width;        /* of the terminal; 0: lines are not cut */
    size_t rows;      /* of data printed so far */
    struct type type; /* type of the values: set by "type" and "unit" */
    double total[2];
    double covered[2]; /* nanoseconds; 0: not known */
    int n_columns;
    double
        rate[2], /* samples per second, printed after the rows: the lowest and the highest; 0: not known, or only one */
        mean_rate;
};

/* type, unit, total and other keys that every answer starts with; returns false for keys of a particular answer. */
bool page_common(struct page *p, struct str key);
/* A number, or a pair of them for a diff, which then sets n_columns. */
void page_pair(struct page *p, double v[2]);
/* A value with its unit, valid as long as the page. */
const char *page_value(struct page *p, double v);
/* A share of the whole as a percentage. */
const char *page_share(struct page *p, double v, double whole);
/* Prints the table, counts its rows and frees it. A table without rows is not printed. */
void page_table(struct page *p, struct text_table *t);

/* A time, cut to a multiple of unit_ns: 2026-01-02T03:04:05Z */
const char *page_time(struct page *p, int64_t ns, int64_t unit_ns);
/* Prints the list under `list` of an answer, a row for each of its objects, which `put` reads. */
void page_list(struct page *p, const char *list, struct text_table *t,
               void (*put)(struct page *p, struct text_table *t));

/* Begins a table: TABLE(&t, {"NAME", false}, {"VALUE", true}) */
#define TABLE(t, ...)                                                       \
    do {                                                                    \
        const struct text_column columns_[] = {__VA_ARGS__};                \
        text_table_init(t, sizeof columns_ / sizeof columns_[0], columns_); \
    } while (0)

/* The printers, by question. */
void page_tree(struct page *p);    /* flame */
void page_callers(struct page *p); /* callers: two trees */
void page_top(struct page *p);     /* top, lines */
void page_labels(struct page *p);
void page_services(struct page *p);
void page_types(struct page *p);
void page_profiles(struct page *p);
void page_spans(struct page *p);
void page_span(struct page *p);
void page_trace(struct page *p);
void page_span_names(struct page *p);
void page_span_heatmap(struct page *p);
void page_series(struct page *p);
void page_heatmap(struct page *p);
void page_chart(struct page *p);
void page_coverage(struct page *p);
void page_deploys(struct page *p);
void page_leaks(struct page *p);
void page_symbols(struct page *p);
void page_drift(struct page *p);
void page_verdict(struct page *p);
void page_findings(struct page *p);
void page_trends(struct page *p);

#endif
