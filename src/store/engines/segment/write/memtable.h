/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data that is in the log but not in a segment yet. There is one memtable per log file, with one part per tenant. The
 * log writer adds rows and publishes them after the sync; readers scan published rows without a lock. When a memtable
 * is full, it is sealed and another begins; the flusher turns it into segments and drops it. Its size is bounded by
 * store_config.memory.
 */
#ifndef SEGMENT_MEMTABLE_H
#define SEGMENT_MEMTABLE_H

#include "store/engines/segment/format/blobs.h"
#include "store/engines/segment/format/rows.h"
#include "store/engines/segment/symbols/idmap.h"
#include "store/engines/segment/symbols/pinned.h"
#include "store/engines/segment/symbols/symbols.h"

struct mempart {
    struct symbols *symbols; /* a reference: tenant and epoch */
    struct pinned profs;     /* struct stored_profile; its count is that of synced and visible profs */
    uint32_t n_added;        /* writer: added, but not all of them published */
    struct blobs blobs;
    struct idmap headers, sets, attrs; /* writer: their numbers in blobs by fingerprint */
    struct buf defs;                   /* symbol definitions added while this was open */
    struct arena arena;
    struct mempart *_Atomic next;
};

struct dedup_entry;

struct memtable {
    uint64_t log; /* number of its log file */
    struct mempart *_Atomic parts;
    _Atomic uint32_t refs;
    atomic_bool sealed;   /* nothing is added any more: it can be flushed */
    _Atomic size_t bytes; /* approximate memory of rows: the writer adds, statistics read */
    int64_t created;      /* monotonic time of the first row */
    uint64_t n_profs, n_rows;
    struct dedup_entry *keys; /* added while this was open, for the catalogue */
    size_t cap_keys;
    uint32_t n_keys;
};

int memtable_new(uint64_t log, struct memtable **ret);
struct memtable *memtable_ref(struct memtable *m);
void memtable_unref(struct memtable *m);
DEFINE_CLEANUP(struct memtable *, memtable_unref)

/* Finds the part of these symbols, or adds it. */
int memtable_part(struct memtable *m, struct symbols *s, struct mempart **ret);
/* Makes room for a prof with its rows and extras; it is visible after mempart_publish(). */
struct stored_profile *mempart_add(struct mempart *p, uint32_t n_rows, uint32_t n_extras);
void mempart_publish(struct mempart *p);
int memtable_add_key(struct memtable *m, struct id128 key, int64_t time_ns);

#endif
