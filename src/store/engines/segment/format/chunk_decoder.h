/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by chunk_decode.c and chunk_rich.c: decoded rows that have attributes, a link or a timestamp. */
#ifndef SEGMENT_CHUNK_DECODER_H
#define SEGMENT_CHUNK_DECODER_H

#include "store/engines/segment/format/chunk.h"

struct rich_row {
    uint32_t entry, key, prof; /* key: the node's place in the entry's totals; prof: within the chunk */
    uint32_t lane, set;
    uint32_t link; /* + 1; 0 = none */
    int64_t value;
    uint64_t timestamp;
};

struct rich_rows {
    struct rich_row *v;
    uint32_t n;
    uint32_t *traces;           /* per link: the segment's number */
    const unsigned char *spans; /* per link: 8 bytes */
    uint32_t n_links;
};

/* Needs SEC_EXTRA and SEC_LINKS. n_nodes: per entry. 0, -ENOMEM or -EBADMSG. */
int chunk_read_rich(const struct chunk *c, struct arena *a, const struct chunk_profiles *p, const uint32_t *n_nodes,
                    struct rich_rows *ret);

#endif
