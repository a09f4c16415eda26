/* SPDX-License-Identifier: Apache-2.0 */
/* The table of questions declared in answer.h: each one compiles its parameters, asks query.h and appends the answer to
 * a buffer as JSON or, for trees, in the binary form. */
#include "query/answer.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/json.h"
#include "model/semconv.h"
#include "model/types.h"
#include "query/answer_drift.h"
#include "query/answer_fields.h"
#include "query/answer_run.h"
#include "query/query_groups.h"
#include "query/tree_form.h"

enum { NODES_DEFAULT = 8192, ROWS_DEFAULT = 100, LEAKS_DEFAULT = 50, TEXT_MAX = 16000 };
enum { TOKEN_BYTES = 4, TOKENS_MIN = 50, TOKENS_MAX = 100000 };

const struct answer_param answer_params[] = {
    {"query", "selector: TYPE{label=\"value\",…}, default cpu"},
    {"from", "start of the time range: now-1h, RFC 3339 or Unix time; default: one hour before 'to'"},
    {"to", "end of the time range; default: now"},
    {"base_query", "selector of the base to compare with; default: query"},
    {"base_from", "start of the base range"},
    {"base_to", "end of the base range; default: a range of the same length"},
    {"trace_id", "only samples of this trace, 32 hexadecimal digits"},
    {"span_id", "only samples of this span, 16 hexadecimal digits"},
    {"span_name", "only samples of spans with this name"},
    {"span_status", "error: only spans that failed"},
    {"min_duration", "only spans that took at least this long: 250ms"},
    {"max_duration", "only spans that took less than this"},
    {"children", "true: with the descendants of these spans"},
    {"slowest", "compare the slowest spans of the selection, this percentage of them, with the rest: 5"},
    {"against", "rest: compare the spans selected by duration and span_from, span_to with the others"},
    {"span_from", "with against: start of the selected part of the time range"},
    {"span_to", "with against: its end"},
    {"times",
     "sample: 'from' and 'to' select samples by the time they were taken; default: profiles by the time they start"},
    {"rows", "span_heatmap: number of ranges of latency, default: 30; heatmap: parts of a column, default: 50"},
    {"columns", "number of columns that the time range is divided into; default: 1000"},
    {"profile", "only this profile: a handle from profiles"},
    {"focus", "only stacks with a frame that matches this regular expression"},
    {"ignore", "exclude stacks with a frame that matches"},
    {"hide", "hide frames that match"},
    {"by", "granularity: function, file, line; top: also mapping, package; flame: also filefunction, address"},
    {"max_nodes", "maximum number of nodes; the rest is merged into exact sums; default: 8192, 0: all"},
    {"min_share", "merge nodes below this share of the total, 0 to 1"},
    {"zoom",
     "path from the root, names joined by ';' (a ';' or '\\\\' in a name has a '\\\\' before it; a tab and a file may "
     "follow a name that siblings share): the subtree below it"},
    {"no_inlines", "true: hide inlined functions"},
    {"sort", "top: self, total, delta or share; profiles: time or value; spans: value or duration"},
    {"limit", "maximum number of rows"},
    {"function", "exact name of a function"},
    {"file", "exact name of a file"},
    {"step",
     "time between points: 15s, 1m; default: 1/60 of the range, and no less than two intervals of the profiles"},
    {"format", "text: indented lines with shares instead of JSON"},
    {"tokens", "length of the text, in tokens of a language model (about 4 characters); default: 4000"},
    {"group_by",
     "names of labels or attributes joined by ',': one series per combination of values (labels lists them); flame: one "
     "name, a branch per value"},
    {"label", "name of a label; lists its values instead of label names"},
    {"attributes",
     "labels: false lists only labels of series, which is quick; marked distinguishes them: objects with name and "
     "slow (default: true)"},
    {"baseline_from", "drift: start of the time to compare with; default: as much time before 'from'"},
    {"baseline_to", "drift: its end; default: a range of the same length"},
    {"min_points", "drift, verdict: the smallest drift to report, in percentage points; default: 2"},
    {"share", "drift, verdict: total (a function with all it calls; default) or self"},
    {"service", "service.name: of the spans, or of the deploy that a verdict is asked for; default: the selector's"},
    {"version", "verdict: the service.version to judge; default: the one that was deployed last"},
    {"type", "verdict: the profile type; default: cpu"},
    {0},
};

