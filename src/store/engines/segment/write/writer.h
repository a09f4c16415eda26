/* SPDX-License-Identifier: Apache-2.0 */
/* Between writer.c, writer_request.c and writer_header.c: the log writer's state, and a request on its way into a record. */
#ifndef SEGMENT_WRITER_H
#define SEGMENT_WRITER_H

#include "store/engines/segment/engine.h"
#include "store/engines/segment/format/wal_record.h"

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
    uint8_t *ranges;    /* per mapping: it says more than which binary it is; NULL: none does */
    uint8_t *marked;    /* those of one profile */
    bool few_ranges;
    uint32_t mappings; /* few ranges: their number in the dictionary + 1, 0 = not yet */
    struct sym_memo memo;
    struct intake_memo resources;
};

/* Makes the record of a request behind the group's; its rows are added to the memtable and not yet visible. */
int writer_make_record(struct engine *g, struct job *j, struct err *e);
/* Which of a batch's mappings are kept with its profiles. */
int writer_find_ranges(struct writer *w, const struct batch *b);
/* Numbers in the part's dictionary: of a list of attributes with this print, of what is said of a profile. UINT32_MAX
 * without memory. */
uint32_t writer_set(struct writer *w, struct mempart *part, struct run attrs, struct id128 print);
uint32_t writer_header(struct writer *w, struct mempart *part, const struct intake *in, const struct intake_item *it);
/* The record of a request whose profs are [first_prof, n_added) of its part. */
int writer_put_record(struct engine *g, struct job *j);

#endif
