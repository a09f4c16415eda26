/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form in which the symbol file stores definitions of symbols (symbols.h): kind by kind and column by column
 * (column.h), which takes half the space.
 *
 *   6 counts to start from: strings, mappings, functions, locations, services, series
 *   8 counts of what follows: the same six, names added later, runs of nodes
 *   columns
 *     strings    length; bytes
 *     mappings   build id, kind of id, file name
 *     functions  name (relative to the previous); system name; file (relative to the previous); start line
 *     locations  mapping, address (each relative to the previous); kind, flags, n lines, attributes (string)
 *     lines      of locations, then of names: function (relative to the previous); line, column
 *     services   name
 *     series     service, type, unit, rule, n, n x (name, value)
 *     names      location, n lines
 *     runs       service, first node, n nodes, location of the first
 *     nodes      node - parent; location relative to that of the run's first (zigzag): low byte; the rest
 */
#ifndef SEGMENT_SYMBOL_PACK_H
#define SEGMENT_SYMBOL_PACK_H

#include "store/engines/segment/symbols/symbols.h"

/* Packs definitions from *defs on, at most up to the next `start` that does not continue them, and advances *defs. */
int symbols_pack(struct cursor *defs, struct buf *out);
/* Adds the packed definitions. Damage is -EINVAL; what was added before it stays. */
int symbols_unpack(struct symbols *s, const void *p, size_t n);

#endif
