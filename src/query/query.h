/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to a store, as users and pages ask them. Parameters are compiled once (errors name the parameter and
 * the cause), then the compiled query is run. `wick query`, the HTTP API and MCP all use this interface, so that a
 * parameter means the same everywhere.
 *
 * A query runs on the caller's thread, and any number may run at once; *cancel stops it (-ECANCELED), memory_limit
 * bounds it (-E2BIG). Answers are structs with their own arena; answer_fields.h has their tables.
 */
#ifndef QUERY_QUERY_H
#define QUERY_QUERY_H

#include "base/clock.h"
#include "base/regex.h"
#include "model/tree.h"
#include "store/store.h"
#include "store/store_spans.h"
#include "store/store_table.h"
#include "store/store_windows.h"

struct names;

/* A time of a question; the default where it is not given. */
struct query_time {
    bool given;
    int64_t ns;
};

static inline struct query_time query_at(int64_t ns)
{
    return (struct query_time){true, ns};
}

/* What is asked; zero means the default in brackets. Selectors and regular expressions are text everywhere, the rest is text
 * only where people write it: query_params_set() reads it. */
struct query_params {
    const char *tenant;                    /* never NULL */
    struct str query;                      /* cpu{service.name="checkout"} [cpu] */
    struct str type;                       /* of a query without one [cpu] */
    struct query_time from, to;            /* [now-1h, now] */
    struct str base_query;                 /* with base_from and base_to: any of them makes it a diff [query] */
    struct query_time base_from, base_to;  /* [from, to] */
    bool has_trace, has_span, has_profile; /* only samples of these */
    bool any_trace;                        /* a span may be given without its trace */
    bool with_uploads;                     /* also without naming them: what is deleted */
    bool by_sample;                        /* from and to are those of samples, not of profiles */
    uint8_t trace_id[16], span_id[8];
    struct id128 profile;           /* handle */
    struct str focus, ignore, hide; /* regular expressions */
    enum granularity by;            /* [BY_FUNCTION] */
    uint32_t max_nodes;             /* [0 = all] */
    double min_share;
    struct str zoom; /* path from the root, names joined by ';' */
    bool no_inlines;
    struct names *names; /* looks up what frames of the answer lack (names.h); NULL = nothing */
    int64_t now;         /* what "now" means */
    size_t memory_limit;
    const atomic_bool *cancel;
    struct store_notes *notes; /* what all answers to the query add their notes to; NULL = they are not read */
};

/* Sets one of them from text; empty text leaves it as it is. p->now must be set. -EINVAL names it. */
int query_params_set(struct query_params *p, const char *name, struct str text, struct err *e);
/* The same for several of them, NULL-terminated, whose text `get` knows. */
int query_params_read(struct query_params *p, const char *const *names, struct str (*get)(void *ctx, const char *name),
                      void *ctx, struct err *e);

struct query {
    struct store_query q; /* the query for the store; points into the rest */
    struct arena arena;
    struct selector selectors[2];
    struct names *names;
    struct str type; /* of selectors without one */
    bool is_diff;
    bool by_sample; /* columns select samples by their own time (store_column.taken_from) */
    bool with_uploads;
    bool any_type;                      /* no type was named: that of samples of spans depends on what there is */
    struct link *links[2];              /* spans that columns are limited to, NULL if they are not */
    struct store_span_set span_sets[2]; /* of links */
};

int query_compile(const struct query_params *p, struct query **ret, struct err *e);
void query_free(struct query *q);
DEFINE_CLEANUP(struct query *, query_free)

/* The merged tree; two columns (base, new) for a diff. */
int query_flame(struct store *s, struct query *q, struct tree **ret, struct err *e);

/* How many nanoseconds the profiles of each column cover (coverage.c); 0 when no profile has a duration. Rates are per
 * covered second: value / coverage. Adds the sampling rates of the profiles to the query's notes. */
