/* SPDX-License-Identifier: Apache-2.0 */
/*
 * -dot: the graph for graphviz. Boxes grow with their flat share and are coloured by their cumulative one; tags are
 * small boxes attached to their node ("nodelets"), numeric ones in at most four ranges. See report.h.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/printable.h"
#include "base/wrap.h"
#include "report/gopath.h"
#include "report/report.h"
#include "report/shorten.h"

enum { NODELETS = 4 };

struct dot {
    struct report *r;
    struct graph *g;
    struct buf *out;
    uint32_t *ids; /* per node, 0 = not shown */
    bool *has_nodelets;
    struct shortener shortener;
    struct arena arena;
    double max_flat;
};

/* True if graphviz reads the beginning of s as a character reference, such as "&lt;". */
static bool is_reference(struct str s)
{
    uint32_t i = 1;

    if (s.n < 2 || s.p[0] != '&')
        return false;
    if (s.p[i] == '#')
        i++;
    while (i < s.n && isalnum((unsigned char) s.p[i]))
        i++;
    return i < s.n && i > 1 && s.p[i] == ';';
}

/* Text inside of quotes, which shows what it says; `line_end` is the escape of a line's end: \l, or \n to centre the line. */
static void put_escaped(struct buf *out, struct str text, const char *line_end)
{
    _cleanup_(buf_done) struct buf printable = BUF_INIT;
    struct str s;

    printable_put(&printable, text, true);
    s = buf_str(&printable);
    for (uint32_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if (c == '\\' || c == '"')
            buf_putc(out, '\\');
        if (c == '\n')
            buf_puts(out, line_end);
        else
            buf_putc(out, c);
        if (is_reference(str_slice(s, i, s.n)))
            buf_puts(out, "amp;");
    }
}

static void put_quoted(struct buf *out, const char *before, struct str s)
{
    buf_puts(out, before);
    buf_putc(out, '"');
    put_escaped(out, s, " ");
    buf_putc(out, '"');
}

static uint8_t channel(double v)
{
    v *= 255.0;
    return v >= 0 && v < 256 ? (uint8_t) v : 0;
}

/*
 * The colour of a share: red for gains, green for losses, grey for none; light for backgrounds. The opposite channel is
 * darkened in proportion to the share to the power of 0.3, which makes small shares distinguishable, and blue is
 * darkened for all of them. Below a fifth, the colour fades to grey. Without a total the share is not a number, and
 * green is 0.
 */
static void put_color(struct buf *out, double share, bool background)
{
    static const struct {
        double lightness, saturation;
    } foreground_and_back[] = {{0.7, 1.0}, {0.93, 0.1}};
    double lightness = foreground_and_back[background].lightness;
    double strength = fabs(share) > 1 ? 1 : fabs(share);
    double taken = foreground_and_back[background].saturation * (strength < 0.2 ? strength / 0.2 : 1);
    double faded = lightness * (1 - taken * pow(strength, 0.3));
    bool loss = share < 0;

    buf_printf(out, "#%02x%02x%02x", channel(loss ? faded : lightness), channel(loss ? lightness : faded),
               channel(lightness * (1 - taken)));
}

static void put_legend(struct dot *d, const struct report_graph *rg)
{
    _cleanup_(buf_done) struct buf labels = BUF_INIT;
    struct str text, first;

    report_labels(d->r, rg, true, &labels);
    text = first = buf_str(&labels);
    buf_puts(d->out, "subgraph cluster_L { \"");
    put_escaped(d->out, str_cut(&first, '\n'), "\\l");
    buf_puts(d->out, "\" [shape=box fontsize=16 label=\"");
    put_escaped(d->out, text, "\\l");
    buf_puts(d->out, "\\l\"");
    if (d->r->o.title.n)
        put_quoted(d->out, " tooltip=", d->r->o.title);
    buf_puts(d->out, "] }\n");
}

