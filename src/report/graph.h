/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile as a call graph: nodes (places in the program, as far as the granularity distinguishes them), edges, and
 * tags.
 *
 * Infos are made once per profile (graph_new): every line of every location maps to one info, equal infos are one. The
 * graph itself (values, edges) is then computed by walking the samples, and computed again after nodes were dropped
 * (`kept`), because what is left of a stack when nodes are removed can only be found from the samples: an edge that
 * jumps over dropped nodes is `residual`, and the flat value of a dropped leaf is lost.
 *
 * Arrays and indices throughout: no allocation per node or sample. In a call graph node i is info i; in a call tree
 * (one node per path) nodes name their info.
 */
#ifndef REPORT_GRAPH_H
#define REPORT_GRAPH_H

#include "base/map.h"
#include "base/wrap.h"
#include "report/prof.h"
#include "report/prof_filter.h"

#define GRAPH_NONE UINT32_MAX

/* Which parts of a frame the granularity keeps. */
struct graph_detail {
    bool inlines, function, filename, line, column, address;
};

struct graph_options {
    struct graph_detail detail;
    uint32_t value;    /* index of the sample type */
    bool mean;         /* divide by the first value */
    bool object_names; /* keep the binary of every node: list, disasm, callgrind */
    bool call_tree;    /* one node per path */
    bool drop_negative;
    struct str trim_path, source_path;
    /* tags: */
    const struct label_units *units;
    struct str output_unit;
};

struct graph_info {
    uint64_t address;
    int64_t line, column, start_line;
    uint32_t name, file, object; /* strings */
};

struct graph_node {
    int64_t flat, flat_div, cum, cum_div;
    uint32_t info, stamp;
};

struct graph_edge {
    uint32_t src, dst;
    int64_t weight, weight_div;
    uint32_t stamp;
    bool residual, inlined, dead;
};

/* A label (or a bucket of numeric ones) of a node's samples. */
struct graph_tag {
    uint32_t node;
    uint32_t labels; /* string: the text labels joined; of a numeric tag, those it came with; 0 = none */
    uint32_t name;   /* string; equal to `labels` for a text tag */
    uint32_t unit;   /* string, numeric tags */
    bool numeric;
    int64_t value, flat, flat_div, cum, cum_div;
};

struct graph {
    const struct prof *prof;
    struct graph_options o;

    struct graph_info *infos;
    size_t n_infos, cap_infos;
    uint32_t *first_line; /* per location: where its infos start in line_infos, one more at the end */
    uint32_t *line_infos;
    struct map info_map;
    uint32_t *files; /* per function: its file name trimmed and cleaned, GRAPH_NONE = not yet */

    struct graph_node *nodes;
    size_t n_nodes, cap_nodes;
    uint8_t *kept;   /* per node, NULL = all */
    uint32_t *order; /* the nodes that are shown, sorted */
    size_t n_order;

    struct graph_edge *edges;
    size_t n_edges, cap_edges;
    struct map edge_map;
    uint32_t *in_first, *in, *out_first, *out; /* edges of node i: in[in_first[i] .. in_first[i + 1]) */

    uint32_t *parent; /* call tree: per node, GRAPH_NONE for roots */
    struct map tree_map;

    struct graph_tag *tags; /* sorted by node once made */
    size_t n_tags, cap_tags;
    uint32_t *tag_first; /* per node */
    uint32_t stamp;
};

/* Infos, and the values of all nodes; edges only if requested (a call tree always has them), no tags yet. */
int graph_new(const struct prof *p, const struct graph_options *o, bool edges, struct graph **ret);
void graph_free(struct graph *g);
DEFINE_CLEANUP(struct graph *, graph_free)
/* Walks the samples again: values and edges with the nodes in `kept` only. Resets `order` to all nodes with a value. */
int graph_build(struct graph *g, bool edges);
/* The nodes of one sample, each once, into *nodes (which grows); returns how many. The leaf is GRAPH_NONE when it was
 * dropped. */
int graph_visit(struct graph *g, const struct prof_sample *s, uint32_t **nodes, size_t *cap, uint32_t *ret_leaf);
/* Text and numeric labels per node. */
int graph_build_tags(struct graph *g);

/* Keeps only nodes with |cum| >= cutoff; returns how many nodes of the order were removed. */
size_t graph_keep_above(struct graph *g, int64_t cutoff);
/* Keeps the first n of the order. */
int graph_keep_first(struct graph *g, size_t n);
/* Marks edges into shown nodes with |weight| < cutoff dead and returns their number. */
size_t graph_trim_edges(struct graph *g, int64_t cutoff);
void graph_trim_tags(struct graph *g, int64_t cutoff);
/* Removes residual edges whose end is reachable in another way. */
int graph_remove_redundant(struct graph *g);
/* Call tree: gives children of dropped nodes to the next kept ancestor. */
int graph_trim_tree(struct graph *g);

enum graph_sort { GRAPH_BY_FLAT, GRAPH_BY_CUM, GRAPH_BY_ENTROPY };
int graph_sort(struct graph *g, enum graph_sort by);
/* Fills ret (cap entries of room, at least the degree) with the live edges of a node, heaviest first. */
uint32_t graph_sorted_edges(const struct graph *g, uint32_t node, bool incoming, uint32_t *ret);
/* Sorts edge indices: |weight| down, then names. */
void graph_sort_edges(const struct graph *g, uint32_t *edges, size_t n);
/* How many tags of a node have a flat value. */
uint32_t graph_count_tags(const struct graph *g, uint32_t node);

/* "address name file:line:column", or the parts of it that are known. */
void graph_put_name(const struct graph *g, struct buf *out, const struct graph_info *i);
int graph_compare_names(const struct graph *g, const struct graph_info *a, const struct graph_info *b);

static inline const struct graph_info *graph_node_info(const struct graph *g, uint32_t node)
{
    return &g->infos[g->nodes[node].info];
}

static inline int64_t graph_flat(const struct graph_node *n)
{
    return n->flat_div ? wrap_div(n->flat, n->flat_div) : n->flat;
}

static inline int64_t graph_cum(const struct graph_node *n)
{
    return n->cum_div ? wrap_div(n->cum, n->cum_div) : n->cum;
}

static inline int64_t graph_weight(const struct graph_edge *e)
{
    return e->weight_div ? wrap_div(e->weight, e->weight_div) : e->weight;
}

#endif