const char *answer_param_help(const char *name)
{
    for (const struct answer_param *p = answer_params; p->name; p++)
        if (strcmp(p->name, name) == 0)
            return p->help;
    return "";
}

struct str answer_param(struct answer_request *c, const char *name)
{
    return c->param(c->ctx, name);
}

int answer_param_u64(struct answer_request *c, const char *name, uint64_t *ret, struct err *e)
{
    struct str v = answer_param(c, name);

    if (v.n && str_to_u64(v, 10, ret) < 0)
        return err_set(e, -EINVAL, "%s: '%.*s' is not a number", name, STR_FMT(v));
    return 0;
}

int answer_param_duration(struct answer_request *c, const char *name, int64_t *ret, struct err *e)
{
    struct str v = answer_param(c, name);
    int r = v.n ? clock_parse_duration(v, ret, e) : 0;

    return r < 0 ? err_prefix(e, r, "%s: ", name) : 0;
}

int answer_param_limit(struct answer_request *c, uint32_t fallback, uint32_t max, uint32_t *ret, struct err *e)
{
    uint64_t n = fallback;
    int r = answer_param_u64(c, "limit", &n, e);

    *ret = (uint32_t) MIN(n, (uint64_t) max);
    return r;
}

struct query_params answer_params_none(struct answer_request *c)
{
    return (struct query_params){.tenant = c->tenant,
                                 .type = str_from(c->what->type),
                                 .names = c->names,
                                 .now = c->now,
                                 .memory_limit = c->memory_limit,
                                 .cancel = c->cancel,
                                 .notes = &c->notes};
}

int answer_params_of(struct answer_request *c, struct query_params *ret, struct err *e)
{
    static const char *const names[] = {"query",    "from",      "to",        "base_query", "base_from",  "base_to",
                                        "trace_id", "span_id",   "times",     "profile",    "focus",      "ignore",
                                        "hide",     "max_nodes", "min_share", "zoom",       "no_inlines", NULL};

    *ret = answer_params_none(c);
    return query_params_read(ret, names, c->param, c->ctx, e);
}

struct series_notes {
    const struct selector *selector;
    struct store_notes *notes;
};

static void note_hidden(struct store_notes *n, struct str runtime)
{
    size_t used = strlen(n->hidden);

    if (runtime.n && str_find(str_from(n->hidden), runtime) < 0 && used + runtime.n + 3 < sizeof n->hidden)
        snprintf(n->hidden + used, sizeof n->hidden - used, "%s%.*s", used ? "; " : "", STR_FMT(runtime));
}

/* cpu_also of cpu. */
static bool is_rest_of(struct str name, struct str type)
{
    return name.n == type.n + 5 && str_starts(name, type) && str_is(str_slice(name, type.n, name.n), "_also");
}

static int note_series(void *ctx, const struct type *t, const struct labels *l)
{
    struct series_notes *x = ctx;
    struct str runtime =
        str_is(x->selector->type, "cpu") ? labels_get(l, STR(SEMCONV_WICK_HIDDEN_RUNTIME)) : (struct str){0};
    bool also = is_rest_of(t->name, x->selector->type);

    if (!runtime.n && !also)
        return 0;
    if (!selector_matches(x->selector, l))
        return 0;
    x->notes->also |= also;
    note_hidden(x->notes, runtime);
    return 0;
}

/* Notes that a second source sent some of the selection as well, which is stored as cpu_also or the like and not counted; and that it
 * has processes of a runtime whose functions are not shown. */
static void note_selection(struct answer_request *c, const struct query *q)
{
    for (uint32_t i = 0; i < q->q.n_columns; i++) {
        struct series_notes x = {q->q.columns[i].selector, &c->notes};

        if (x.selector->type.n)
            c->store->ops->each_series(
                c->store, &(struct store_range){q->q.tenant, q->q.columns[i].from, q->q.columns[i].to, NULL},
                note_series, &x);
    }
}

/* Notes about the answer are collected in the request and appended to the answer at the end. */
int answer_compile_params(struct answer_request *c, const struct query_params *p, struct query **ret, struct err *e)
{
    int r = query_compile(p, ret, e);

    if (r == 0)
        r = answer_pick_spans(c, *ret, e);
    if (r == 0)
        note_selection(c, *ret);
    return r;
}

