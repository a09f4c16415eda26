/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by symbols.c, symbols_apply.c and symbols_tree.c: adds one item without looking for an equal one. */
#ifndef SEGMENT_SYMBOLS_ADD_H
#define SEGMENT_SYMBOLS_ADD_H

#include "store/engines/segment/symbols/symbols.h"

enum {
    DEF_STRING = 1,
    DEF_MAPPING,
    DEF_FUNCTION,
    DEF_LOCATION,
    DEF_NAMES,
    DEF_SERVICE,
    DEF_SERIES,
    DEF_NODES,
    DEF_START
};

enum { VARINT_MAX = 10 }; /* bytes */

/* Each returns UINT32_MAX when memory runs out. */
uint32_t sym_add_string(struct symbols *s, struct str v);
uint32_t sym_add_mapping(struct symbols *s, const struct sym_mapping *m);
uint32_t sym_add_function(struct symbols *s, const struct sym_function *f);
uint32_t sym_add_location(struct symbols *s, const struct sym_location *l, const struct sym_line *lines, uint32_t n);
uint32_t sym_add_service(struct symbols *s, uint32_t name);
/* strings: type, unit, then name and value of each label. */
uint32_t sym_add_series(struct symbols *s, uint32_t service, const uint32_t *strings, enum type_rule rule,
                        uint32_t n_labels);
/* Adds placeholders up to these counts (strings, mappings, functions, locations, services, series), or up to this node,
 * for lost items. */
int sym_fill_gaps(struct symbols *s, const uint32_t counts[6]);
int sym_fill_nodes(struct sym_service *v, uint32_t first);
int sym_memo_tables(struct sym_memo *m);
uint32_t sym_add_node(struct sym_service *v, uint32_t parent, uint32_t location);

/* Reserves room for a definition of at most n bytes before its item is added: an addition that succeeds has written its
 * definition, and one that fails has written nothing. */
static inline bool sym_room(struct symbols *s, size_t n)
{
    if (s->replaying || buf_reserve(&s->defs, n))
        return true;
    s->defs.err = 0; /* definitions appended before are complete */
    return false;
}

#endif
