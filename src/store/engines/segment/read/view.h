/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service's tree at one granularity: the nodes of the service's tree are locations (call sites with inlined calls),
 * those of a view are frames. A view is kept per service and granularity and extended as the tree grows. So a flame
 * graph costs adding values to an array, one pass that maps nodes to the view's nodes, and one backward pass for
 * totals. A view is rebuilt when names arrive for its frames, and after it was dropped from the cache (lru.h).
 */
#ifndef SEGMENT_VIEW_H
#define SEGMENT_VIEW_H

#include "model/tree.h"
#include "store/engines/segment/read/lru.h"
#include "store/engines/segment/symbols/symbols.h"

struct sym_view {
    uint32_t *map; /* per node of the service: the view's node */
    size_t cap_map;
    uint32_t n_mapped;
    uint32_t *parent, *frame;
    size_t cap_nodes, cap_nodes2;
    uint32_t n_nodes;
    struct frame *frames; /* strings are the symbols' */
    size_t cap_frames;
    uint32_t n_frames;
    struct map child_map, frame_map;
    struct view_unlined {
        uint32_t location;
        const struct sym_lines *lines; /* as they were when added */
    } * unlined;                       /* locations without names or lines when added, with duplicates */
    size_t cap_unlined;
    uint32_t n_unlined;
    uint64_t generation; /* of names: later names do not concern these locations, or the view is rebuilt */
    /* where it is cached, and how it is dropped */
    struct sym_service *service;
    uint32_t index;
    struct lru_item item;
};

void view_free(struct lru *lru, struct sym_view *v);
/* Extends the view to at least n_nodes of the service's nodes, and locks it for reading until view_unlock(). */
int view_lock(struct symbols *s, struct sym_service *service, enum granularity by, bool no_inlines, uint32_t n_nodes,
              struct sym_view **ret);
void view_unlock(struct sym_service *service);
/* Returns a frame of a location, before it is reduced (frames.h). A location without lines has one frame, line 0. */
void view_frame(const struct symbols *s, const struct sym_location *l, const struct sym_lines *lines, uint32_t line,
                struct frame *ret);
/* Sets ret[node] = 1 where the node's stack contains the function; n nodes. */
int view_mark_function(const struct symbols *s, const struct sym_service *service, struct str function, uint8_t *ret,
                       uint32_t n);

#endif