int answer_compile(struct answer_request *c, struct query **ret, struct err *e)
{
    struct query_params p;
    int r = answer_params_of(c, &p, e);

    return r < 0 ? r : answer_compile_params(c, &p, ret, e);
}

/* --- trees --- */

static bool wants_text(struct answer_request *c)
{
    return str_is(answer_param(c, "format"), "text");
}

static int check_format(const struct question *what, struct answer_request *q, struct err *e)
{
    struct str format = answer_param(q, "format");

    if (!format.n || wants_text(q) || str_is(format, "json") || (what->tree && str_is(format, "binary")))
        return 0;
    return err_set(e, -EINVAL, "format: '%.*s' is not text%s or json", STR_FMT(format), what->tree ? ", binary" : "");
}

/* How long a text may be, in bytes. */
static size_t text_max(struct answer_request *c)
{
    int64_t tokens;

    if (str_to_i64(answer_param(c, "tokens"), 10, &tokens) < 0)
        return TEXT_MAX;
    return (size_t) MIN(MAX(tokens, TOKENS_MIN), TOKENS_MAX) * TOKEN_BYTES;
}

static int put_tree(struct answer_request *c, struct buf *out, const struct tree *t)
{
    bool first = true;

    if (wants_text(c))
        return tree_to_text(out, t, text_max(c));
    if (c->binary)
        return tree_to_binary(out, t, &c->notes);
    buf_putc(out, '{');
    tree_put_fields(out, &first, t);
    answer_put_end(c, out, &first);
    return 0;
}

static int tree_params(struct answer_request *c, struct query_params *ret, struct err *e)
{
    int r = answer_params_of(c, ret, e);

    if (!answer_param(c, "max_nodes").n)
        ret->max_nodes = NODES_DEFAULT;
    return r < 0 ? r : query_params_set(ret, "by", answer_param(c, "by"), e);
}

static int compile_tree(struct answer_request *c, struct query **ret, struct err *e)
{
    struct query_params p;
    int r = tree_params(c, &p, e);

    return r < 0 ? r : answer_compile_params(c, &p, ret, e);
}

/* The tree of a selection, with a branch for each value of a label where group_by is given. */
static int grouped_flame(struct answer_request *c, const struct query *q, struct tree **ret, struct err *e)
{
    struct query_params p;
    int r = tree_params(c, &p, e);

    if (r < 0)
        return r;
    if (q->is_diff)
        return err_set(e, -EINVAL, "group_by: a comparison cannot be grouped");
    if (q->q.columns[0].spans)
        return err_set(e, -EINVAL, "group_by: spans that are selected by name, duration or children cannot be grouped");
    return query_flame_by(c->store, &p, answer_param(c, "group_by"), ret, e);
}

static int run_flame(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    _cleanup_(tree_freep) struct tree *t = NULL;
    int r = compile_tree(c, &q, e);

    if (r == 0)
        r = answer_param(c, "group_by").n ? grouped_flame(c, q, &t, e) : query_flame(c->store, q, &t, e);
    if (r == 0 && !(c->binary && q->q.n_zoom)) /* the UI has it from the whole tree */
        r = query_coverage(c->store, q, t->covered_ns, e);
    return r < 0 ? r : put_tree(c, out, t);
}

static void put_callers(struct answer_request *c, struct buf *out, const struct store_callers *x)
{
    bool first = false, caller = true, callee = true;

    buf_puts(out, "{\"callers\":{");
    tree_put_fields(out, &caller, x->callers);
    buf_puts(out, "},\"callees\":{");
    tree_put_fields(out, &callee, x->callees);
    buf_putc(out, '}');
    record_put_fields(out, &first, answer_of_callers.fields + 2,
                      &(struct answer_callers){.total = {x->sum[0], x->sum[1]}, .n_columns = x->callers->n_columns});
    answer_put_end(c, out, &first);
}

static int run_callers(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    _cleanup_(store_callers_done) struct store_callers x = {0};
    int r = compile_tree(c, &q, e);

    if (r == 0)
        r = query_callers(c->store, q, answer_param(c, "function"), &x, e);
    if (r == 0)
        r = query_coverage(c->store, q, x.callers->covered_ns, e);
    if (r < 0)
        return r;
    memcpy(x.callees->covered_ns, x.callers->covered_ns, sizeof x.callees->covered_ns);
    if (wants_text(c)) {
        buf_puts(out, "callers, the nearest first: ");
        r = tree_to_text(out, x.callers, text_max(c) / 2);
        buf_puts(out, "\ncallees: ");
        return r < 0 ? r : tree_to_text(out, x.callees, text_max(c) / 2);
    }
    put_callers(c, out, &x);
    return 0;
}

