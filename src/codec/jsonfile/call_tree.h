/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The samples of a profile as a tree of calls, for formats that store one: a node is a frame below its parent. Node 0 is
 * the root, which is not a frame; parents come before their children.
 */
#ifndef CODEC_CALL_TREE_H
#define CODEC_CALL_TREE_H

#include "base/map.h"
#include "model/batch.h"

struct call_tree_node {
    uint32_t parent;
    uint32_t location, line; /* the frame: of the dictionary, and which of the location's lines */
};

struct call_tree {
    struct call_tree_node *nodes;
    size_t n, cap;
    struct map map;
    uint32_t *leaves; /* of each sample of the profile */
};

/* Builds the tree of all samples of p; done by call_tree_done(), on failure too. */
int call_tree_build(const struct batch *b, const struct profile *p, struct call_tree *ret);
void call_tree_done(struct call_tree *t);

#endif
