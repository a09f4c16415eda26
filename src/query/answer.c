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
#include "query/answer_run.h"
#include "query/query_deploys.h"
#include "query/query_groups.h"
#include "query/query_json.h"
#include "query/tree_form.h"

#define NODES_DEFAULT_TEXT "8192"
enum { NODES_DEFAULT = 8192, ROWS_DEFAULT = 100, PROFILES_DEFAULT = 100, LEAKS_DEFAULT = 50, TEXT_MAX = 16000 };
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

struct query_params answer_params_of(struct answer_request *c)
{
    return (struct query_params){
        .tenant = c->tenant,
        .query = answer_param(c, "query"),
        .from = answer_param(c, "from"),
        .to = answer_param(c, "to"),
        .base_query = answer_param(c, "base_query"),
        .base_from = answer_param(c, "base_from"),
        .base_to = answer_param(c, "base_to"),
        .trace_id = answer_param(c, "trace_id"),
        .span_id = answer_param(c, "span_id"),
        .times = answer_param(c, "times"),
        .profile = answer_param(c, "profile"),
        .focus = answer_param(c, "focus"),
        .ignore = answer_param(c, "ignore"),
        .hide = answer_param(c, "hide"),
        .max_nodes = answer_param(c, "max_nodes"),
        .min_share = answer_param(c, "min_share"),
        .zoom = answer_param(c, "zoom"),
        .no_inlines = str_is(answer_param(c, "no_inlines"), "true"),
        .names = c->names,
        .now = c->now,
        .memory_limit = c->memory_limit,
        .cancel = c->cancel,
    };
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

static int note_series(void *ctx, const struct type *t, const struct labels *l)
{
    struct series_notes *x = ctx;
    struct str runtime = labels_get(l, STR(SEMCONV_WICK_HIDDEN_RUNTIME));

    if (!runtime.n && !str_is(t->name, "cpu_also"))
        return 0;
    if (!selector_matches(x->selector, l))
        return 0;
    x->notes->also |= str_is(t->name, "cpu_also");
    note_hidden(x->notes, runtime);
    return 0;
}

/* Notes that a second source sent CPU time of the selection, which is stored as cpu_also and not counted; and that it
 * has processes of a runtime whose functions are not shown. */
static void note_selection(struct answer_request *c, const struct query *q)
{
    for (uint32_t i = 0; i < q->q.n_columns; i++) {
        struct series_notes x = {q->q.columns[i].selector, &c->notes};

        if (str_is(x.selector->type, "cpu"))
            c->store->ops->each_series(
                c->store, &(struct store_range){q->q.tenant, q->q.columns[i].from, q->q.columns[i].to, NULL},
                note_series, &x);
    }
}

/* Notes about the answer are collected in the request and appended to the answer at the end. */
int answer_compile_params(struct answer_request *c, const struct query_params *p, struct query **ret, struct err *e)
{
    int r = query_compile(p, ret, e);

    if (r == 0) {
        (*ret)->q.notes = &c->notes;
        r = answer_pick_spans(c, *ret, e);
    }
    if (r == 0)
        note_selection(c, *ret);
    return r;
}

int answer_compile(struct answer_request *c, struct query **ret, struct err *e)
{
    struct query_params p = answer_params_of(c);

    return answer_compile_params(c, &p, ret, e);
}

/* --- trees --- */

static bool wants_text(struct answer_request *c)
{
    return str_is(answer_param(c, "format"), "text");
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
    if (wants_text(c))
        return tree_to_text(out, t, text_max(c));
    if (c->binary)
        return tree_to_binary(out, t, &c->notes);
    tree_to_json(out, t);
    return 0;
}

static int compile_tree(struct answer_request *c, struct query **ret, struct err *e)
{
    struct query_params p = answer_params_of(c);
    int r;

    p.by = answer_param(c, "by");
    r = answer_compile_params(c, &p, ret, e);
    if (r == 0 && !p.max_nodes.n)
        (*ret)->q.max_nodes = NODES_DEFAULT;
    return r;
}

/* The tree of a selection, with a branch for each value of a label where group_by is given. */
static int grouped_flame(struct answer_request *c, const struct query *q, struct tree **ret, struct err *e)
{
    struct query_params p = answer_params_of(c);

    p.by = answer_param(c, "by");
    if (!p.max_nodes.n)
        p.max_nodes = STR(NODES_DEFAULT_TEXT);
    if (q->is_diff)
        return err_set(e, -EINVAL, "group_by: a comparison cannot be grouped");
    if (q->q.columns[0].spans)
        return err_set(e, -EINVAL, "group_by: spans that are selected by name, duration or children cannot be grouped");
    return query_flame_by(c->store, &p, answer_param(c, "group_by"), ret, &c->notes, e);
}

static int run_flame(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    _cleanup_(tree_freep) struct tree *t = NULL;
    int r = compile_tree(c, &q, e);

    if (r == 0)
        r = answer_param(c, "group_by").n ? grouped_flame(c, q, &t, e) : query_flame(c->store, q, &t, &c->notes, e);
    if (r == 0 && !(c->binary && q->q.n_zoom)) /* the UI has it from the whole tree */
        r = query_coverage(c->store, q, t->covered_ns, e);
    return r < 0 ? r : put_tree(c, out, t);
}

static int run_callers(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    _cleanup_(store_callers_done) struct store_callers x = {0};
    int r = compile_tree(c, &q, e);

    if (r == 0)
        r = query_callers(c->store, q, answer_param(c, "function"), &x, &c->notes, e);
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
    query_callers_json(out, &x);
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
                      &c->notes, e);
    if (r < 0)
        return r;
    query_table_json(out, &t, NULL);
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
                        &t, &c->notes, e);
    if (r < 0)
        return r;
    query_table_json(out, &t, NULL);
    query_table_done(&t);
    return 0;
}

