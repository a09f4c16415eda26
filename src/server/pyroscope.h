/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The querier of Pyroscope as Grafana's data source and Profiles Drilldown call it: querier.v1.QuerierService over
 * Connect, in JSON and protobuf, and the older /pyroscope/render. Requests are translated into the questions of
 * query.h; this code does not look at data itself.
 *
 * Names: Pyroscope's labels have underscores, ours have dots (service_name, service.name); its types are five-part ids.
 * Times are milliseconds. Labels that start with "__" are Pyroscope's own; only __profile_type__ has a meaning here.
 */
#ifndef SERVER_PYROSCOPE_H
#define SERVER_PYROSCOPE_H

#include "base/clock.h"
#include "query/query.h"
#include "server/front.h"
#include "server/pbjson.h"

/* One selection: SelectMergeStacktracesRequest and similar. */
struct py_select {
    struct str type_id, selector;
    int64_t start, end, max_nodes, format;
    struct pbjson_strs profile_ids, trace_ids, spans, call_site;
    int64_t pgo_keep,
        pgo_aggregate; /* for Go's PGO: frames to keep from the leaf, 0 = all; and the leaf without its line */
    int64_t async;     /* AsyncQueryType */
};

/* Where there is CPU time, its samples can be counted (pyroscope_merge.c). */
#define PY_COUNTS_ID STR("process_cpu:samples:count:cpu:nanoseconds")

/* ProfileFormat */
enum { PY_FORMAT_FLAMEGRAPH = 1, PY_FORMAT_TREE, PY_FORMAT_DOT, PY_FORMAT_PPROF };

/* All fields of all requests; each request has a table that fills its own. */
struct py_request {
    struct py_select left, right; /* only Diff uses right */
    struct pbjson_strs group_by, matchers, label_names;
    struct str name, value, query;
    double step;
    int64_t limit, aggregation, exemplar_type, query_type, generation;
};

/* Converts a time in milliseconds to nanoseconds, clamped to the valid range. */
static inline int64_t py_time(int64_t ms)
{
    return MIN(MAX(ms, CLOCK_MIN / NS_PER_MS), CLOCK_MAX / NS_PER_MS) * NS_PER_MS;
}

/* Compiles `left` (and `right` as the new column for a diff). extra: further query_params, or NULL. */
int py_compile(struct call *c, const struct py_request *r, bool diff, const struct query_params *extra,
               struct query **ret, struct err *e);
/* Calls fn for each combination of the request's profiles, traces and spans. */
int py_each_part(struct call *c, struct py_request *r, bool diff, int (*fn)(void *ctx, struct query *q, struct err *e),
                 void *ctx, struct err *e);
/* The flame graph of a request, merged over its parts; and of one part, in counts of samples where r asks for them. */
int py_tree(struct call *c, struct py_request *r, bool diff, struct tree **ret, struct err *e);
int py_flame(struct call *c, const struct py_request *r, struct query *q, struct tree **ret, struct err *e);
/* The selection as one profile of the type that was asked for. The snapshots of a gauge are averaged, as in every other
 * answer. *ret has no profile when nothing matches. */
int py_merge(struct call *c, struct py_request *r, struct batch **ret, struct err *e);
/* Whether the type counts samples of CPU time; and the time between two of them in a column of the query, in ns. */
bool py_counts(struct str type_id);
/* The series of a request. *ret must be freed with store_points_done(). */
int py_points(struct call *c, const struct py_request *r, struct query *q, const struct query_series_params *p,
              struct store_points *ret, struct err *e);
int py_period(struct call *c, const struct query *q, uint32_t column, double *ret, struct err *e);
/* Sets the range so that each step of the store is (T - step, T] in milliseconds; returns the step in ns. */
int64_t py_align(struct py_request *r);
/* The label's name as Grafana spells it, in the arena. */
struct str py_label_name(struct arena *a, struct str name);
/* The strings joined by ','. */
struct str py_joined(struct arena *a, const struct pbjson_strs *l);
/* The selection as a call graph in the language of Graphviz. */
int py_dot(struct call *c, struct py_request *r, struct buf *out, struct err *e);
/* {"version":1,"flamebearer":…,"metadata":…[,"leftTicks":…] of a tree with one or two columns, without the closing brace. */
int py_put_flamebearer(struct buf *out, const struct tree *t, struct str sample_type, struct str unit);
/* A profile's ID as Pyroscope has it: a UUID. */
void py_profile_id(struct id128 handle, char ret[40]);
void py_put_labels(struct pbjson *w, uint32_t field, struct arena *a, const struct labels *l);
void py_put_label(struct pbjson *w, uint32_t field, struct str name, struct str value);
struct str py_type_id(struct arena *a, const struct type *t);

/* The methods. Each gets the request and writes the answer with w. */
int py_profile_types(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
int py_label_names(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
int py_label_values(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
int py_series(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
int py_profile_stats(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
int py_stacktraces(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
int py_span_profile(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
int py_diff(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
int py_select_series(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
int py_heatmap(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
int py_analyze_query(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
int py_settings_get(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
int py_settings_set(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
int py_settings_delete(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
int py_adhoc_upload(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
int py_adhoc_get(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
int py_adhoc_list(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
int py_adhoc_diff(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
int py_rules_list(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
int py_rules_get(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
int py_rules_upsert(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
int py_rules_delete(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
int py_no_flags(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);
int py_merge_profile(struct call *c, struct py_request *r, struct pbjson *w, struct err *e);

#endif
