/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by writer.c, writer_request.c, writer_names.c and writer_header.c: the log writer's state, and a job that is
 * turned into a record. A job is a request, or names for locations that were stored without.
 */
#ifndef SEGMENT_WRITER_H
#define SEGMENT_WRITER_H

#include "store/engines/segment/engine.h"
#include "store/engines/segment/format/wal_record.h"

struct symbol_answer;

/* Names for addresses [from, to) of a binary in one epoch of the tenant. The data it points to belongs to the caller,
 * who waits for the ack. */
struct job_names {
    uint32_t epoch, from, to;
    struct str build_id;
    const uint64_t *addresses;
    const struct symbol_answer *answer; /* NULL: the job is a request */
};

struct job {
    struct queue_item item;
    struct batch *batch;
    struct job_names names;
    struct sink_context ctx;
    char tenant[128];
    struct ack *ack;
    /* while in a group */
    struct ack_result result;
    bool written;
    struct mempart *part;
    struct symbols *symbols;
    struct sym_memo *memo;
    size_t defs_at, defs_n; /* its part of the symbols' pending definitions */
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
    uint8_t *ranges;    /* per mapping: it carries more than the binary's identity; NULL: none does */
    uint8_t *marked;    /* the mappings of one profile */
    bool few_ranges;
    uint32_t mappings; /* few ranges: their number in the dictionary + 1, 0 = not added yet */
    struct sym_memo memo;
    struct intake_memo resources;
};

/* Adds the record of a request to the group; its rows are added to the memtable but not visible yet. Returns 1 when
 * there is nothing to write. Definitions stay pending until the group is in the log, so that a failed write needs no
 * undo: they are written with the next record. */
int writer_make_record(struct engine *g, struct job *j, struct err *e) _locked_(g->write_lock);
/* The same for names. */
int writer_make_names(struct engine *g, struct job *j, struct err *e) _locked_(g->write_lock);
/* Finds the symbols and the memtable part of a job. Pending definitions begin with the counts that they start from. */
int writer_begin_defs(struct engine *g, struct job *j) _locked_(g->write_lock);
/* Puts a job on the queue; its ack is completed later. Takes ownership of j. */
void writer_submit(struct engine *g, struct job *j);
/* Finds which of a batch's mappings are stored with its profiles. */
int writer_find_ranges(struct writer *w, const struct batch *b);
/* Return numbers in the part's dictionary: of a list of attributes with this fingerprint, and of a profile's header.
 * UINT32_MAX when memory runs out. */
uint32_t writer_set(struct writer *w, struct mempart *part, struct run attrs, struct id128 print);
uint32_t writer_header(struct writer *w, struct mempart *part, const struct intake *in, const struct intake_item *it);
/* Writes the record of a request whose profs are [first_prof, n_added) of its part. */
int writer_put_record(struct engine *g, struct job *j) _locked_(g->write_lock);

#endif
