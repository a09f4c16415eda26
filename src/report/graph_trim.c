/* SPDX-License-Identifier: Apache-2.0 */
/* Removes what a report does not show: nodes, edges and tags below a cutoff, redundant edges. See graph.h. */
#include <errno.h>

#include "base/mem.h"
#include "report/graph.h"

static bool make_kept(struct graph *g)
{
    if (!g->kept) {
        g->kept = mem_alloc(g->n_nodes + 1);
        if (!g->kept)
            return false;
    }
    memset(g->kept, 0, g->n_nodes);
    return true;
}

size_t graph_keep_above(struct graph *g, int64_t cutoff)
{
    size_t dropped = 0;

    for (size_t i = 0; i < g->n_order; i++)
        dropped += wrap_abs(g->nodes[g->order[i]].cum) < cutoff;
    if (!dropped || !make_kept(g))
        return 0;
    for (size_t i = 0; i < g->n_order; i++)
        g->kept[g->order[i]] = wrap_abs(g->nodes[g->order[i]].cum) >= cutoff;
    return dropped;
}

int graph_keep_first(struct graph *g, size_t n)
{
    if (!make_kept(g))
        return -ENOMEM;
    for (size_t i = 0; i < g->n_order && i < n; i++)
        g->kept[g->order[i]] = 1;
    return 0;
}

size_t graph_trim_edges(struct graph *g, int64_t cutoff)
{
    size_t dropped = 0;

    for (size_t i = 0; i < g->n_order; i++)
        for (uint32_t k = g->in_first[g->order[i]]; k < g->in_first[g->order[i] + 1]; k++) {
            struct graph_edge *e = &g->edges[g->in[k]];

            if (!e->dead && wrap_abs(e->weight) < cutoff) {
                e->dead = true;
                dropped++;
            }
        }
    return dropped;
}

void graph_trim_tags(struct graph *g, int64_t cutoff)
{
    for (size_t i = 0; g->tag_first && i < g->n_order; i++)
        for (uint32_t k = g->tag_first[g->order[i]]; k < g->tag_first[g->order[i] + 1]; k++) {
            struct graph_tag *t = &g->tags[k];

            if (wrap_abs(t->flat) < cutoff && wrap_abs(t->cum) < cutoff)
                t->node = GRAPH_NONE; /* removed; the lists keep their positions */
        }
}

/* A search for another way to the end of an edge, from that end back. */
struct detour {
    const struct graph *g;
    uint32_t *todo; /* a stack of nodes whose callers are still to be looked at */
    size_t n_todo;
    uint32_t *reached; /* per node: the number of the last search that came by */
    uint32_t search;
};

/* Puts the callers of `node` on the stack, without the one that `edge`, which may not be used, leads from. */
static void push_callers(struct detour *d, uint32_t node, const struct graph_edge *edge)
{
    for (uint32_t k = d->g->in_first[node]; k < d->g->in_first[node + 1]; k++) {
        const struct graph_edge *in = &d->g->edges[d->g->in[k]];

        if (in != edge && !in->dead && d->reached[in->src] != d->search) {
            d->reached[in->src] = d->search;
            d->todo[d->n_todo++] = in->src;
        }
    }
}

static bool has_detour(struct detour *d, const struct graph_edge *edge)
{
    d->search++;
    d->n_todo = 0;
    d->reached[edge->dst] = d->search;
    push_callers(d, edge->dst, edge);
    while (d->n_todo && d->reached[edge->src] != d->search)
        push_callers(d, d->todo[--d->n_todo], edge);
    return edge->src != edge->dst && d->reached[edge->src] == d->search;
}

int graph_remove_redundant(struct graph *g)
{
    _cleanup_(mem_freep) uint32_t *todo = mem_alloc((g->n_nodes + 1) * sizeof(*todo));
    _cleanup_(mem_freep) uint32_t *reached = mem_zalloc_array(g->n_nodes + 1, sizeof(*reached));
    _cleanup_(mem_freep) uint32_t *in = mem_alloc((g->n_edges + 1) * sizeof(*in));
    struct detour d = {.g = g, .todo = todo, .reached = reached};

    if (!todo || !reached || !in)
        return -ENOMEM;
    for (size_t i = g->n_order; i > 0; i--) {
        uint32_t n = graph_sorted_edges(g, g->order[i - 1], true, in), real = n;

        /* Only residual edges that are lighter than every real one are removed, the lightest first. */
        while (real > 0 && g->edges[in[real - 1]].residual)
            real--;
        for (uint32_t k = n; k > real; k--)
            g->edges[in[k - 1]].dead = has_detour(&d, &g->edges[in[k - 1]]);
    }
    return 0;
}

/* The in-edge of a tree node, or GRAPH_NONE. */
static uint32_t tree_edge(const struct graph *g, uint32_t node)
{
    for (uint32_t k = g->in_first[node]; k < g->in_first[node + 1]; k++)
        if (!g->edges[g->in[k]].dead)
            return g->in[k];
    return GRAPH_NONE;
}

static int relist_out(struct graph *g)
{
    uint32_t *first = g->out_first;

    memset(first, 0, (g->n_nodes + 2) * sizeof(*first));
    for (size_t i = 0; i < g->n_edges; i++)
        first[g->edges[i].src + 2]++;
    for (size_t i = 2; i < g->n_nodes + 2; i++)
        first[i] += first[i - 1];
    for (size_t i = 0; i < g->n_edges; i++)
        g->out[first[g->edges[i].src + 1]++] = (uint32_t) i;
    return 0;
}

int graph_trim_tree(struct graph *g)
{
    _cleanup_(mem_freep) uint8_t *dropped = mem_zalloc(g->n_nodes + 1);
    size_t n = 0;

    if (!dropped)
        return -ENOMEM;
    for (size_t i = 0; i < g->n_order; i++)
        dropped[g->order[i]] = !g->kept[g->order[i]];
    /* Parents come before their children, so the source of a node's edge is final when its children use it. */
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        uint32_t in = tree_edge(g, i), up;
        struct graph_edge *e;

        if (in == GRAPH_NONE || !dropped[g->edges[in].src])
            continue;
        e = &g->edges[in];
        up = tree_edge(g, e->src);
        if (up == GRAPH_NONE) {
            e->dead = true;
            continue;
        }
        e->src = g->edges[up].src;
        e->residual = true;
        e->inlined &= g->edges[up].inlined;
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        uint32_t in = dropped[i] ? tree_edge(g, i) : GRAPH_NONE;

        if (in != GRAPH_NONE)
            g->edges[in].dead = true;
    }
    for (size_t i = 0; i < g->n_order; i++)
        if (g->kept[g->order[i]])
            g->order[n++] = g->order[i];
    g->n_order = n;
    return relist_out(g);
}