/* --- tables --- */

static int run_top(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_table t;
    enum store_rows rows;
    enum query_sort sort;
    uint64_t limit = ROWS_DEFAULT;
    int r = query_rows_parse(answer_param(c, "by"), &rows, e);

    if (r == 0)
        r = query_sort_parse(answer_param(c, "sort"), &sort, e);
    if (r == 0)
        r = answer_param_u64(c, "limit", &limit, e);
    if (r == 0)
        r = answer_compile(c, &q, e);
    if (r == 0)
        r = query_top(c->store, q, &(struct query_order){rows, sort, (uint32_t) MIN(limit, (uint64_t) UINT32_MAX)}, &t,
                      e);
    if (r < 0)
        return r;
    answer_put(c, out, &t);
    query_table_done(&t);
    return 0;
}

static int run_lines(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_table t;
    int r = answer_compile(c, &q, e);

    if (r == 0)
        r = query_lines(c->store, q,
                        &(struct query_place){.function = answer_param(c, "function"), .file = answer_param(c, "file")},
                        &t, e);
    if (r < 0)
        return r;
    answer_put(c, out, &t);
    query_table_done(&t);
    return 0;
}

/* --- over time --- */

/* The points with the time that profiles cover, of all and of each series. */
static int put_series(struct answer_request *c, struct buf *out, const struct query *q, struct store_points *points,
                      int64_t interval, struct err *e)
{
    uint32_t n = points->n_points;
    int64_t *covered = arena_zalloc_array(&points->arena, n + 1u, sizeof *covered),
            *each = arena_zalloc_array(&points->arena, (size_t) points->n_series * n + 1, sizeof *each);
    struct answer_series x = {
        points->type.name, points->type.unit, points->from, points->step, interval, covered, n, NULL, points->n_series};
    int r = covered && each ? query_step_coverage(c->store, q, points, covered, each, e) : -ENOMEM;

    x.series = arena_zalloc_array(&points->arena, x.n_series + 1u, sizeof *x.series);
    if (r < 0 || !x.series)
        return r < 0 ? r : -ENOMEM;
    for (size_t i = 0; i < x.n_series; i++)
        x.series[i] = (struct answer_one_series){points->labels[i], points->values + i * n, n, each + i * n, n};
    answer_put(c, out, &x);
    return 0;
}

static int run_series(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_series_params p = {.by = answer_param(c, "group_by"), .function = answer_param(c, "function")};
    struct store_points points;
    int r = answer_compile(c, &q, e);

    if (r == 0)
        r = answer_param_duration(c, "step", &p.step, e);
    if (r == 0)
        r = query_interval(c->store, q, &p.interval, e);
    if (r == 0)
        r = query_series(c->store, q, &p, &points, e);
    if (r < 0)
        return r;
    r = put_series(c, out, q, &points, p.interval, e);
    store_points_done(&points);
    return r;
}

/* What a program holds may leak; what it has spent or allocated only ever grows. */
static int check_held(struct str name, struct err *e)
{
    struct type t;

    if (!type_by_name(name, &t) || t.rule == TYPE_GAUGE)
        return 0;
    return err_set(
        e, -EINVAL,
        "query: leaks are found in what a program holds (heap, heap_objects, goroutine, thread), not in '%.*s'",
        STR_FMT(name));
}

/* The names from the root down to the node. */
static int take_stack(struct query_leaks *l, uint32_t node, struct answer_leak *to)
{
    const struct tree *t = l->tree;

    for (uint32_t i = node; i && i != TREE_NONE; i = t->parent[i])
        to->depth++;
    to->stack = arena_zalloc_array(&l->arena, to->depth + 1u, sizeof *to->stack);
    if (!to->stack)
        return -ENOMEM;
    for (uint32_t i = node, at = to->depth; at--; i = t->parent[i])
        to->stack[at] = t->frames[t->frame[i]].function;
    return 0;
}

