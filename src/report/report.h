/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof's reports over one profile. A report is (profile, options, total); report_print() writes one of the formats.
 * The total is computed when the report is made: make it before the filters (percentages of everything) or after them
 * (-relative_percentages). report_driver.h does all of it in pprof's order from a set of options.
 */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include "base/regex.h"
#include "report/graph.h"
#include "report/prof.h"
#include "report/prof_filter.h"
#include "report/units.h"

enum report_format {
    REPORT_CALLGRIND,
    REPORT_COMMENTS,
    REPORT_DISASM,
    REPORT_DOT,
    REPORT_LIST,
    REPORT_PROTO,
    REPORT_RAW,
    REPORT_TAGS,
    REPORT_TEXT,
    REPORT_TOPPROTO,
    REPORT_TRACES,
    REPORT_TREE, /* also peek, with a symbol */
    REPORT_WEBLIST,
};

enum { REPORT_FILTERS_MAX = 16 };

struct report_options {
    enum report_format format;
    bool cum_sort, call_tree, drop_negative, compact_labels, mean, intel_syntax;
    double ratio; /* every value is multiplied by it before printing */
    int node_count;
    double node_fraction, edge_fraction;
    uint32_t value;         /* index of the sample type */
    struct str sample_type; /* with "mean_" if requested */
    struct str sample_unit; /* of the profile */
    struct str output_unit; /* "minimum", "auto" or a unit; becomes a unit once the values are known */
    struct str title;       /* base name of the main binary */
    struct str source_path, trim_path;
    struct graph_detail detail; /* granularity */
    const struct regex *symbol; /* peek, list, disasm, weblist */
    struct str symbol_text;
    struct str filters[REPORT_FILTERS_MAX]; /* "focus=main" ... for the legend */
    size_t n_filters;
    /* Reports as parts of a page (wick pprof -http): no legend in the graph and no head around the source; weblist and
     * disasm show this many files or functions, the heaviest first. 0: a separate document, with all of them sorted by
     * name. */
    uint32_t part_of_page;
};

struct report {
    struct prof *prof; /* not owned */
    struct report_options o;
    int64_t total;
    struct label_units units;
    struct units_conversion values; /* sample_unit -> output_unit */
};

/* Finds the units of labels and computes the total. The profile is owned by the caller and must outlive the report. */
void report_init(struct report *r, struct prof *p, const struct report_options *o, struct label_units *units);
void report_done(struct report *r);
/* Appends the report as text to out. PROTO and TOPPROTO are not text: see report_proto(). */
int report_print(struct report *r, struct buf *out, struct err *e);
/* PROTO: the profile itself with the ratio applied; TOPPROTO: a new one with a sample per entry, to be freed. */
int report_proto(struct report *r, struct prof **ret_new, struct err *e);

/* One row of top. */
struct report_item {
    struct str name;          /* in the arena */
    const char *inline_label; /* "(inline)", "(partial-inline)" or "" */
    int64_t flat, cum;
};
/* The rows of top; appends their header lines (without the last newline) to legend. */
int report_items(struct report *r, struct arena *a, struct report_item **ret, size_t *ret_n, struct buf *legend);

/* --- for the printers --- */
struct report_graph {
    struct graph *g;
    size_t shown_of; /* nodes before the limit on their number */
    size_t dropped_nodes, dropped_edges;
};
/* The graph, trimmed according to the options. */
int report_graph(struct report *r, struct report_graph *ret);
/* The complete graph at the report's granularity, for list, weblist and disasm: ret->order holds every node. */
int report_full_graph(struct report *r, struct graph **ret);
/* Picks output_unit by the smallest value when it is "minimum". */
void report_select_unit(struct report *r, const struct graph *g);
/* A value with its unit. report_column pads it to width (right-aligned; negative width: left-aligned). */
void report_value(const struct report *r, struct buf *out, int64_t v);
void report_column(const struct report *r, struct buf *out, int64_t v, int width);
/* Text padded to a number of characters. */
void report_pad(struct buf *out, struct str s, int width);
/* A string of the profile, printable and on one line, with what comes before and after it. */
void report_put_text(const struct prof *p, struct buf *out, const char *before, uint32_t s, const char *after);
/* Header lines: File, Build ID, comments, Type, Doc, Time, Duration; without the last newline. */
void report_profile_labels(const struct report *r, struct buf *out);
/* All header lines of a graph report. */
void report_labels(const struct report *r, const struct report_graph *rg, bool full, struct buf *out);

int report_text(struct report *r, struct buf *out);
int report_tree(struct report *r, struct buf *out, struct err *e);
int report_traces(struct report *r, struct buf *out);
int report_raw(struct report *r, struct buf *out);
int report_tags(struct report *r, struct buf *out);
int report_callgrind(struct report *r, struct buf *out);
int report_dot(struct report *r, struct buf *out);

#endif