int query_coverage(struct store *s, const struct query *q, int64_t ret[2], struct err *e);
/* The same for each point: ret has room for p->n_points and is that of the whole selection; ret_each has room for
 * p->n_series rows of p->n_points, that of each series, or is NULL. The time of a profile counts at the point in which it
 * starts. */
int query_step_coverage(struct store *s, const struct query *q, const struct store_points *p, int64_t *ret,
                        int64_t *ret_each, struct err *e);

/* --- tables: one row per function, file, line, mapping or package --- */
int query_rows_parse(struct str s, enum store_rows *ret, struct err *e);

struct query_row {
    struct str name, file; /* valid as long as the table */
    int64_t line;
    int64_t self[2], total[2]; /* a function that is on a path twice counts once in total */
    uint32_t n_columns;
    uint8_t kind; /* enum frame_kind */
};

struct query_table {
    struct arena arena;
    struct query_row *rows;
    uint32_t n, n_all; /* n_all: before the limit */
    uint32_t n_columns;
    int64_t total[2];      /* of the whole selection: the base of shares */
    int64_t covered_ns[2]; /* query_coverage() */
    struct str type, unit;
    struct store_table sums; /* as the store answered; owns the strings */
};

enum query_sort { QUERY_SORT_SELF, QUERY_SORT_TOTAL, QUERY_SORT_DELTA, QUERY_SORT_SHARE }; /* the last two for diffs */
int query_sort_parse(struct str s, enum query_sort *ret, struct err *e);

struct query_order {
    enum store_rows rows;
    enum query_sort sort;
    uint32_t limit; /* rows; 0: all */
};
int query_top(struct store *s, struct query *q, const struct query_order *o, struct query_table *ret, struct err *e);
/* Weights per line of one function (exact name) or one file, ordered by line number. */
struct query_place {
    struct str function, file;
};
int query_lines(struct store *s, struct query *q, const struct query_place *at, struct query_table *ret, struct err *e);
void query_table_done(struct query_table *t);

/* The callers and callees of a function (exact name): two trees with the function at their top. Recursion counts once:
 * only the outermost call on a path counts. max_nodes of q applies to each tree. */
int query_callers(struct store *s, struct query *q, struct str function, struct store_callers *ret, struct err *e);

/* Which binaries have symbols: one row per mapping and build ID, ordered by unnamed weight, largest first. Each frame
 * is counted once; weight is what the selection spent in the frames. */
struct query_binary {
    struct str mapping, build_id;
    uint32_t frames, named;
    int64_t self, self_named;
    uint8_t kind;                      /* enum frame_kind, of the first frame that has one */
    const char *status, *reason, *fix; /* whether its frames have names, why not, and what helps */
};
struct query_binaries {
    struct arena arena;
    struct query_binary *v;
    uint32_t n, n_all;
    int64_t self, self_named; /* over all */
};
int query_binaries(struct store *s, struct query *q, uint32_t limit, struct query_binaries *ret, struct err *e);
void query_binaries_done(struct query_binaries *b);

/* --- over time --- */
struct query_series_params {
    int64_t step;        /* ns, 0 = a sixtieth of the range, no less than two intervals and, of few, a multiple */
    int64_t interval;    /* ns between profiles (query_interval()), 0 = not known */
    struct str by;       /* label names joined by ',' */
    struct str function; /* only stacks that contain it */
};
/* The usual time from one profile of a series to the next, in ns; 0 when it is not known. Reads the end of the range only,
 * so that the cost does not grow with the range. */
int query_interval(struct store *s, const struct query *q, int64_t *ret, struct err *e);
int query_series(struct store *s, struct query *q, const struct query_series_params *p, struct store_points *ret,
                 struct err *e);

/* In-use memory that grows: for each leaf stack, its value in QUERY_LEAK_WINDOWS equal windows and the slope of a
 * straight line through them. */
