/* SPDX-License-Identifier: Apache-2.0 */
/* What all formats share: total, trimming, units, header lines (report.h). Each format has its own file. */
#include "report/report.h"

#include <errno.h>
#include <math.h>

#include "base/mem.h"
#include "base/printable.h"
#include "base/wrap.h"
#include "report/gopath.h"

enum { NODELETS_MAX = 4 };

static int64_t report_total(const struct report *r)
{
    const struct prof *p = r->prof;
    int64_t total = 0, div = 0, base_total = 0, base_div = 0;

    for (size_t i = 0; i < p->n_samples; i++) {
        const int64_t *v = prof_sample_values(p, &p->samples[i]);
        int64_t value = wrap_abs(v[r->o.value]), d = r->o.mean ? v[0] : 0;

        wrap_inc(&total, value);
        wrap_inc(&div, d);
        if (p->samples[i].labels && prof_sample_is_base(p, &p->samples[i])) {
            wrap_inc(&base_total, value);
            wrap_inc(&base_div, d);
        }
    }
    if (base_total > 0) {
        total = base_total;
        div = base_div;
    }
    return div ? wrap_div(total, div) : total;
}

void report_init(struct report *r, struct prof *p, const struct report_options *o, struct label_units *units)
{
    *r = (struct report){.prof = p, .o = *o, .units = *units};
    *units = (struct label_units){0};
    r->total = report_total(r);
    units_prepare(&r->values, o->sample_unit, o->output_unit);
}

void report_done(struct report *r)
{
    label_units_done(&r->units);
}

/* --- values --- */

static bool has_ratio(const struct report *r)
{
    return r->o.ratio > 0 && r->o.ratio != 1;
}

void report_value(const struct report *r, struct buf *out, int64_t v)
{
    units_put(out, &r->values, has_ratio(r) ? wrap_int64((double) v * r->o.ratio) : v);
}

static size_t count_runes(struct str s)
{
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++)
        n += ((unsigned char) s.p[i] & 0xc0) != 0x80;
    return n;
}

void report_pad(struct buf *out, struct str s, int width)
{
    size_t n = count_runes(s), want = (size_t) (width < 0 ? -width : width), pad = want > n ? want - n : 0;

    if (width > 0)
        buf_pad(out, ' ', pad);
    buf_put_str(out, s);
    if (width < 0)
        buf_pad(out, ' ', pad);
}

void report_column(const struct report *r, struct buf *out, int64_t v, int width)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;

    report_value(r, &text, v);
    report_pad(out, buf_str(&text), width);
}

void report_select_unit(struct report *r, const struct graph *g)
{
    int64_t min = 0, max = r->total;
    struct str min_unit = {0}, max_unit = {0}, unit;

    if (!str_eq(r->o.output_unit, STR("minimum")) || !g->n_order)
        return;
    for (size_t i = 0; i < g->n_order; i++) {
        const struct graph_node *n = &g->nodes[g->order[i]];
        int64_t v = wrap_abs(graph_flat(n));

        if (!v)
            v = wrap_abs(graph_cum(n));
        if (v > 0 && (!min || v < min))
            min = v;
    }
    if (!min)
        min = max;
    if (has_ratio(r)) {
        min = wrap_int64((double) min * r->o.ratio);
        max = wrap_int64((double) max * r->o.ratio);
    }
    units_scale(min, r->o.sample_unit, STR("minimum"), &min_unit);
    units_scale(max, r->o.sample_unit, STR("minimum"), &max_unit);
    unit = min_unit;
    /* A hundred times the smallest value still shows as 0.01; callgrind has integers only. */
    if (!str_eq(min_unit, max_unit) && wrap_mul(min, 100) < max && r->o.format != REPORT_CALLGRIND)
        units_scale(wrap_mul(min, 100), r->o.sample_unit, STR("minimum"), &unit);
    r->o.output_unit = unit.n ? unit : r->o.sample_unit;
    units_prepare(&r->values, r->o.sample_unit, r->o.output_unit);
}

/* --- the graph --- */

static void graph_options_of(const struct report *r, struct graph_options *o)
{
    bool objects = r->o.format == REPORT_RAW || r->o.format == REPORT_LIST || r->o.format == REPORT_WEBLIST ||
                   r->o.format == REPORT_DISASM || r->o.format == REPORT_CALLGRIND;

    *o = (struct graph_options){
        .detail = r->o.detail,
        .value = r->o.value,
        .mean = r->o.mean,
        .object_names = objects,
        .call_tree = r->o.call_tree && (r->o.format == REPORT_DOT || r->o.format == REPORT_CALLGRIND),
        .drop_negative = r->o.drop_negative,
        .trim_path = r->o.trim_path,
        .source_path = r->o.source_path,
        .units = &r->units,
        .output_unit = r->o.output_unit,
    };
}