static int put_leaks(struct answer_request *c, struct buf *out, struct query_leaks *l)
{
    struct answer_leaks x = {l->tree->type, l->tree->unit, l->window_ns,
                             arena_zalloc_array(&l->arena, l->n + 1u, sizeof *x.leaks), l->n};
    int r = x.leaks ? 0 : -ENOMEM;

    for (uint32_t i = 0; r == 0 && i < x.n; i++) {
        struct query_leak *from = &l->rows[i];

        x.leaks[i] = (struct answer_leak){
            .slope = from->slope, .fit = from->fit, .values = from->values, .n_values = QUERY_LEAK_WINDOWS};
        r = take_stack(l, from->node, &x.leaks[i]);
    }
    if (r == 0)
        answer_put(c, out, &x);
    return r;
}

static int run_leaks(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_leaks l;
    uint64_t limit = LEAKS_DEFAULT;
    int r = answer_param_u64(c, "limit", &limit, e);

    if (r == 0)
        r = answer_compile(c, &q, e);
    if (r == 0)
        r = check_held(q->q.columns[q->is_diff].selector->type, e);
    if (r == 0)
        r = query_leaks(c->store, q, (uint32_t) MIN(limit, (uint64_t) 10000), &l, e);
    if (r < 0)
        return r;
    if (wants_text(c))
        r = leaks_to_text(out, &l, text_max(c));
    else
        r = put_leaks(c, out, &l);
    query_leaks_done(&l);
    return r;
}

static int run_coverage(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct answer_head x = {0};
    int r = answer_compile(c, &q, e);

    if (r == 0)
        r = query_coverage(c->store, q, x.covered, e);
    if (r < 0)
        return r;
    x.n_covered = q->q.n_columns;
    answer_put(c, out, &x);
    return r;
}

/* --- the table --- */

#define SPANS "trace_id", "span_id", "service", "span_name", "span_status", "min_duration", "max_duration", "children"
#define PICKS SPANS, "slowest", "against", "span_from", "span_to"
#define FILTERS PICKS, "times", "profile", "focus", "ignore", "hide"
#define PARAMS(...) ((const char *const[]){__VA_ARGS__, NULL})

const struct question questions[] = {
    {"flame", "the merged call tree of a selection, or of two for a diff",
     PARAMS(FILTERS, "by", "max_nodes", "min_share", "zoom", "no_inlines", "group_by", "format", "tokens"), true, true,
     true, run_flame, &answer_of_flame},
    {"top", "functions, files, lines, binaries or packages by value, or by change",
     PARAMS(FILTERS, "by", "sort", "limit"), true, true, false, run_top, &answer_of_table},
    {"callers", "callers and callees of a function", PARAMS(FILTERS, "function", "max_nodes", "format", "tokens"), true,
     true, false, run_callers, &answer_of_callers},
    {"lines", "values per source line of a function or file", PARAMS(FILTERS, "function", "file"), true, true, false,
     run_lines, &answer_of_table},
    {"symbols", "binaries by how much of them is symbolized, and how to fix the rest", PARAMS("limit"), true, false,
     false, answer_run_symbols, &answer_of_symbols},
    {"series", "values over time", PARAMS("step", "group_by", "function"), true, false, false, run_series,
     &answer_of_series},
    {"coverage", "nanoseconds covered by the profiles of a selection; rates are per covered second", PARAMS(NULL), true,
     true, false, run_coverage, &answer_of_coverage},
    {"deploys", "versions of services: when each was seen first and last, and since when it runs", PARAMS(NULL), true,
     false, false, answer_run_deploys, &answer_of_deploys},
    {"leaks", "stacks whose memory in use is growing", PARAMS("limit", "format", "tokens"), true, false, false,
     run_leaks, &answer_of_leaks, "heap"},
    {"drift", "functions whose share changed from a baseline, tested over windows and instances",
     PARAMS("baseline_from", "baseline_to", "min_points", "share", "limit"), true, true, false, answer_run_drift,
     &answer_of_drift},
    {"verdict", "whether the last deploy of a service made it worse, and which functions changed",
     PARAMS("service", "version", "type", "min_points", "share", "limit"), true, false, false, answer_run_verdict,
     &answer_of_verdict},
    {"verdicts", "the latest deploys of all services that made something worse or better, the most expensive first",
     PARAMS("min_points", "limit"), true, false, false, answer_run_verdicts, &answer_of_verdicts},
    {"explain", "what stands out, in sentences: what dominates, what changed since when, and how sure that is",
     PARAMS(SPANS, "times", "profile", "focus", "ignore", "hide"), true, false, false, answer_run_explain,
     &answer_of_explain},
    {"findings",
     "known patterns of waste: garbage collection, locks, allocation, serialisation, with the functions to look at",
     PARAMS(SPANS, "times", "profile", "focus", "ignore", "hide"), true, false, false, answer_run_findings,
     &answer_of_findings},
    {"trends", "cost over time by labels: rates per covered second, their direction and their spikes",
     PARAMS("step", "group_by", "function"), true, false, false, answer_run_trends, &answer_of_trends},
    {"profiles", "individual profiles in a time range", PARAMS("trace_id", "span_id", "sort", "limit"), true, false,
     false, answer_run_profiles, &answer_of_profiles},
    {"spans", "spans by the value of their samples, highest first (details of one: span with its ids)",
     PARAMS(SPANS, "sort", "limit"), true, false, false, answer_run_spans, &answer_of_spans},
    {"span", "what spans did: the functions of a span, a trace, all spans of a name, or the slowest against the rest",
     PARAMS(PICKS, "by", "sort", "limit"), true, false, false, answer_run_span, &answer_of_table},
    {"trace", "the spans of a trace, with the value of their samples", PARAMS("trace_id"), true, false, false,
     answer_run_trace, &answer_of_spans},
    {"span_names", "names of spans with their number, errors and latency",
     PARAMS("service", "span_name", "span_status", "min_duration", "max_duration", "limit"), true, false, false,
     answer_run_span_names, &answer_of_span_names},
    {"span_heatmap", "how many spans of a name started when and took how long",
     PARAMS("service", "span_name", "span_status", "min_duration", "max_duration", "step", "rows"), true, false, false,
     answer_run_span_heatmap, &answer_of_span_heatmap},
    {"heatmap", "when samples were taken: columns of time, each divided into rows of time", PARAMS("step", "rows"),
     true, false, false, answer_run_heatmap, &answer_of_heatmap},
    {"chart", "what each thread did when: stacks by thread and column of time, waiting, and spans",
     PARAMS("columns", "limit"), true, false, false, answer_run_chart, &answer_of_chart},
    {"services", "services of a selection with their types and versions", PARAMS(NULL), true, false, false,
     answer_run_services, &answer_of_services},
    {"labels", "labels and attributes that can be filtered and grouped by, or the values of one",
     PARAMS("label", "attributes"), true, false, false, answer_run_labels, &answer_of_labels},
    {"types", "profile types and their meaning", PARAMS(NULL), false, false, false, answer_run_types, &answer_of_types},
    {0},
};