enum { QUERY_LEAK_WINDOWS = 8 };
struct query_leak {
    uint32_t node;                     /* in tree; the stack is its path */
    double values[QUERY_LEAK_WINDOWS]; /* self of that node */
    double slope;                      /* units per hour */
    double fit;                        /* r squared, 0 to 1 */
};
struct query_leaks {
    struct tree *tree; /* of windows; columns: first window, last window */
    struct query_leak *rows;
    uint32_t n;
    int64_t window_ns;
    struct store_windows windows;
    struct arena arena;
};
int query_leaks(struct store *s, struct query *q, uint32_t limit, struct query_leaks *ret, struct err *e);
void query_leaks_done(struct query_leaks *l);

/* --- lists --- */
enum { QUERY_NAMES_MAX = 100000 };
#define QUERY_NAMES_RANGE (24 * 3600 * NS_PER_S)
struct query_names {
    struct arena arena;
    struct str *v; /* sorted */
    uint32_t n;
    bool *slow; /* per name: no series has it as a label. NULL for values */
};
/* Whether every series that q's selection may contain has a label of this name, or is known to have none. With an empty name:
 * whether labels decide every matcher of the selection. */
bool query_is_label(struct store *s, const struct query *q, struct str name);
/* Where names of labels come from: only from labels of series, which is quick, or from all attributes of the selection.
 * Values of an attribute, and everything when a matcher is on an attribute, are always read from detail. */
enum query_label_source { QUERY_LABELS_SERIES, QUERY_LABELS_ALL };
/* Label names or, when `label` is given, its values, of the data that matches q. -E2BIG over QUERY_NAMES_MAX. Names of
 * attributes that are not labels are those of the last QUERY_NAMES_RANGE of the time range. */
int query_labels(struct store *s, struct query *q, struct str label, enum query_label_source from,
                 struct query_names *ret, struct err *e);
void query_names_done(struct query_names *n);

struct query_service {
    struct str name;
    struct str *types;
    uint32_t n_types;
    struct str *versions;
    uint32_t n_versions;
};
struct query_services {
    struct arena arena;
    struct query_service *v; /* by name */
    uint32_t n;
};
/* Of the series that the matchers of the selector match. */
int query_services(struct store *s, const struct query *q, struct query_services *ret, struct err *e);
void query_services_done(struct query_services *l);

/* Types that a tenant has profiles of, whenever they were received; to be freed with query_types_done(). Strings are of the arena. */
struct query_types {
    struct type *v;
    size_t cap;
    uint32_t n;
    struct arena arena;
};
int query_types(struct store *s, const char *tenant, struct query_types *ret, struct err *e);
void query_types_done(struct query_types *l);

/* Single profiles in the range, at most limit: largest value first with by_value, else oldest first. */
struct query_profile {
    struct id128 handle;
    int64_t time_ns, duration_ns, value;
    uint32_t n_samples;
    struct labels labels;
};
struct query_profiles {
    struct arena arena;
    struct query_profile *v;
    uint32_t n, n_all;
    struct type type;
};
int query_profiles(struct store *s, struct query *q, bool by_value, uint32_t limit, struct query_profiles *ret,
                   struct err *e);
void query_profiles_done(struct query_profiles *l);

/* Spans that samples of the selection are linked to, heaviest first; at most limit. */
struct query_spans {
    const struct store_span *v;
    uint32_t n, n_all;
    int64_t total, linked; /* of all samples, and of those with a span */
    struct str type, unit; /* type: the query's */
    struct store_spans sums;
};
int query_spans(struct store *s, struct query *q, uint32_t limit, struct query_spans *ret, struct err *e);
void query_spans_done(struct query_spans *l);

/* Exact profiles of the selection as one batch, as they were sent but for focus, ignore and hide. convert_to_single()
 * makes a pprof of it. */
int query_export(struct store *s, struct query *q, struct batch **ret, struct err *e);

#endif
