/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges a service's sums into the answer: the heaviest nodes of its view (view.h) are merged into a tree, and what is
 * cut is summed exactly. This costs a few passes over the view's arrays; when only a few stacks have values, it visits
 * only their nodes.
 *
 * This works for one column of non-negative sums; the general algorithm is tree_prune_live().
 */
#ifndef SEGMENT_FOLD_H
#define SEGMENT_FOLD_H

#include "model/tree.h"
#include "store/engines/segment/read/view.h"

/* Reused for every service. All arrays are zero between uses up to `n_dirty`. */
struct fold {
    int64_t *self, *total; /* per node of the view */
    uint32_t *count;       /* nodes with a value, at and below */
    uint32_t *slot;        /* of a kept node: its index in `kept` + 1 */
    uint32_t cap, n_dirty;
    struct fold_kept {
        uint32_t node, to; /* in the view, in the answer */
        int64_t sum;       /* of its kept children */
        uint32_t count;
    } * kept;
    size_t cap_kept;
    uint32_t n_kept;
    uint64_t *weights;
    size_t cap_weights;
    uint32_t *frames; /* per frame of the view: the answer's + 1 */
    size_t cap_frames;
    uint32_t *list; /* nodes with values, ascending */
    size_t cap_list;
    uint32_t n_list;
};

/* The sums of one service. */
struct fold_sums {
    const int64_t *acc; /* per node, n of them */
    uint32_t n;
    uint32_t *touched; /* the only nodes that have values, possibly with duplicates, or NULL; it gets sorted */
    uint32_t n_touched;
};

void fold_done(struct fold *f);
/* Keeps at most max_nodes (0: all). Returns 1 when done, 0 when there are negative sums and
 * nothing was done, or -ENOMEM. */
int fold_into(struct fold *f, const struct sym_view *v, const struct fold_sums *sums, uint32_t max_nodes,
              struct tree *out);

#endif
