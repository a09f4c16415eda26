/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree: what queries return and views show. It holds call paths from the root down; node 0 is the root and has no
 * frame. A child's index is always larger than its parent's, so one backward pass computes totals from self values and
 * one forward pass pushes filters down, without recursion.
 *
 * Values
 *   n_columns numbers per node (one for a flame graph, two for a diff: base and new), stored column by column. `self`
 *   is the node's own value, `total` includes its children. tree_sum_up() fills totals.
 *
 * Folding (level of detail)
 *   A tree may be pruned to what a view can show. What was cut below a node is summed, exactly, into a child of it
 *   whose frame is TREE_FOLDED: its total is the cut subtrees' total, its `folded` the number of nodes cut. A view
 *   draws it as such and queries that subtree again when the user zooms in. A tree with no folded node is complete.
 *
 * Frames
 *   A frame is one line of a location: inlined calls are frames of their own, flagged. Frames are interned in the tree:
 *   frames with equal (function, file, line, mapping, address) are one entry, as far as the requested granularity
 *   distinguishes them.
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
/* The OpenTelemetry name (profile.frame.type), and the reverse; FRAME_UNKNOWN for other names. */
extern const char *const frame_kind_names[FRAME_KINDS + 1]; /* NULL at the end */
const char *frame_kind_name(enum frame_kind k);
enum frame_kind frame_kind_parse(struct str s);

/* Which parts of a frame distinguish it from others. */
enum granularity { BY_FUNCTION, BY_FILEFUNCTION, BY_FILE, BY_LINE, BY_ADDRESS };

struct frame {
    struct str function; /* demangled name; empty when not symbolised */
    struct str system_name;
    struct str file;
    struct str mapping;  /* file name of the binary */
    struct str build_id; /* hex, or empty */
    struct str home;     /* of a named frame: a binary that contains it, the first seen; a hint, not compared */
    struct str unlined;  /* of a named frame: build ID of a binary with it whose lines are unknown; not compared */
    struct str in_file;  /* where file does not distinguish frames: the only file that is known; a hint, not compared */
    uint64_t address;    /* ELF address, 0 when the granularity or kind has none */
    int64_t line, start_line;
    int64_t in_line; /* where the function starts in in_file */
    uint8_t kind;    /* enum frame_kind */
    bool inlined;
    bool in_files; /* several files are known: in_file is empty */
};

/* True for languages whose functions have short names, as Python's __init__: their file is a part of what they are. A
 * compiled function is its name, whatever is known about its file: lines arrive later, for some addresses before others, and a
 * file has another path in every folder that it was built in. pprof files have no kinds: there the name of the file tells. */
bool frame_is_of_script(const struct frame *f);

static inline struct str frame_file(const struct frame *f)
{
    return f->file.n ? f->file : f->in_file;
}

/* Adds what another frame knows about the file of the same function. Its string is not copied. */
void frame_add_file(struct frame *f, const struct frame *other);

/* The package of a function: net/http of net/http.(*conn).serve, com.shop of com.shop.Cart.add, std of std::sort, the
 * folder of a Python file, the library of a native function; empty when unknown. A slice of the frame's strings. */
struct str frame_package(const struct frame *f);

/* A frame of user space whose binary is known and whose function is not. */
static inline bool tree_frame_nameless(const struct frame *f)
{
    return !f->function.n && !f->file.n && f->build_id.n && f->kind != FRAME_KERNEL;
}

struct tree {
    struct frame *frames;
    uint32_t *parent; /* per node; parent[0] = TREE_NONE */
    uint32_t *frame;  /* per node: index into frames; unused for node 0 */
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

/* Finds the frame equal to *f, or adds it (strings are copied). TREE_NONE when memory runs out. */
uint32_t tree_frame(struct tree *t, const struct frame *f);
/* Finds the child of parent with this frame, or adds it. TREE_NONE when memory runs out. */
uint32_t tree_child(struct tree *t, uint32_t parent, uint32_t frame);
/* The same without a lookup, where the caller knows that there is no such child yet. */
uint32_t tree_append(struct tree *t, uint32_t parent, uint32_t frame);
static inline void tree_add(struct tree *t, uint32_t node, uint32_t column, int64_t v)
{
    t->self[column][node] = wrap_add(t->self[column][node], v);
}
/* Adds `count` to the number of nodes that were cut into a TREE_FOLDED node. */
int tree_set_folded(struct tree *t, uint32_t node, uint32_t count);
/* Computes totals from self values. */
void tree_sum_up(struct tree *t);

/* Adds src's column to dst's column, matching nodes by path, and recomputes totals. How many nodes were folded comes with
 * column 0. */
int tree_merge(struct tree *dst, uint32_t dst_column, const struct tree *src, uint32_t src_column);

/* The same without the totals, for merging many. */
int tree_merge_selfs(struct tree *dst, uint32_t dst_column, const struct tree *src, uint32_t src_column);

struct tree_prune {
    uint32_t max_nodes; /* keep at most this many nodes, the largest; 0 = all */
    double min_share;   /* and only those with |total| >= min_share of the root's, in any column; 0 = all */
    uint32_t root;      /* only the subtree of this node (its path to the root stays); 0 = all */
    uint32_t max_depth; /* 0 = all */
};
/* Makes a pruned copy with folded parts as exact sums. Children are ordered by function name, then total. */
int tree_prune(const struct tree *src, const struct tree_prune *how, struct tree **ret);
/* The same, but branches without values are dropped and not counted as folded. */
int tree_prune_live(const struct tree *src, const struct tree_prune *how, struct tree **ret);

#endif