const struct question *question_find(struct str name)
{
    for (const struct question *q = questions; q->name; q++)
        if (str_is(name, q->name))
            return q;
    return NULL;
}

/* --- all of them --- */

void answer_put_end(const struct answer_request *c, struct buf *out, bool *first)
{
    struct answer_tail t = answer_tail_of(c);

    if (answer_has_selected(c->what->answer))
        record_put_fields(out, first, answer_selected_fields, &t);
    record_put_fields(out, first, answer_tail_fields, &t);
    buf_putc(out, '}');
}

void answer_put(const struct answer_request *c, struct buf *out, const void *answer)
{
    const struct record_field *what = c->what->answer;
    bool first = true;

    if (what->kind != RECORD_ONE) {
        record_put_value(out, what, answer);
        return;
    }
    buf_putc(out, '{');
    record_put_fields(out, &first, what->fields, answer);
    answer_put_end(c, out, &first);
}

/* A question about one selection must not be answered for the base of two. */
static int check_base(const struct question *what, struct answer_request *q, struct err *e)
{
    static const char *const names[] = {"base_query", "base_from", "base_to"};

    for (size_t i = 0; !what->diff && i < ARRAY_SIZE(names); i++)
        if (answer_param(q, names[i]).n)
            return err_set(e, -EINVAL, "%s: '%s' does not compare; flame, top, callers, lines and drift do", names[i],
                           what->name);
    return 0;
}

int answer(const struct question *what, struct answer_request *q, struct buf *out, struct err *e)
{
    int r = check_base(what, q, e);

    if (r == 0)
        r = check_format(what, q, e);
    q->what = what;
    q->notes = (struct store_notes){0};
    q->picked = (struct answer_picked){0};
    if (r == 0)
        r = what->run(q, out, e);
    if (r == 0 && buf_error(out))
        return err_set(e, buf_error(out),
                       "the response is too large: reduce it with limit, max_nodes or a shorter time range");
    return r;
}
