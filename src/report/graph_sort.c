/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders of nodes and edges, and names. Names are compared piece by piece without building strings; where pprof's own
 * order is not deterministic (two nodes with the same text) ours compares the whole info, so that reports are always
 * the same.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/wrap.h"
#include "report/gopath.h"
#include "report/graph.h"

enum { PIECES_MAX = 12 };

struct name_pieces {
    struct str v[PIECES_MAX];
    uint32_t n;
    char address[17], line[24], column[24];
};

static void piece(struct name_pieces *p, struct str s)
{
    p->v[p->n++] = s;
}

static struct str number(char *out, int64_t v)
{
    char *end = out + 23, *at = end;
    uint64_t u = v < 0 ? 0 - (uint64_t) v : (uint64_t) v;

    do
        *--at = (char) ('0' + u % 10);
    while (u /= 10);
    if (v < 0)
        *--at = '-';
    return (struct str){at, (uint32_t) (end - at)};
}

static void put_address(struct name_pieces *p, uint64_t v)
{
    v = htobe64(v);
    hex_write(p->address, &v, sizeof v);
    piece(p, (struct str){p->address, 16});
}

static void make_pieces(const struct graph *g, const struct graph_info *i, struct name_pieces *p)
{
    p->n = 0;
    if (i->address)
        put_address(p, i->address);
    if (i->name) {
        if (p->n)
            piece(p, STR(" "));
        piece(p, prof_str(g->prof, i->name));
    }
    if (!i->line && !i->file && i->name)
        return;
    if (p->n)
        piece(p, STR(" "));
    if (i->line) {
        piece(p, prof_str(g->prof, i->file));
        piece(p, STR(":"));
        piece(p, number(p->line, i->line));
        if (i->column) {
            piece(p, STR(":"));
            piece(p, number(p->column, i->column));
        }
    } else if (i->file) {
        piece(p, prof_str(g->prof, i->file));
    } else if (i->object) {
        piece(p, STR("["));
        piece(p, gopath_base(prof_str(g->prof, i->object)));
        piece(p, STR("]"));
    } else {
        piece(p, STR("<unknown>"));
    }
}

void graph_put_name(const struct graph *g, struct buf *out, const struct graph_info *i)
{
    struct name_pieces p;

    make_pieces(g, i, &p);
    for (uint32_t k = 0; k < p.n; k++)
        printable_put(out, p.v[k], false);
}

static int compare_pieces(const struct name_pieces *a, const struct name_pieces *b)
{
    uint32_t i = 0, k = 0;
    size_t x = 0, y = 0;

    for (;;) {
        size_t n;
        int c;

        for (; i < a->n && x == a->v[i].n; i++)
            x = 0;
        for (; k < b->n && y == b->v[k].n; k++)
            y = 0;
        if (i == a->n || k == b->n)
            return (i < a->n) - (k < b->n);
        n = MIN(a->v[i].n - x, b->v[k].n - y);
        c = memcmp(a->v[i].p + x, b->v[k].p + y, n);
        if (c)
            return c;
        x += n;
        y += n;
    }
}

int graph_compare_names(const struct graph *g, const struct graph_info *a, const struct graph_info *b)
{
    struct name_pieces x, y;

    if (a == b)
        return 0;
    if (!(a->address | b->address | (uint64_t) a->line | (uint64_t) b->line | a->file | b->file) && a->name && b->name)
        return a->name == b->name ? 0 : str_cmp(prof_str(g->prof, a->name), prof_str(g->prof, b->name));
    if (a->address && b->address && a->address != b->address)
        return a->address < b->address ? -1 : 1;
    make_pieces(g, a, &x);
    make_pieces(g, b, &y);
    return compare_pieces(&x, &y);
}

/* As Go prints the struct: {name  address file start line column object}. */
static void put_info(const struct graph *g, struct buf *out, const struct graph_info *i)
{
    buf_printf(out, "{%.*s  %llu %.*s %lld %lld %lld %.*s}", STR_FMT(prof_str(g->prof, i->name)),
               (unsigned long long) i->address, STR_FMT(prof_str(g->prof, i->file)), (long long) i->start_line,
               (long long) i->line, (long long) i->column, STR_FMT(prof_str(g->prof, i->object)));
}

static int compare_infos(const struct graph *g, const struct graph_info *a, const struct graph_info *b)
{
    _cleanup_(buf_done) struct buf x = BUF_INIT, y = BUF_INIT;

    if (a == b)
        return 0;
    put_info(g, &x, a);
    put_info(g, &y, b);
    return str_cmp(buf_str(&x), buf_str(&y));
}

/* --- nodes --- */

struct sorter {
    const struct graph *g;
    const int64_t *score; /* per node */
    bool flat_first;
};

static int compare_numbers(int64_t a, int64_t b)
{
    a = wrap_abs(a);
    b = wrap_abs(b);
    return a > b ? -1 : a < b;
}

