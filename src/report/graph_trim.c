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

/* Can the edge's source reach its end without it? Breadth first, backwards. */
static bool is_redundant(const struct graph *g, uint32_t edge, uint32_t *queue, uint32_t *seen, uint32_t stamp)
{
    const struct graph_edge *e = &g->edges[edge];
    size_t head = 0, tail = 0;

    queue[tail++] = e->dst;
    seen[e->dst] = stamp;
    while (head < tail) {
        uint32_t n = queue[head++];

        for (uint32_t k = g->in_first[n]; k < g->in_first[n + 1]; k++) {
            const struct graph_edge *i = &g->edges[g->in[k]];

            if (i->dead || g->in[k] == edge || seen[i->src] == stamp)
                continue;
            if (i->src == e->src)
                return true;
            seen[i->src] = stamp;
            queue[tail++] = i->src;
        }
    }
    return false;
}

int graph_remove_redundant(struct graph *g)
{
    _cleanup_(mem_freep) uint32_t *queue = mem_alloc((g->n_nodes + 1) * sizeof(*queue));
    _cleanup_(mem_freep) uint32_t *seen = mem_zalloc_array(g->n_nodes + 1, sizeof(*seen));
    _cleanup_(mem_freep) uint32_t *in = mem_alloc((g->n_edges + 1) * sizeof(*in));
    uint32_t stamp = 0;

    if (!queue || !seen || !in)
        return -ENOMEM;
    /* Backwards, so that the lightest go first. */
    for (size_t i = g->n_order; i-- > 0;) {
        uint32_t n = graph_sorted_edges(g, g->order[i], true, in);

        while (n-- > 0) {
            struct graph_edge *e = &g->edges[in[n]];

            if (!e->residual)
                break; /* no residual edge heavier than a real one is removed: that would be confusing */
            if (is_redundant(g, in[n], queue, seen, ++stamp))
                e->dead = true;
        }
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