/* The name on several lines: at "::" and ".", but not within "[...]". */
static void put_box_name(struct dot *d, const struct graph_info *i)
{
    _cleanup_(buf_done) struct buf name = BUF_INIT;
    struct str s;
    bool any = false;

    put_escaped(&name, shorten_name(&d->shortener, prof_str(d->g->prof, i->name), &d->arena), " ");
    s = buf_str(&name);
    if (i->address) {
        buf_printf(d->out, "%016llx", (unsigned long long) i->address);
        any = true;
    }
    if (s.n && any)
        buf_puts(d->out, "\\n");
    for (size_t k = 0; k < s.n; k++) {
        struct str rest = str_slice(s, k, s.n);

        any = true;
        if (str_starts(rest, STR("::"))) {
            buf_puts(d->out, "\\n");
            k++;
        } else if (str_starts(rest, STR("[...]"))) {
            buf_puts(d->out, "[\xe2\x80\xa6]");
            k += 4;
        } else if (s.p[k] == '.') {
            buf_puts(d->out, "\\n");
        } else {
            buf_putc(d->out, s.p[k]);
        }
    }
    if (i->line || i->file || !s.n) {
        struct str file = i->file ? gopath_base(prof_str(d->g->prof, i->file)) : STR("");

        if (any)
            buf_puts(d->out, "\\n");
        put_escaped(d->out, file, " ");
        if (i->line) {
            buf_printf(d->out, ":%lld", (long long) i->line);
            if (i->column)
                buf_printf(d->out, ":%lld", (long long) i->column);
        } else if (!i->file && i->object) {
            buf_putc(d->out, '[');
            put_escaped(d->out, gopath_base(prof_str(d->g->prof, i->object)), " ");
            buf_putc(d->out, ']');
        } else if (!i->file) {
            buf_puts(d->out, "<unknown>");
        }
    }
    buf_puts(d->out, "\\n");
}

static void put_share(struct dot *d, int64_t v)
{
    _cleanup_(buf_done) struct buf share = BUF_INIT;

    report_value(d->r, d->out, v);
    units_percentage(&share, v, d->r->total);
    buf_puts(d->out, " (");
    buf_put_str(d->out, str_trim(buf_str(&share)));
    buf_putc(d->out, ')');
}

static void put_node(struct dot *d, uint32_t node)
{
    const struct graph_node *n = &d->g->nodes[node];
    const struct graph_info *i = graph_node_info(d->g, node);
    int64_t flat = graph_flat(n), cum = graph_cum(n);
    double size = (double) wrap_abs(flat), score = (double) cum / (double) wrap_abs(d->r->total);
    _cleanup_(buf_done) struct buf name = BUF_INIT;
    int font = 8;

    buf_printf(d->out, "N%u [label=\"", d->ids[node]);
    put_box_name(d, i);
    if (flat)
        put_share(d, flat);
    else
        buf_putc(d->out, '0');
    if (cum != flat) {
        buf_puts(d->out, flat ? "\\nof " : " of ");
        put_share(d, cum);
    }
    if (d->max_flat != 0 && flat && size <= d->max_flat && size / d->max_flat >= 0)
        font += (int) ceil(16.0 * sqrt(size / d->max_flat));
    buf_printf(d->out, "\" id=\"node%u\" fontsize=%d shape=box tooltip=\"", d->ids[node], font);
    graph_put_name(d->g, &name, i);
    put_escaped(d->out, buf_str(&name), " ");
    buf_puts(d->out, " (");
    report_value(d->r, d->out, cum != flat ? cum : flat);
    buf_puts(d->out, ")\" color=\"");
    put_color(d->out, score, false);
    buf_puts(d->out, "\" fillcolor=\"");
    put_color(d->out, score, true);
    buf_puts(d->out, "\"]\n");
}

/* --- nodelets --- */

struct box {
    struct str name;
    uint32_t labels;
    int64_t value, flat, flat_div, cum, cum_div;
    struct str unit;
};