int report_full_graph(struct report *r, struct graph **ret)
{
    struct graph_options o;

    graph_options_of(r, &o);
    return graph_new(r->prof, &o, true, ret);
}

/* How many nodes of the order a limit keeps: drawn tags count as nodes. */
static size_t select_count(const struct graph *g, int limit, bool visual)
{
    size_t max = (size_t) limit, count = 0;

    for (size_t i = 0; visual && i < g->n_order; i++) {
        count += MIN(graph_count_tags(g, g->order[i]), NODELETS_MAX) + 1;
        if (count >= max) {
            max = i + 1;
            break;
        }
    }
    return MIN(max, g->n_order);
}

static int rebuild(struct graph *g, bool visual)
{
    int r = graph_build(g, true);

    return r >= 0 && visual ? graph_build_tags(g) : r;
}

static int drop_nodes(struct graph *g, bool visual)
{
    return g->o.call_tree ? graph_trim_tree(g) : rebuild(g, visual);
}

static int limit_nodes(struct report *r, struct graph *g, enum graph_sort sort, int64_t node_cut, int64_t edge_cut)
{
    bool visual = r->o.format == REPORT_DOT;
    size_t keep;
    int e;

    graph_trim_tags(g, node_cut);
    graph_trim_edges(g, edge_cut);
    keep = select_count(g, r->o.node_count, visual);
    if (keep == g->n_order)
        return 0;
    e = graph_keep_first(g, keep);
    if (e >= 0)
        e = drop_nodes(g, visual);
    return e < 0 ? e : graph_sort(g, sort);
}

static int64_t fraction_of(int64_t total, double fraction)
{
    return wrap_abs(wrap_int64((double) total * fraction));
}

int report_graph(struct report *r, struct report_graph *ret)
{
    _cleanup_(graph_freep) struct graph *g = NULL;
    bool visual = r->o.format == REPORT_DOT, trims = r->o.node_fraction != 0;
    enum graph_sort sort = visual ? GRAPH_BY_ENTROPY : r->o.cum_sort ? GRAPH_BY_CUM : GRAPH_BY_FLAT;
    int64_t total = 0, node_cut, edge_cut;
    struct graph_options o;
    int e;

    *ret = (struct report_graph){0};
    graph_options_of(r, &o);
    e = graph_new(r->prof, &o, !trims, &g);
    if (e < 0)
        return e;
    for (size_t i = 0; i < g->n_order; i++)
        wrap_inc(&total, g->nodes[g->order[i]].flat);
    node_cut = fraction_of(total, r->o.node_fraction);
    edge_cut = fraction_of(total, r->o.edge_fraction);
    if (node_cut > 0)
        ret->dropped_nodes = graph_keep_above(g, node_cut);
    if (o.call_tree)
        e = ret->dropped_nodes ? graph_trim_tree(g) : 0;
    else if (trims)
        e = graph_build(g, true);
    if (e >= 0 && visual)
        e = graph_build_tags(g);
    if (e >= 0)
        e = graph_sort(g, sort);
    ret->shown_of = g->n_order;
    if (e >= 0 && r->o.node_count > 0)
        e = limit_nodes(r, g, sort, node_cut, edge_cut);
    if (e < 0)
        return e;
    graph_trim_tags(g, node_cut);
    ret->dropped_edges = graph_trim_edges(g, edge_cut);
    if (visual)
        e = graph_remove_redundant(g);
    if (e < 0)
        return e;
    ret->g = TAKE(g);
    return 0;
}

/* --- header lines --- */

void report_put_text(const struct prof *p, struct buf *out, const char *before, uint32_t s, const char *after)
{
    buf_puts(out, before);
    printable_put(out, prof_str(p, s), false);
    buf_puts(out, after);
}

static void label_line(struct buf *out, const char *name, struct str s)
{
    if (out->n)
        buf_putc(out, '\n');
    buf_puts(out, name);
    printable_put(out, s, false);
}

/* A comment may have several lines. */
static void put_comment(struct buf *out, struct str s)
{
    label_line(out, "", STR(""));
    printable_put(out, s, true);
}

static void duration_label(const struct report *r, struct buf *out)
{
    struct str unit = {0};
    double ns = units_scale(r->total, r->o.sample_unit, STR("nanoseconds"), &unit);

    label_line(out, "Duration: ", STR(""));
    units_label(out, r->prof->duration_ns, STR("nanoseconds"), STR("auto"));
    buf_puts(out, ", Total samples = ");
    report_value(r, out, r->total);
    buf_putc(out, ' ');
    if (str_eq(unit, STR("ns")) && ns != 0) {
        buf_putc(out, '(');
        units_percentage(out, wrap_int64(ns), r->prof->duration_ns);
        buf_putc(out, ')');
    }
}

