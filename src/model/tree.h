/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree: what comes out of the store, and what is shown. Call paths from the root down; node 0 is the root and has
 * no frame. A child's index is always larger than its parent's, so one backward pass makes totals of selfs and one
 * forward pass pushes filters down, with no recursion.
 *
 * Values
 *   n_columns numbers per node (one for a flame graph, two for a diff: base and new), stored column by column. `self`
 *   is what the node itself has, `total` includes its children. tree_sum_up() fills totals.
 *
 * Folding (level of detail)
 *   A tree may be pruned to what a view can show. What was cut below a node is summed, exactly, into a child of it
 *   whose frame is TREE_FOLDED: its total is the cut subtrees' total, its `folded` the number of nodes cut. A view
 *   draws it as such and asks again, deeper, when somebody zooms in. A tree with no folded node is complete.
 *
 * Frames
 *   A frame is one line of a location: inlined calls are frames of their own, flagged. Frames are interned in the tree:
 *   equal (function, file, line, mapping, address) is one entry as far as the granularity asked for keeps them apart.
 *
 * A tree owns its memory (arena) and belongs to one thread.
 */
#ifndef MODEL_TREE_H
#define MODEL_TREE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "base/str.h"
#include "base/wrap.h"

#define TREE_NONE UINT32_MAX
#define TREE_FOLDED 0u /* frame 0 in every tree: "(folded)" */

enum frame_kind {
    FRAME_UNKNOWN,
    FRAME_NATIVE,
    FRAME_KERNEL,
    FRAME_GO,
    FRAME_RUST,
    FRAME_CPYTHON,
    FRAME_JVM,
    FRAME_V8JS,
    FRAME_PHP,
    FRAME_RUBY,
    FRAME_PERL,
    FRAME_DOTNET,
    FRAME_BEAM,
    FRAME_LUAJIT,
    FRAME_KINDS
};
/* OTel's word for it (profile.frame.type), and back; FRAME_UNKNOWN for others. */
const char *frame_kind_name(enum frame_kind k);
enum frame_kind frame_kind_parse(struct str s);

struct frame {
    struct str function; /* demangled name; empty when not symbolised */
    struct str system_name;
    struct str file;
    struct str mapping;  /* file name of the binary */
    struct str build_id; /* hex, or empty */
    struct str home;     /* of a frame that has a name: a binary that holds it, the first seen. A hint for pictures: two
                          * frames that differ in it alone are one */
    struct str
        unlined;      /* of a frame that has a name: the build id of a binary that holds it, whose lines are not known.
                          * Tells no frames apart either */
    uint64_t address; /* ELF address, 0 when granularity or kind has none */
    int64_t line, start_line;
    uint8_t kind; /* enum frame_kind */
    bool inlined;
};

/* The package of a function: net/http of net/http.(*conn).serve, com.shop of com.shop.Cart.add, std of std::sort, the
 * folder of a Python file, the library of a native function; empty when nothing tells. A part of the frame's strings. */
struct str frame_package(const struct frame *f);

struct tree {
    struct frame *frames;
    uint32_t *parent; /* per node; parent[0] = TREE_NONE */
    uint32_t *frame;  /* per node: index into frames; of node 0 unused */
    uint32_t *folded; /* per node: nodes cut below, only on TREE_FOLDED nodes; NULL when nothing was folded */
    int64_t *self[2], *total[2]; /* per column, per node */
    uint32_t n_nodes, n_frames, n_columns;
    uint32_t cap_nodes, cap_frames;
    struct str type, unit; /* canonical type and unit of the values (types.h) */
    int64_t covered_ns[2]; /* time that its profiles cover, per column; 0 = not known */
    struct arena arena;
    struct map node_map, frame_map;
};

int tree_new(uint32_t n_columns, size_t memory_limit, struct tree **ret);
void tree_free(struct tree *t);
DEFINE_CLEANUP(struct tree *, tree_free)

/* The frame equal to *f, added if new (strings are copied). TREE_NONE without memory. */
uint32_t tree_frame(struct tree *t, const struct frame *f);
/* The child of parent with this frame, added if new. TREE_NONE without memory. */
uint32_t tree_child(struct tree *t, uint32_t parent, uint32_t frame);
/* The same where the caller knows that there is none yet: no look-up. */
uint32_t tree_append(struct tree *t, uint32_t parent, uint32_t frame);
static inline void tree_add(struct tree *t, uint32_t node, uint32_t column, int64_t v)
{
    t->self[column][node] = wrap_add(t->self[column][node], v);
}
/* Counts `count` more nodes as cut into a TREE_FOLDED node. */
int tree_set_folded(struct tree *t, uint32_t node, uint32_t count);
/* Totals from selfs. */
void tree_sum_up(struct tree *t);

/* Adds src's column into dst's column node by node, by path; totals are summed up again. */
int tree_merge(struct tree *dst, uint32_t dst_column, const struct tree *src, uint32_t src_column);

/* The same without the totals, for merging many. */
int tree_merge_selfs(struct tree *dst, uint32_t dst_column, const struct tree *src, uint32_t src_column);

struct tree_prune {
    uint32_t max_nodes; /* keep at most this many nodes, the largest; 0 = all */
    double min_share;   /* and those with |total| >= min_share of the root's, in any column; 0 = all */
    uint32_t root;      /* only the subtree of this node (its path to the root stays); 0 = all */
    uint32_t max_depth; /* 0 = all */
};
/* A pruned copy with folded parts as exact sums. Children are ordered by function name then total. */
int tree_prune(const struct tree *src, const struct tree_prune *how, struct tree **ret);
/* The same, and branches with nothing in them are left out without a trace. */
int tree_prune_live(const struct tree *src, const struct tree_prune *how, struct tree **ret);

#endif