static int compare_by_cum(const void *a, const void *b)
{
    const struct box *x = a, *y = b;

    if (wrap_abs(x->cum) != wrap_abs(y->cum))
        return wrap_abs(x->cum) > wrap_abs(y->cum) ? -1 : 1;
    if (wrap_abs(x->flat) != wrap_abs(y->flat))
        return wrap_abs(x->flat) > wrap_abs(y->flat) ? -1 : 1;
    return str_cmp(x->name, y->name);
}

static int compare_by_flat(const void *a, const void *b)
{
    const struct box *x = a, *y = b;

    if (wrap_abs(x->flat) != wrap_abs(y->flat))
        return wrap_abs(x->flat) > wrap_abs(y->flat) ? -1 : 1;
    return str_cmp(x->name, y->name);
}

static void sort_boxes(struct box *b, size_t n, bool flat)
{
    if (n)
        qsort(b, n, sizeof(*b), flat ? compare_by_flat : compare_by_cum);
}

static int64_t box_flat(const struct box *b)
{
    return b->flat_div ? wrap_div(b->flat, b->flat_div) : b->flat;
}

static int64_t box_cum(const struct box *b)
{
    return b->cum_div ? wrap_div(b->cum, b->cum_div) : b->cum;
}

static double distance(const struct box *t, const struct box *u)
{
    struct str unit;

    return fabs((double) t->value - units_scale(u->value, u->unit, t->unit, &unit));
}

/* Widens the range [min, max] of a bucket by one more tag. */
static void widen(struct box *b, struct box *min, struct box *max, const struct box *t)
{
    struct str unit;

    if (wrap_int64(units_scale(t->value, t->unit, min->unit, &unit)) < min->value)
        *min = *t;
    if (wrap_int64(units_scale(t->value, t->unit, max->unit, &unit)) > max->value)
        *max = *t;
    wrap_inc(&b->flat, t->flat);
    wrap_inc(&b->flat_div, t->flat_div);
    wrap_inc(&b->cum, t->cum);
    wrap_inc(&b->cum_div, t->cum_div);
}

static struct str range_name(struct dot *d, const struct box *min, const struct box *max, bool single)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;

    units_label(&text, min->value, min->unit, STR("auto"));
    if (!single) {
        buf_puts(&text, "..");
        units_label(&text, max->value, max->unit, STR("auto"));
    }
    return arena_str(&d->arena, buf_str(&text));
}

/* More tags than fit: the heaviest four attract the others by distance. */
static size_t collapse(struct dot *d, struct box *b, size_t n, bool flat)
{
    struct box buckets[NODELETS], min[NODELETS], max[NODELETS];
    size_t size[NODELETS];

    sort_boxes(b, n, flat);
    if (n <= NODELETS)
        return n;
    for (size_t i = 0; i < NODELETS; i++) {
        buckets[i] = min[i] = max[i] = b[i];
        size[i] = 1;
    }
    for (size_t i = NODELETS; i < n; i++) {
        size_t best = 0;
        double dist = distance(&b[i], &b[0]);

        for (size_t k = 1; k < NODELETS; k++)
            if (distance(&b[i], &b[k]) < dist) {
                dist = distance(&b[i], &b[k]);
                best = k;
            }
        widen(&buckets[best], &min[best], &max[best], &b[i]);
        size[best]++;
    }
    for (size_t i = 0; i < NODELETS; i++)
        b[i] = (struct box){
            .name = range_name(d, &min[i], &max[i], size[i] == 1),
            .flat = box_flat(&buckets[i]),
            .cum = box_cum(&buckets[i]),
        };
    sort_boxes(b, NODELETS, flat);
    return NODELETS;
}

static void put_nodelet(struct dot *d, const char *source, struct str id, struct str name, int64_t w, const char *attr)
{
    _cleanup_(buf_done) struct buf weight = BUF_INIT;
    struct str v;

    report_value(d->r, &weight, w);
    v = buf_str(&weight);
    buf_printf(d->out, "%.*s [label = \"", STR_FMT(id));
    put_escaped(d->out, name, "\\n");
    buf_printf(d->out, "\" id=\"%.*s\" fontsize=8 shape=box3d tooltip=\"%.*s\"]\n", STR_FMT(id), STR_FMT(v));
    buf_printf(d->out, "%s -> %.*s [label=\" %.*s\" weight=100 tooltip=\"%.*s\" labeltooltip=\"%.*s\"%s]\n", source,
               STR_FMT(id), STR_FMT(v), STR_FMT(v), STR_FMT(v), attr);
}