void report_profile_labels(const struct report *r, struct buf *out)
{
    const struct prof *p = r->prof;

    if (p->n_mappings > 1 && p->mappings[1].file)
        label_line(out, "File: ", gopath_base(prof_str(p, p->mappings[1].file)));
    if (p->n_mappings > 1 && p->mappings[1].build_id)
        label_line(out, "Build ID: ", prof_str(p, p->mappings[1].build_id));
    for (size_t i = 0; i < p->n_comments; i++) {
        struct str c = prof_str(p, p->comments[i]);

        if (!c.n || c.p[0] != '#')
            put_comment(out, c);
    }
    if (r->o.sample_type.n)
        label_line(out, "Type: ", r->o.sample_type);
    if (p->doc_url)
        label_line(out, "Doc: ", prof_str(p, p->doc_url));
    if (p->time_ns) {
        label_line(out, "Time: ", STR(""));
        gotime_local(out, p->time_ns, false);
    }
    if (p->duration_ns)
        duration_label(r, out);
}

static void filter_labels(const struct report *r, struct buf *out)
{
    enum { SHOWN = 80 };

    if (r->o.n_filters)
        label_line(out, "Active filters:", STR(""));
    for (size_t i = 0; i < r->o.n_filters; i++) {
        struct str f = r->o.filters[i];

        label_line(out, "   ", str_slice(f, 0, SHOWN));
        if (f.n > SHOWN)
            buf_puts(out, "\xe2\x80\xa6");
    }
}

static void dropped_label(const struct report *r, struct buf *out, size_t n, const char *what, const char *by,
                          double fraction)
{
    if (!n)
        return;
    label_line(out, "", STR(""));
    buf_printf(out, "Dropped %zu %s%s (%s <= ", n, what, n > 1 ? "s" : "", by);
    report_value(r, out, fraction_of(r->total, fraction));
    buf_putc(out, ')');
}

void report_labels(const struct report *r, const struct report_graph *rg, bool full, struct buf *out)
{
    _cleanup_(buf_done) struct buf share = BUF_INIT;
    int64_t shown = 0;

    for (size_t i = 0; i < rg->g->n_order; i++)
        wrap_inc(&shown, graph_flat(&rg->g->nodes[rg->g->order[i]]));
    if (full || !r->o.compact_labels)
        report_profile_labels(r, out);
    filter_labels(r, out);
    label_line(out, "Showing nodes accounting for ", STR(""));
    report_value(r, out, shown);
    units_percentage(&share, shown, r->total);
    buf_puts(out, ", ");
    buf_put_str(out, str_trim(buf_str(&share)));
    buf_puts(out, " of ");
    report_value(r, out, r->total);
    buf_puts(out, " total");
    if (r->total) {
        dropped_label(r, out, rg->dropped_nodes, "node", "cum", r->o.node_fraction);
        if (full)
            dropped_label(r, out, rg->dropped_edges, "edge", "freq", r->o.edge_fraction);
        if (rg->g->n_order && rg->g->n_order < rg->shown_of) {
            label_line(out, "", STR(""));
            buf_printf(out, "Showing top %zu nodes out of %zu", rg->g->n_order, rg->shown_of);
        }
    }
    if (full)
        label_line(out, "\nSee https://git.io/JfYMW for how to read the graph", STR(""));
}

static int report_comments(const struct report *r, struct buf *out)
{
    for (size_t i = 0; i < r->prof->n_comments; i++) {
        printable_put(out, prof_str(r->prof, r->prof->comments[i]), true);
        buf_putc(out, '\n');
    }
    return 0;
}

static int print_format(struct report *r, struct buf *out, struct err *e)
{
    int n;

    switch (r->o.format) {
    case REPORT_COMMENTS:
        n = report_comments(r, out);
        break;
    case REPORT_DOT:
        n = report_dot(r, out);
        break;
    case REPORT_TREE:
        n = report_tree(r, out, e);
        break;
    case REPORT_TEXT:
        n = report_text(r, out);
        break;
    case REPORT_TRACES:
        n = report_traces(r, out);
        break;
    case REPORT_RAW:
        n = report_raw(r, out);
        break;
    case REPORT_TAGS:
        n = report_tags(r, out);
        break;
    case REPORT_CALLGRIND:
        n = report_callgrind(r, out);
        break;
    default:
        return err_set(e, -EINVAL, "unexpected output format %d", (int) r->o.format);
    }
    if (n >= 0)
        n = buf_error(out);
    if (n == -ENOMEM)
        return err_set(e, n, "not enough memory for the report");
    return n;
}

/* Texts are made in many small buffers; one that could not be made must not leave a report that is wrong. */
int report_print(struct report *r, struct buf *out, struct err *e)
{
    unsigned long failures = mem_failures();
    int n = print_format(r, out, e);

    return n >= 0 && mem_failures() != failures ? err_set(e, -ENOMEM, "not enough memory for the report") : n;
}
