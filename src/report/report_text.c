/* SPDX-License-Identifier: Apache-2.0 */
/* -top, -text, -tree, -peek, -traces: see report.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/printable.h"
#include "report/report.h"

/* "(inline)" when every call that is shown was inlined, "(partial-inline)" when some were. */
static const char *inline_label(const struct graph *g, uint32_t node)
{
    bool inlined = false, called = false;

    for (uint32_t k = g->in_first[node]; k < g->in_first[node + 1]; k++) {
        const struct graph_edge *e = &g->edges[g->in[k]];

        if (e->dead)
            continue;
        inlined |= e->inlined;
        called |= !e->inlined;
    }
    return !inlined ? "" : called ? "(partial-inline)" : "(inline)";
}

static void put_numbers(const struct report *r, struct buf *out, int64_t flat, int64_t sum, int64_t cum)
{
    report_column(r, out, flat, 10);
    buf_putc(out, ' ');
    units_percentage(out, flat, r->total);
    buf_putc(out, ' ');
    units_percentage(out, sum, r->total);
    buf_putc(out, ' ');
    report_column(r, out, cum, 10);
    buf_putc(out, ' ');
    units_percentage(out, cum, r->total);
}

static int copy_items(const struct graph *g, struct arena *a, struct report_item *items)
{
    _cleanup_(buf_done) struct buf name = BUF_INIT;

    for (size_t i = 0; i < g->n_order; i++) {
        uint32_t n = g->order[i];

        buf_reset(&name);
        graph_put_name(g, &name, graph_node_info(g, n));
        items[i] = (struct report_item){arena_str(a, buf_str(&name)), inline_label(g, n), graph_flat(&g->nodes[n]),
                                        graph_cum(&g->nodes[n])};
        if (buf_error(&name) || (name.n && !items[i].name.p))
            return -ENOMEM;
    }
    return 0;
}

int report_items(struct report *r, struct arena *a, struct report_item **ret, size_t *ret_n, struct buf *legend)
{
    struct report_item *items;
    struct report_graph rg;
    int e = report_graph(r, &rg);

    if (e < 0)
        return e;
    report_select_unit(r, rg.g);
    report_labels(r, &rg, false, legend);
    items = arena_zalloc_array(a, rg.g->n_order + 1, sizeof(*items));
    e = items ? copy_items(rg.g, a, items) : -ENOMEM;
    *ret = items;
    *ret_n = rg.g->n_order;
    graph_free(rg.g);
    return e;
}

int report_text(struct report *r, struct buf *out)
{
    struct report_item *items;
    struct arena a;
    int64_t sum = 0;
    size_t n = 0;
    int e;

    arena_init(&a, 0);
    e = report_items(r, &a, &items, &n, out);
    if (e >= 0)
        buf_puts(out, "\n      flat  flat%   sum%        cum   cum%\n");
    for (size_t i = 0; e >= 0 && i < n; i++) {
        wrap_inc(&sum, items[i].flat);
        put_numbers(r, out, items[i].flat, sum, items[i].cum);
        buf_printf(out, "  %.*s%s%s\n", STR_FMT(items[i].name), items[i].inline_label[0] ? " " : "",
                   items[i].inline_label);
    }
    arena_done(&a);
    return e;
}

static void put_edges(const struct report *r, const struct graph *g, struct buf *out, uint32_t node, bool incoming,
                      uint32_t *scratch)
{
    uint32_t n = graph_sorted_edges(g, node, incoming, scratch);
    int64_t cum = graph_cum(&g->nodes[node]);

    for (uint32_t i = 0; i < n; i++) {
        const struct graph_edge *e = &g->edges[scratch[i]];

        report_column(r, out, e->weight, 50);
        buf_putc(out, ' ');
        units_percentage(out, e->weight, cum);
        buf_puts(out, " |   ");
        graph_put_name(g, out, graph_node_info(g, incoming ? e->src : e->dst));
        buf_puts(out, e->inlined ? " (inline)\n" : "\n");
    }
}

#define TREE_SEPARATOR "----------------------------------------------------------+-------------\n"

static bool name_matches(const struct report *r, const struct graph *g, uint32_t node, struct buf *scratch)
{
    if (!r->o.symbol)
        return true;
    buf_reset(scratch);
    graph_put_name(g, scratch, graph_node_info(g, node));
    return regex_search(r->o.symbol, buf_str(scratch));
}