static int run_symbols(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_binaries b;
    uint64_t limit = ROWS_DEFAULT;
    int r = answer_param_u64(c, "limit", &limit, e);

    if (r == 0)
        r = answer_compile(c, &q, e);
    if (r == 0)
        r = query_binaries(c->store, q, (uint32_t) MIN(limit, (uint64_t) UINT32_MAX), &b, &c->notes, e);
    if (r < 0)
        return r;
    query_binaries_json(out, &b, NULL);
    query_binaries_done(&b);
    return 0;
}

/* --- over time --- */

/* Appends the interval of the profiles to the object at the end of out. */
static void put_interval(struct buf *out, int64_t interval)
{
    if (interval <= 0 || buf_error(out) || !out->n)
        return;
    out->n--;
    buf_printf(out, ",\"interval\":\"%lld\"}", (long long) interval);
}

static int run_deploys(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_deploys d;
    int r = answer_compile(c, &q, e);

    if (r == 0)
        r = query_deploys(c->store, q, &d, e);
    if (r < 0)
        return r;
    query_deploys_json(out, &d);
    query_deploys_done(&d);
    return 0;
}

static int run_series(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_series_params p = {.by = answer_param(c, "group_by"), .function = answer_param(c, "function")};
    struct str step = answer_param(c, "step");
    struct store_points points;
    int64_t *covered, *each;
    int r = answer_compile(c, &q, e);

    if (r == 0 && step.n) {
        r = clock_parse_duration(step, &p.step, e);
        if (r < 0)
            return err_prefix(e, r, "step: ");
    }
    if (r == 0)
        r = query_interval(c->store, q, &p.interval, e);
    if (r == 0)
        r = query_series(c->store, q, &p, &points, &c->notes, e);
    if (r < 0)
        return r;
    covered = arena_zalloc_array(c->arena, points.n_points + 1u, sizeof *covered);
    each = arena_zalloc_array(c->arena, (size_t) points.n_series * points.n_points + 1, sizeof *each);
    r = covered && each ? query_step_coverage(c->store, q, &points, covered, each, e) : -ENOMEM;
    if (r == 0) {
        query_points_json(out, &points, covered, each, NULL);
        put_interval(out, p.interval);
    }
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

static int run_leaks(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_params p = answer_params_of(c);
    struct query_leaks l;
    uint64_t limit = LEAKS_DEFAULT;
    int r = answer_param_u64(c, "limit", &limit, e);

    p.type = STR("heap");
    if (r == 0)
        r = answer_compile_params(c, &p, &q, e);
    if (r == 0)
        r = check_held(q->q.columns[q->is_diff].selector->type, e);
    if (r == 0)
        r = query_leaks(c->store, q, (uint32_t) MIN(limit, (uint64_t) 10000), &l, &c->notes, e);
    if (r < 0)
        return r;
    if (wants_text(c))
        r = leaks_to_text(out, &l, text_max(c));
    else
        query_leaks_json(out, &l, NULL);
    query_leaks_done(&l);
    return r;
}

static int run_coverage(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    int64_t covered[2];
    int r = answer_compile(c, &q, e);

    if (r == 0)
        r = query_coverage(c->store, q, covered, e);
    if (r == 0)
        query_coverage_json(out, covered, q->q.n_columns);
    return r;
}

/* --- lists --- */

/* Lists cover every type unless one is named. */
static int compile_list(struct answer_request *c, struct query **ret, struct err *e)
{
    struct query_params p = answer_params_of(c);

    if (!p.query.n || p.query.p[0] == '{') {
        char *any = arena_printf(c->arena, "*%.*s", STR_FMT(p.query));

        if (!any)
            return -ENOMEM;
        p.query = str_from(any);
    }
    return answer_compile_params(c, &p, ret, e);
}

static int run_labels(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_names names;
    struct str which = answer_param(c, "attributes");
    bool detailed = str_is(which, "marked");
    enum query_label_source source = str_is(which, "false") ? QUERY_LABELS_SERIES : QUERY_LABELS_ALL;
    int r = compile_list(c, &q, e);

    if (r == 0 && which.n && !detailed && !str_is(which, "true") && !str_is(which, "false"))
        r = err_set(e, -EINVAL, "attributes: '%.*s' is not true, false or marked", STR_FMT(which));

    if (r == 0)
        r = query_labels(c->store, q, answer_param(c, "label"), source, &names, e);
    if (r < 0)
        return r;
    if (detailed && !answer_param(c, "label").n)
        query_label_names_json(out, &names);
    else
        query_names_json(out, &names);
    query_names_done(&names);
    return 0;
}

static int run_services(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_services list;
    int r = answer_compile(c, &q, e);

    if (r == 0)
        r = query_services(c->store, q, &list, e);
    if (r < 0)
        return r;
    query_services_json(out, &list);
    query_services_done(&list);
    return 0;
}

static int run_profiles(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_profiles list;
    uint64_t limit = PROFILES_DEFAULT;
    int r = answer_param_u64(c, "limit", &limit, e);

    if (r == 0)
        r = answer_compile(c, &q, e);
    if (r == 0)
        r = query_profiles(c->store, q, str_is(answer_param(c, "sort"), "value"),
                           (uint32_t) MIN(limit, (uint64_t) 100000), &list, e);
    if (r < 0)
        return r;
    query_profiles_json(out, &list);
    query_profiles_done(&list);
    return 0;
}

static int run_types(struct answer_request *c, struct buf *out, struct err *e)
{
    const struct type *all;
    size_t n = type_all(&all);

    (void) e;
    buf_putc(out, '[');
    for (size_t i = 0; i < n; i++) {
        static const char *const rules[] = {"delta", "gauge", "cumulative"};

        buf_puts(out, i ? ",{\"name\":" : "{\"name\":");
        json_put_str(out, all[i].name);
        buf_puts(out, ",\"unit\":");
        json_put_str(out, all[i].unit);
        buf_printf(out, ",\"rule\":\"%s\",\"title\":", rules[all[i].rule]);
        json_put_str(out, all[i].title);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
    return 0;
}

/* --- the table --- */

#define SPANS "trace_id", "span_id", "service", "span_name", "span_status", "min_duration", "max_duration", "children"
#define PICKS SPANS, "slowest", "against", "span_from", "span_to"
#define FILTERS PICKS, "times", "profile", "focus", "ignore", "hide"
#define PARAMS(...) ((const char *const[]){__VA_ARGS__, NULL})

const struct question questions[] = {
    {"flame", "the merged call tree of a selection, or of two for a diff",
     PARAMS(FILTERS, "by", "max_nodes", "min_share", "zoom", "no_inlines", "group_by", "format", "tokens"), true, true,
     true, run_flame},
    {"top", "functions, files, lines, binaries or packages by value, or by change",
     PARAMS(FILTERS, "by", "sort", "limit"), true, true, false, run_top},
    {"callers", "callers and callees of a function", PARAMS(FILTERS, "function", "max_nodes", "format", "tokens"), true,
     true, false, run_callers},
    {"lines", "values per source line of a function or file", PARAMS(FILTERS, "function", "file"), true, true, false,
     run_lines},
    {"symbols", "binaries by how much of them is symbolized, and how to fix the rest", PARAMS("limit"), true, false,
     false, run_symbols},
    {"series", "values over time", PARAMS("step", "group_by", "function"), true, false, false, run_series},
    {"coverage", "nanoseconds covered by the profiles of a selection; rates are per covered second", PARAMS(NULL), true,
     true, false, run_coverage},
    {"deploys", "versions of services: when each was seen first and last, and since when it runs", PARAMS(NULL), true,
     false, false, run_deploys},
    {"leaks", "stacks whose memory in use is growing", PARAMS("limit", "format", "tokens"), true, false, false,
     run_leaks},
    {"drift", "functions whose share changed from a baseline, tested over windows and instances",
     PARAMS("baseline_from", "baseline_to", "min_points", "share", "limit"), true, true, false, answer_run_drift},
    {"verdict", "whether the last deploy of a service made it worse, and which functions changed",
     PARAMS("service", "version", "type", "min_points", "share", "limit"), true, false, false, answer_run_verdict},
    {"findings",
     "known patterns of waste: garbage collection, locks, allocation, serialisation, with the functions to look at",
     PARAMS(SPANS, "times", "profile", "focus", "ignore", "hide"), true, false, false, answer_run_findings},
    {"trends", "cost over time by labels: rates per covered second, their direction and their spikes",
     PARAMS("step", "group_by", "function"), true, false, false, answer_run_trends},
    {"profiles", "individual profiles in a time range", PARAMS("trace_id", "span_id", "sort", "limit"), true, false,
     false, run_profiles},
    {"spans", "spans by the value of their samples, highest first (details of one: span with its ids)",
     PARAMS(SPANS, "sort", "limit"), true, false, false, answer_run_spans},
    {"span", "what spans did: the functions of a span, a trace, all spans of a name, or the slowest against the rest",
     PARAMS(PICKS, "by", "sort", "limit"), true, false, false, answer_run_span},
    {"trace", "the spans of a trace, with the value of their samples", PARAMS("trace_id"), true, false, false,
     answer_run_trace},
    {"span_names", "names of spans with their number, errors and latency",
     PARAMS("service", "span_name", "span_status", "min_duration", "max_duration", "limit"), true, false, false,
     answer_run_span_names},
    {"span_heatmap", "how many spans of a name started when and took how long",
     PARAMS("service", "span_name", "span_status", "min_duration", "max_duration", "step", "rows"), true, false, false,
     answer_run_span_heatmap},
    {"heatmap", "when samples were taken: columns of time, each divided into rows of time", PARAMS("step", "rows"),
     true, false, false, answer_run_heatmap},
    {"chart", "what each thread did when: stacks by thread and column of time, waiting, and spans",
     PARAMS("columns", "limit"), true, false, false, answer_run_chart},
    {"services", "services with their types and versions", PARAMS(NULL), true, false, false, run_services},
    {"labels", "labels and attributes that can be filtered and grouped by, or the values of one",
     PARAMS("label", "attributes"), true, false, false, run_labels},
    {"types", "profile types and their meaning", PARAMS(NULL), false, false, false, run_types},
    {0},
};

const struct question *question_find(struct str name)
{
    for (const struct question *q = questions; q->name; q++)
        if (str_is(name, q->name))
            return q;
    return NULL;
}

/* Adds the sampling rate, and notes about damage and coarse edges, to every JSON answer. */
static void put_notes(const struct answer_request *q, struct buf *out)
{
    size_t n = out->n;
    bool object;

    while (n && out->p[n - 1] == '\n')
        n--;
    object = n > 2 && out->p[0] == '{' && out->p[n - 1] == '}' && !q->binary;
    if (!object || buf_error(out) ||
        (!q->notes.coarse && !q->notes.damaged && !q->notes.rate_min && !q->notes.also && !q->notes.hidden[0] &&
         !q->picked.by_index))
        return;
    out->n = n - 1;
    answer_picked_json(q, out);
    query_rate_json(out, &q->notes);
    query_notes_json(out, &q->notes);
    buf_putc(out, '}');
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

    q->notes = (struct store_notes){0};
    q->picked = (struct answer_picked){0};
    if (r == 0)
        r = what->run(q, out, e);
    if (r == 0)
        put_notes(q, out);
    if (r == 0 && buf_error(out))
        return err_set(e, buf_error(out),
                       "the response is too large: reduce it with limit, max_nodes or a shorter time range");
    return r;
}