/* The numeric tags that came with these text labels, as nodelets of `source`. */
static bool put_numeric(struct dot *d, struct box *b, size_t n, bool flat, const char *source)
{
    size_t shown = collapse(d, b, n, flat);
    bool any = false;

    for (size_t i = 0; i < shown; i++) {
        bool same = flat || box_flat(&b[i]) == box_cum(&b[i]);
        int64_t w = same ? box_flat(&b[i]) : box_cum(&b[i]);
        char id[64];
        int len = snprintf(id, sizeof(id), "N%s_%zu", source, i);

        if (!w)
            continue;
        put_nodelet(d, source, (struct str){id, (uint32_t) len}, b[i].name, w, same ? "" : " style=\"dotted\"");
        any = true;
    }
    return any;
}

static size_t collect(struct dot *d, uint32_t node, bool numeric, uint32_t labels, struct box *ret)
{
    const struct graph *g = d->g;
    size_t n = 0;

    for (uint32_t i = g->tag_first[node]; i < g->tag_first[node + 1]; i++) {
        const struct graph_tag *t = &g->tags[i];

        if (t->node == GRAPH_NONE || t->numeric != numeric || (numeric && t->labels != labels))
            continue;
        ret[n++] =
            (struct box){prof_str(g->prof, t->name), t->labels, t->value, t->flat, t->flat_div, t->cum, t->cum_div,
                         prof_str(g->prof, t->unit)};
    }
    return n;
}

static bool has_out(const struct graph *g, uint32_t node)
{
    for (uint32_t k = g->out_first[node]; k < g->out_first[node + 1]; k++)
        if (!g->edges[g->out[k]].dead)
            return true;
    return false;
}

static int put_nodelets(struct dot *d, uint32_t node)
{
    uint32_t n_tags = d->g->tag_first[node + 1] - d->g->tag_first[node];
    _cleanup_(mem_freep) struct box *text = mem_alloc((n_tags + 1) * sizeof(*text));
    _cleanup_(mem_freep) struct box *numeric = mem_alloc((n_tags + NODELETS) * sizeof(*numeric));
    bool flat = has_out(d->g, node), any = false;
    char id[32];
    size_t n;

    if (!text || !numeric)
        return -ENOMEM;
    n = collect(d, node, false, 0, text);
    sort_boxes(text, n, flat);
    for (size_t i = 0; i < n && i < NODELETS; i++) {
        int64_t w = flat ? box_flat(&text[i]) : box_cum(&text[i]);
        char source[32];
        int len = snprintf(id, sizeof(id), "N%u_%zu", d->ids[node], i);

        if (!w)
            continue;
        snprintf(source, sizeof(source), "N%u", d->ids[node]);
        put_nodelet(d, source, (struct str){id, (uint32_t) len}, text[i].name, w, "");
        any = true;
        put_numeric(d, numeric, collect(d, node, true, text[i].labels, numeric), flat, id);
    }
    snprintf(id, sizeof(id), "N%u", d->ids[node]);
    any |= put_numeric(d, numeric, collect(d, node, true, 0, numeric), flat, id);
    d->has_nodelets[node] = any;
    return 0;
}

/* --- edges --- */

/* 1 + |v * steps / total|, at most steps more. */
static int grade(int64_t v, int64_t total, int64_t steps)
{
    int64_t share = wrap_abs(wrap_div(wrap_mul(v, steps), total));

    return 1 + (int) MIN(share, steps);
}

