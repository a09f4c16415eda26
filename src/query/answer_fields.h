/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What questions answer, as records (base/record.h): for each one a struct and a table of its fields. Their JSON, the tables of
 * `wick query`, the schemas of OpenAPI and the reference page come from these tables: a new field is a member of the struct,
 * which a question fills in, and a line of its table. Who reads an answer reads it into the same struct.
 *
 * Trees are written as they are (tree_form.h), because of their size; their table describes them for readers.
 */
#ifndef QUERY_ANSWER_FIELDS_H
#define QUERY_ANSWER_FIELDS_H

#include "base/record.h"
#include "query/answer.h"
#include "query/drift.h"
#include "query/explain.h"
#include "query/findings.h"
#include "query/query_deploys.h"
#include "query/span_stats.h"
#include "query/verdict.h"

/* What most answers begin with; n_columns is 2 for a comparison. */
struct answer_head {
    struct str type, unit;
    int64_t total[2], covered[2]; /* covered: nanoseconds; 0: not known */
    uint32_t n_columns, n_covered;
};
extern const struct record_field answer_head_fields[];

/* What every answer that is an object ends with. */
struct answer_tail {
    int64_t rate[2]; /* in force, in Hz: one, or the lowest and the highest */
    struct answer_picked picked;
    bool has_rate, has_mean_rate, has_notes, has_spool;
    uint32_t n_rates;
    double mean_rate;
    struct store_notes notes;
    int64_t spool_s;
};
extern const struct record_field answer_tail_fields[];
/* `spans` of the same struct, the spans that were selected: not in answers that have a list of this name. */
extern const struct record_field answer_selected_fields[];
bool answer_has_selected(const struct record_field *answer);
struct answer_tail answer_tail_of(const struct answer_request *c);

/* --- flame and callers, for readers --- */
struct answer_frame {
    struct str function, system_name, file, mapping, build_id, package, address, kind;
    int64_t line;
    bool inlined;
};
struct answer_tree {
    struct str type, unit;
    int64_t covered[2];
    uint32_t n_covered, n_columns;
    struct answer_frame *frames;
    uint32_t n_frames;
    struct record_list *nodes; /* of int64_t: parent, frame, self, total (, self and total of the second) (, folded) */
    uint32_t n_nodes;
};
struct answer_callers {
    struct answer_tree callers, callees;
    int64_t total[2];
    uint32_t n_columns;
};

/* --- series --- */
struct answer_one_series {
    struct labels labels;
    double *values;
    uint32_t n_values;
    int64_t *covered;
    uint32_t n_covered;
};
struct answer_series {
    struct str type, unit;
    int64_t from, step, interval;
    int64_t *covered; /* one for each point */
    uint32_t n_covered;
    struct answer_one_series *series;
    uint32_t n_series;
};

/* --- leaks --- */
struct answer_leak {
    struct str *stack; /* from the root down */
    uint32_t depth;
    double slope, fit;
    double *values;
    uint32_t n_values;
};
struct answer_leaks {
    struct str type, unit;
    int64_t window;
    struct answer_leak *leaks;
    uint32_t n;
};

/* --- lists --- */
struct answer_type {
    struct str name, unit, title;
    int rule; /* enum type_rule */
    bool stored;
};
struct answer_label {
    struct str name;
    bool slow;
};

/* --- spans --- */
struct answer_span {
    struct span_row row; /* strings in the arena of the request */
    bool known;          /* by the index */
    bool is_child;       /* it has a parent */
    bool in_trace;       /* depth is set */
    int64_t value, from, to;
    int64_t sampled; /* what its samples stand for, if that is more than the span can have used; else 0 */
    uint64_t samples;
    uint32_t depth;
    struct str link; /* where its trace is shown; may be empty */
};
struct answer_spans {
    struct str type, unit;
    int64_t total, linked;
    uint64_t count;
    struct answer_span *spans;
    uint32_t n;
};
struct answer_span_names {
    uint32_t count;
    struct span_name_row *spans;
    uint32_t n;
};
struct answer_span_heatmap {
    int64_t from, step;
    uint64_t count, errors;
    int64_t *bounds; /* row i has durations in [bounds[i], bounds[i + 1]) */
    uint32_t n_bounds;
    struct record_list *counts; /* of int64_t: one for each row, a list for each step */
    uint32_t n_counts;
};

/* --- by time --- */
struct answer_heatmap {
    struct str type, unit;
    int64_t from, step;
    uint32_t columns, rows;
    int64_t scale, max, timed, untimed;
    uint64_t samples;
    int64_t *values; /* columns times rows, in units of scale */
    uint32_t n;
};
struct answer_thread {
    struct str name, service;
    int64_t id, pid, running, waiting;
    uint64_t samples;
    int64_t *cells; /* column, number of columns, node, kind, and so on */
    uint32_t n;
};
struct answer_chart_span {
    struct link link;
    struct str name;
    uint32_t thread;
    int64_t start, end;
};
struct answer_chart {
    int64_t from, step;
    uint32_t columns, read, count;
    bool sliced;
    uint64_t untimed;
    struct str *names; /* of frames */
    uint32_t n_names;
    int64_t *kinds;
    uint32_t n_kinds;
    int64_t *parents; /* of nodes */
    uint32_t n_parents;
    int64_t *frames;
    uint32_t n_frames;
    struct answer_thread *threads;
    uint32_t n_threads;
    struct answer_chart_span *spans;
    uint32_t n_spans;
};

/* --- over time --- */
struct answer_spike {
    int64_t time;
    double rate, usual;
};
struct answer_trend {
    struct labels labels;
    uint32_t points;
    double rate, usual, per_hour, fit;
    double *rates; /* NaN: nothing covers the point */
    uint32_t n_rates;
    struct answer_spike *spikes;
    uint32_t n_spikes;
};
struct answer_trends {
    struct str type, unit;
    int64_t from, step;
    struct answer_trend *trends;
    uint32_t n;
};

struct answer_verdicts {
    struct verdict_answer *verdicts;
    uint32_t n, count, same, undecided; /* count: without the limit */
};

/* What the questions answer: of the struct above, or of the one that is named. */
extern const struct record_field answer_of_flame, answer_of_callers;
extern const struct record_field answer_of_table;                      /* struct query_table: top, lines, span */
extern const struct record_field answer_of_symbols;                    /* struct query_binaries */
extern const struct record_field answer_of_series, answer_of_coverage; /* coverage: struct answer_head */
extern const struct record_field answer_of_deploys;                    /* struct query_deploys */
extern const struct record_field answer_of_leaks;
extern const struct record_field answer_of_drift;   /* struct drift_answer */
extern const struct record_field answer_drift_rows; /* its list */
extern const struct record_field answer_of_verdict; /* struct verdict_answer */
extern const struct record_field answer_of_verdicts;
extern const struct record_field answer_of_explain;  /* struct explain */
extern const struct record_field answer_of_findings; /* struct findings */
extern const struct record_field answer_of_trends;
extern const struct record_field answer_of_profiles; /* struct query_profiles */
extern const struct record_field answer_of_spans, answer_of_span_names, answer_of_span_heatmap;
extern const struct record_field answer_of_heatmap, answer_of_chart;
extern const struct record_field answer_of_services; /* a list of struct query_service */
extern const struct record_field answer_of_labels; /* a list of struct str; answer_of_label_details: of answer_label */
extern const struct record_field answer_of_label_details;
extern const struct record_field answer_of_types; /* a list of answer_type */

#endif
