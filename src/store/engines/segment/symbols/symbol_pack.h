/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Definitions of symbols (symbols.h) as the symbol file has them: kind by kind and column by column (column.h), which
 * takes half the room.
 *
 *   6 counts to start from: strings, mappings, functions, locations, services, series
 *   8 counts of what follows: those, names that came later, runs of nodes
 *   columns
 *     strings    length; bytes
 *     mappings   build id, kind of id, file name
 *     functions  name (against the last); system name; file (against the last); start line
 *     locations  mapping (against the last); address (against the last); kind, flags, n lines, attributes (string)
 *     lines      of locations, then of names: function (against the last); line, column
 *     services   name
 *     series     service, type, unit, rule, n, n x (name, value)
 *     names      location, n lines
 *     runs       service, first node, n nodes, location of the first
 *     nodes      node - parent; location against that of the run's first (zigzag): low byte; the rest
 */
#ifndef SEGMENT_SYMBOL_PACK_H
#define SEGMENT_SYMBOL_PACK_H

#include "store/engines/segment/symbols/symbols.h"

/* Packs definitions from *defs on, at most up to the next `start` that does not continue them; *defs is moved on. */
int symbols_pack(struct reader *defs, struct buf *out);
/* Adds what was packed. Damage is -EINVAL; what came before it stays. */
int symbols_unpack(struct symbols *s, const void *p, size_t n);

#endif
