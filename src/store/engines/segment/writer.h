/* SPDX-License-Identifier: Apache-2.0 */
/* Between writer.c and writer_request.c: the log writer's state, and a request on its way into a record. */
#ifndef SEGMENT_WRITER_H
#define SEGMENT_WRITER_H

#include "store/engines/segment/engine.h"
#include "store/engines/segment/wal_record.h"

struct job {
    struct queue_item item;
    struct batch *batch;
    struct sink_context ctx;
    char tenant[128];
    struct ack *ack;
    /* while in a group */
    struct ack_result result;
    bool written;
    struct mempart *part;
    struct symbols *symbols;
    struct sym_memo *memo;
    size_t symbols_at, symbols_n, blobs_at, blobs_n; /* its definitions inside the group's buffer */
    uint32_t first_prof, first_key;
    uint64_t rows, profiles, duplicates;
};

struct writer {
    struct buf group;         /* records */
    struct dedup_entry *keys; /* of the group */
    size_t cap_keys;
    uint32_t n_keys;
    struct map key_map;
    struct arena arena; /* per request */
    uint64_t *nodes;    /* per stack of the batch: service + 1 << 32 | node */
    uint32_t *sets;     /* per offset of an attribute list: set + 1 */
    uint8_t *ranges;    /* per mapping: it says more than which binary it is; NULL: none does */
    uint8_t *marked;    /* those of one profile */
    bool few_ranges;
    struct sym_memo memo;
};

/* Makes the record of a request behind the group's; its rows are added to the memtable and not yet visible. */
int writer_make_record(struct engine *g, struct job *j, struct err *e);
/* The record of a request whose profs are [first_prof, n_added) of its part. */
int writer_put_record(struct engine *g, struct job *j);

#endif