int report_tree(struct report *r, struct buf *out, struct err *err)
{
    _cleanup_(buf_done) struct buf name = BUF_INIT;
    _cleanup_(mem_freep) uint32_t *scratch = NULL;
    struct report_graph rg;
    int64_t sum = 0;
    size_t matched = 0;
    int e = report_graph(r, &rg);

    if (e < 0)
        return e;
    scratch = mem_alloc((rg.g->n_edges + 1) * sizeof(*scratch));
    if (!scratch) {
        graph_free(rg.g);
        return -ENOMEM;
    }
    report_select_unit(r, rg.g);
    report_labels(r, &rg, false, out);
    buf_puts(out, "\n" TREE_SEPARATOR "      flat  flat%   sum%        cum   cum%   calls calls% + context \t \t \n");
    for (size_t i = 0; i < rg.g->n_order; i++) {
        uint32_t n = rg.g->order[i];
        int64_t flat = graph_flat(&rg.g->nodes[n]);

        if (!name_matches(r, rg.g, n, &name))
            continue;
        matched++;
        wrap_inc(&sum, flat);
        buf_puts(out, TREE_SEPARATOR);
        put_edges(r, rg.g, out, n, true, scratch);
        put_numbers(r, out, flat, sum, graph_cum(&rg.g->nodes[n]));
        buf_puts(out, "                | ");
        graph_put_name(rg.g, out, graph_node_info(rg.g, n));
        buf_putc(out, '\n');
        put_edges(r, rg.g, out, n, false, scratch);
    }
    if (rg.g->n_order)
        buf_puts(out, TREE_SEPARATOR);
    graph_free(rg.g);
    if (r->o.symbol && !matched)
        return err_set(err, -ENOENT, "no matches found for regexp: %.*s", STR_FMT(r->o.symbol_text));
    return 0;
}

/* --- traces --- */

static int compare_lines(const void *a, const void *b)
{
    return str_cmp(*(const struct str *) a, *(const struct str *) b);
}

/* One line per key with its values; the lines are sorted. */
static void put_labels(const struct report *r, struct buf *out, const struct prof_label *l, uint32_t n, bool numeric)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT, name = BUF_INIT;
    _cleanup_(mem_freep) struct str *lines = mem_zalloc_array(n + 1, sizeof(*lines));
    _cleanup_(mem_freep) size_t *starts = mem_zalloc_array(n + 1, sizeof(*starts));
    uint32_t count = 0;

    if (!lines || !starts)
        return;
    for (uint32_t i = 0; i < n; count++) {
        uint32_t key = l[i].key;
        const char *gap = "";

        starts[count] = text.n;
        buf_reset(&name);
        printable_put(&name, prof_str(r->prof, key), false);
        report_pad(&text, buf_str(&name), 10);
        buf_puts(&text, ":  ");
        for (; i < n && l[i].key == key; i++, gap = " ") {
            buf_puts(&text, gap);
            if (numeric)
                units_label(&text, l[i].num, label_unit(r->prof, &r->units, key), STR("auto"));
            else
                printable_put(&text, prof_str(r->prof, l[i].str), false);
        }
        buf_putc(&text, '\n');
    }
    starts[count] = text.n;
    for (uint32_t i = 0; i < count; i++)
        lines[i] = (struct str){text.p + starts[i], (uint32_t) (starts[i + 1] - starts[i])};
    if (count)
        qsort(lines, count, sizeof(*lines), compare_lines);
    for (uint32_t i = 0; i < count; i++)
        buf_put_str(out, lines[i]);
}

#define TRACE_SEPARATOR "-----------+-------------------------------------------------------\n"

static void put_trace(const struct report *r, const struct graph *g, struct buf *out, const struct prof_sample *s)
{
    const uint32_t *frames = prof_sample_frames(r->prof, s);
    const struct prof_labels *set = &r->prof->label_sets[s->labels];
    const int64_t *v = prof_sample_values(r->prof, s);
    int64_t value = v[r->o.value];
    bool first = true;

    if (!s->frames.n)
        return;
    if (r->o.mean && v[0])
        value = wrap_div(value, v[0]);
    buf_puts(out, TRACE_SEPARATOR);
    put_labels(r, out, r->prof->labels + set->off, set->n_str, false);
    put_labels(r, out, r->prof->labels + set->off + set->n_str, set->n_num, true);
    for (uint32_t i = 0; i < s->frames.n; i++) {
        uint32_t end = g->first_line[frames[i] + 1];

        for (uint32_t k = g->first_line[frames[i]]; k < end; k++) {
            if (first)
                report_column(r, out, value, 10);
            else
                buf_pad(out, ' ', 10);
            first = false;
            buf_puts(out, "   ");
            graph_put_name(g, out, &g->infos[g->line_infos[k]]);
            buf_puts(out, k + 1 < end ? " (inline)\n" : "\n");
        }
    }
}

int report_traces(struct report *r, struct buf *out)
{
    _cleanup_(graph_freep) struct graph *g = NULL;
    struct graph_options o = {.detail = r->o.detail, .value = r->o.value};
    int e = graph_new(r->prof, &o, false, &g);

    if (e < 0)
        return e;
    report_profile_labels(r, out);
    buf_putc(out, '\n');
    for (size_t i = 0; i < r->prof->n_samples; i++)
        put_trace(r, g, out, &r->prof->samples[i]);
    buf_puts(out, TRACE_SEPARATOR);
    return 0;
}
