/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by all engines when they answer queries: which parts of a frame a granularity keeps, and filters over a
 * finished tree.
 *
 *   BY_FUNCTION      function, kind            a frame without a name is represented by its binary
 *   BY_FILEFUNCTION  + file, start line of functions of scripts; of compiled ones as a hint (frame_is_of_script())
 *   BY_FILE          file, kind
 *   BY_LINE          function, file, line, kind
 *   BY_ADDRESS       everything
 *
 * A frame with a name also keeps its binary's as `home`, and as `unlined` the build id of that binary when its line is
 * not known; neither distinguishes frames (tree.h).
 */
#ifndef STORE_FRAMES_H
#define STORE_FRAMES_H

#include "model/batch.h"
#include "model/tree.h"
#include "store/store.h"

void frame_reduce(struct frame *f, enum granularity by);
/* Returns line `line` of a batch's location as a frame; a location without lines has one frame, line 0. */
void frame_of_location(const struct batch *b, uint32_t location, uint32_t line, struct frame *ret);

/* focus, ignore and hide of a query, compiled; NULL = none. */
struct frame_filter {
    struct regex *focus, *ignore, *hide;
};
int frame_filter_init(struct frame_filter *f, const struct store_query *q, struct err *e);
void frame_filter_done(struct frame_filter *f);
bool frame_matches(const struct frame *f, const struct regex *re);
/* Applies focus, ignore, hide and zoom of q to a whole tree, then prunes it. Consumes t. */
int frames_finish_tree(struct tree *t, const struct store_query *q, struct tree **ret, struct err *e);
/* Returns the node reached by q's zoom, or TREE_NONE. */
uint32_t frames_find_zoom(const struct tree *t, const struct store_query *q);

#endif