static void put_edge(struct dot *d, const struct graph_edge *e)
{
    _cleanup_(buf_done) struct buf tip = BUF_INIT, name = BUF_INIT;
    int64_t w = graph_weight(e), total = d->r->total;

    buf_printf(d->out, "N%u -> N%u [label=\" ", d->ids[e->src], d->ids[e->dst]);
    report_value(d->r, d->out, w);
    buf_puts(d->out, e->inlined ? "\\n (inline)\"" : "\"");
    if (total) {
        int weight = grade(w, total, 100), width = grade(w, total, 5);

        if (weight > 1)
            buf_printf(d->out, " weight=%d", weight);
        if (width > 1)
            buf_printf(d->out, " penwidth=%d", width);
        buf_puts(d->out, " color=\"");
        put_color(d->out, (double) w / (double) wrap_abs(total), false);
        buf_putc(d->out, '"');
    }
    graph_put_name(d->g, &name, graph_node_info(d->g, e->src));
    put_escaped(&tip, buf_str(&name), " ");
    buf_puts(&tip, e->residual ? " ... " : " -> ");
    buf_reset(&name);
    graph_put_name(d->g, &name, graph_node_info(d->g, e->dst));
    put_escaped(&tip, buf_str(&name), " ");
    buf_puts(&tip, " (");
    report_value(d->r, &tip, w);
    buf_putc(&tip, ')');
    buf_printf(d->out, " tooltip=\"%.*s\"", STR_FMT(buf_str(&tip)));
    buf_printf(d->out, " labeltooltip=\"%.*s\"%s%s]\n", STR_FMT(buf_str(&tip)), e->residual ? " style=\"dotted\"" : "",
               d->has_nodelets[e->src] ? " minlen=2" : "");
}

static int put_edges(struct dot *d)
{
    _cleanup_(mem_freep) uint32_t *list = mem_alloc((d->g->n_edges + 1) * sizeof(*list));
    size_t n = 0;

    if (!list)
        return -ENOMEM;
    for (size_t i = 0; i < d->g->n_edges; i++)
        if (!d->g->edges[i].dead && d->ids[d->g->edges[i].src])
            list[n++] = (uint32_t) i;
    graph_sort_edges(d->g, list, n);
    for (size_t i = 0; i < n; i++)
        put_edge(d, &d->g->edges[list[i]]);
    return 0;
}

static int put_all(struct dot *d, const struct report_graph *rg)
{
    struct graph *g = d->g;
    int r = 0;

    d->ids = mem_zalloc_array(g->n_nodes + 1, sizeof(*d->ids));
    d->has_nodelets = mem_zalloc_array(g->n_nodes + 1, sizeof(*d->has_nodelets));
    if (!d->ids || !d->has_nodelets)
        return -ENOMEM;
    put_quoted(d->out, "digraph ", d->r->o.title.n ? d->r->o.title : STR("unnamed"));
    buf_puts(d->out, " {\nnode [style=filled fillcolor=\"#f8f8f8\"]\n");
    if (!d->r->o.part_of_page)
        put_legend(d, rg);
    for (size_t i = 0; i < g->n_order; i++) {
        d->ids[g->order[i]] = (uint32_t) i + 1;
        d->max_flat = fmax(d->max_flat, (double) wrap_abs(graph_flat(&g->nodes[g->order[i]])));
    }
    for (size_t i = 0; r >= 0 && i < g->n_order; i++) {
        put_node(d, g->order[i]);
        r = put_nodelets(d, g->order[i]);
    }
    if (r >= 0)
        r = put_edges(d);
    buf_puts(d->out, "}\n");
    return r;
}

int report_dot(struct report *r, struct buf *out)
{
    struct dot d = {.r = r, .out = out};
    struct report_graph rg;
    int e = report_graph(r, &rg);

    if (e < 0)
        return e;
    d.g = rg.g;
    report_select_unit(r, rg.g);
    arena_init(&d.arena, 0);
    e = shortener_init(&d.shortener);
    if (e >= 0)
        e = put_all(&d, &rg);
    shortener_done(&d.shortener);
    arena_done(&d.arena);
    mem_free(d.ids);
    mem_free(d.has_nodelets);
    graph_free(rg.g);
    return e;
}
