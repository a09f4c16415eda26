/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serialises a tree: JSON for users and scripts, a compact binary form for the web UI. (Grafana's format is in
 * flamebearer.h.)
 *
 * Binary form (application/vnd.wick.tree), little-endian, so that a browser reads it as typed arrays without parsing:
 *
 *   offset  size  what
 *        0     4  "WTR2"
 *        4     4  n_nodes
 *        8     4  n_frames
 *       12     4  n_columns (1 or 2)
 *       16     4  bytes of the text section
 *       20     4  flags: 1 = something is folded, 2 = some edges are five-minute ones, 4 = CPU time of a second
 *                 source is not counted, 8 = coverage and rate follow the text section, 16 = names of some functions are to come
 *       24     4  pieces that could not be read and are missing
 *       28     4  message about the first of them, offset into text; 0 = none
 *       32    4n  parent of each node (0xffffffff for the root), n = n_nodes
 *          +  4n  frame of each node
 *          +  8n  self, a double, per column
 *          +  8n  total, a double, per column
 *          +  4n  folded count (only when flag 1)
 *          +  4m  function, offset into text, m = n_frames; each text is NUL-terminated, offset 0 is ""
 *          +  4m  file
 *          +  4m  mapping: the binary of the frame, or one that contains it
 *          +  4m  package, as returned by frame_package()
 *          +  4m  line, or where the function starts when lines are not distinguished
 *          +  1m  kind (enum frame_kind), bit 7 = inlined
 *          +   t  text section: "" at offset 0, then type and unit
 *          + 8*5  (only when flag 8) doubles: covered nanoseconds of the first and the second column, the lowest, the
 *                 highest and the mean sampling rate in Hz (0 = not known)
 *   Every array starts at a multiple of 8.
 */
#ifndef QUERY_TREE_FORM_H
#define QUERY_TREE_FORM_H

#include "base/buf.h"
#include "model/tree.h"
#include "store/store.h"

struct query_leaks;

#define TREE_MEDIA_TYPE "application/vnd.wick.tree"

/* The members of the object, without its braces. */
void tree_put_fields(struct buf *out, bool *first, const struct tree *t);
/* As indented lines with shares, at most about max bytes. */
int tree_to_text(struct buf *out, const struct tree *t, size_t max);
/* Growing stacks, at most about max bytes. */
int leaks_to_text(struct buf *out, const struct query_leaks *l, size_t max);
int tree_to_binary(struct buf *out, const struct tree *t, const struct store_notes *notes); /* notes may be NULL */

#endif