static int compare_nodes(const void *a, const void *b, void *arg)
{
    const struct sorter *s = arg;
    uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;
    const struct graph_node *l = &s->g->nodes[x], *r = &s->g->nodes[y];
    const struct graph_info *li = &s->g->infos[l->info], *ri = &s->g->infos[r->info];
    int c = s->flat_first ? compare_numbers(l->flat, r->flat) : compare_numbers(s->score[x], s->score[y]);

    if (!c)
        c = graph_compare_names(s->g, li, ri);
    if (!c)
        c = s->flat_first ? compare_numbers(l->cum, r->cum) : compare_numbers(l->flat, r->flat);
    if (!c)
        c = compare_infos(s->g, li, ri);
    return c ? c : x < y ? -1 : x > y;
}

/* log2 computed from log, as in Go: entropies decide which nodes a graph shows. */
static double go_log2(double x)
{
    int exp;
    double frac = frexp(x, &exp);

    if (frac == 0.5)
        return exp - 1;
    return log(frac) * (1 / M_LN2) + exp;
}

/* One term of Shannon's sum: the surprise of a part, weighted by how often it comes. */
static double information(int64_t part, int64_t whole)
{
    double p = (double) part / (double) whole;

    return p * go_log2(p);
}

/* Half of a node's score: the entropy of its edges on one side, list[from, to), with its own value `self` as one more of
 * them. A side without edges counts 1, so that entries and leaves are favoured. */
static double side_entropy(const struct graph *g, const uint32_t *list, uint32_t from, uint32_t to, int64_t self)
{
    int64_t whole = self;
    uint32_t live = 0;
    double sum = 0;

    for (uint32_t k = from; k < to; k++) {
        const struct graph_edge *e = &g->edges[list[k]];

        live += !e->dead;
        wrap_inc(&whole, e->dead || e->weight < 0 ? 0 : e->weight);
    }
    if (!live || !whole)
        return live ? 0 : 1;
    for (uint32_t k = from; k < to; k++)
        if (!g->edges[list[k]].dead)
            sum -= information(wrap_abs(g->edges[list[k]].weight), whole);
    return self > 0 ? sum - information(self, whole) : sum;
}

static int64_t entropy(const struct graph *g, uint32_t node)
{
    const struct graph_node *n = &g->nodes[node];
    double callers = side_entropy(g, g->in, g->in_first[node], g->in_first[node + 1], 0);
    double callees = side_entropy(g, g->out, g->out_first[node], g->out_first[node + 1], n->flat);

    return wrap_add(wrap_int64((callers + callees) * (double) n->cum), n->flat);
}

int graph_sort(struct graph *g, enum graph_sort by)
{
    _cleanup_(mem_freep) int64_t *score = NULL;
    struct sorter s = {.g = g, .flat_first = by == GRAPH_BY_FLAT};

    if (!s.flat_first) {
        score = mem_alloc((g->n_nodes + 1) * sizeof(*score));
        if (!score)
            return -ENOMEM;
        for (size_t i = 0; i < g->n_order; i++)
            score[g->order[i]] = by == GRAPH_BY_CUM ? g->nodes[g->order[i]].cum : entropy(g, g->order[i]);
        s.score = score;
    }
    qsort_r(g->order, g->n_order, sizeof(*g->order), compare_nodes, &s);
    return 0;
}

/* --- edges --- */

static int compare_edges(const void *a, const void *b, void *arg)
{
    const struct graph *g = arg;
    const struct graph_edge *x = &g->edges[*(const uint32_t *) a], *y = &g->edges[*(const uint32_t *) b];
    int c = compare_numbers(x->weight, y->weight);

    if (!c && x->src != y->src)
        c = graph_compare_names(g, graph_node_info(g, x->src), graph_node_info(g, y->src));
    if (!c && x->dst != y->dst)
        c = graph_compare_names(g, graph_node_info(g, x->dst), graph_node_info(g, y->dst));
    if (!c)
        c = (x->weight < y->weight) - (x->weight > y->weight);
    if (!c)
        c = x->src != y->src ? (x->src < y->src ? -1 : 1) : x->dst < y->dst ? -1 : x->dst > y->dst;
    return c;
}

void graph_sort_edges(const struct graph *g, uint32_t *edges, size_t n)
{
    qsort_r(edges, n, sizeof(*edges), compare_edges, (void *) g);
}

uint32_t graph_sorted_edges(const struct graph *g, uint32_t node, bool incoming, uint32_t *ret)
{
    const uint32_t *first = incoming ? g->in_first : g->out_first, *list = incoming ? g->in : g->out;
    uint32_t n = 0;

    for (uint32_t k = first[node]; k < first[node + 1]; k++)
        if (!g->edges[list[k]].dead)
            ret[n++] = list[k];
    graph_sort_edges(g, ret, n);
    return n;
}
