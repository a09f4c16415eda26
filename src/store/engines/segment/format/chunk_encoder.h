/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by chunk_encode.c and chunk_extra.c: the encoder's state. */
#ifndef SEGMENT_CHUNK_ENCODER_H
#define SEGMENT_CHUNK_ENCODER_H

#include <zstd.h>

#include "base/map.h"
#include "base/mem.h"
#include "store/engines/segment/format/chunk.h"

/* One row to be encoded: sorted by node within its entry, profiles in order within a node. */
struct item {
    uint32_t node, prof; /* prof: within the entry */
    int64_t value;
    const struct extra *extra;
};

/* A row for the extra section. */
struct rich {
    uint64_t when;
    uint32_t lane, prof; /* prof: within the chunk */
    uint32_t entry, key; /* key: the node's place in the entry's totals */
    uint32_t set;
    int64_t value; /* scaled */
    const struct extra *extra;
};

struct chunk_encoder {
    ZSTD_CCtx *zstd;
    struct buf raw[SECTIONS], values, lists;
    struct item *items, *spare;
    size_t cap_items, cap_spare;
    struct rich *rich;
    size_t cap_rich;
    uint32_t n_rich;
    bool any_link; /* of its rows */
    struct link *links;
    uint32_t *link_traces; /* the segment's number of each link's trace */
    size_t cap_links, cap_link_traces;
    uint32_t n_links;
    struct map link_map, set_map;
    struct buf column;
    struct arena arena;
};

/* Fills SEC_EXTRA and SEC_LINKS from c->rich, and out's list of traces. entries: those with profiles; first: their
 * first profile; profs: all. */
int chunk_put_extra(struct chunk_encoder *c, const struct chunk_hooks *hooks, struct stored_profile *const *profs,
                    const uint32_t *first, uint32_t n_entries, struct chunk_out *out);

#endif
