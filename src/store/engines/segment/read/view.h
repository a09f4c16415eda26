/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service's tree as a question wants it: locations are call sites and inlined calls, a view's nodes are frames at
 * one granularity. Kept per service and granularity and extended as the tree grows, so that a flame graph is adding
 * into an array, one pass that maps nodes to the view's, and one backward pass for totals. Built anew when names come for
 * its frames, and after it had to make room for others (lru.h).
 */
#ifndef SEGMENT_VIEW_H
#define SEGMENT_VIEW_H

#include "model/convert.h"
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
        const struct sym_lines *lines; /* as they were */
    } * unlined; /* locations that had no names or no lines when they came in, some more than once */
    size_t cap_unlined;
    uint32_t n_unlined;
    uint64_t generation; /* of names: those that came later are not of these locations, or it is built anew */
    /* where it is kept, and how it goes */
    struct sym_service *service;
    uint32_t index;
    struct lru_item item;
};

void view_free(struct lru *lru, struct sym_view *v);
/* The view brought up to at least n_nodes of the service's nodes, locked for reading until view_unlock(). */
int view_lock(struct symbols *s, struct sym_service *service, enum granularity by, bool no_inlines, uint32_t n_nodes,
              struct sym_view **ret);
void view_unlock(struct sym_service *service);
/* A frame of a location, as frames.h has it before reducing. Location without lines: line 0. */
void view_frame(const struct symbols *s, const struct sym_location *l, const struct sym_lines *lines, uint32_t line,
                struct frame *ret);
/* ret[node] = 1 where the node's stack holds the function; n nodes. */
int view_mark_function(const struct symbols *s, const struct sym_service *service, struct str function, uint8_t *ret,
                       uint32_t n);

#endif
