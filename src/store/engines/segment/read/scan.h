/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by all queries: which series of which epochs are selected, and scanning the profiles of a range with their
 * rows, in memtables and in segments.
 */
#ifndef SEGMENT_SCAN_H
#define SEGMENT_SCAN_H

#include "store/engines/segment/engine.h"
#include "store/match.h"

/* The part of a query that concerns one epoch. */
struct scan_symbols {
    struct symbols *symbols;
    uint8_t *bits; /* per series: bit per column that selects it */
    uint32_t n_series, n_services;
    uint8_t *services; /* per service: whether any series is selected */
    uint8_t *deleted;  /* per tombstone of the scan and series: whether it applies; NULL where there is none */
};

struct scan {
    struct engine *g;
    const struct store_query *q;
    struct engine_tenant *tenant; /* NULL: unknown, the answer is empty */
    struct snapshot *snap;
    struct match match[2];
    struct tombstone **tombstones; /* the tenant's tombstones that overlap the columns' times; owned by the snapshot */
    uint32_t n_tombstones;
    struct scan_symbols *symbols;
    uint32_t n_symbols;
    struct store_notes *notes; /* the query's, or unread */
    struct err *e;             /* the caller's, or own_err */
    struct store_notes unread;
    struct err own_err;
    bool undecided[2];    /* per column: some selected series have no label for a matcher */
    bool needs_detail[2]; /* per column: rows must be checked one by one */
    bool only_counts;     /* rows are counted (n_rows) but not decoded, except in memtables */
    bool rich_only;       /* rows without attributes, link and timestamp are left out, except in memtables */
    bool with_traces;     /* rows need their trace IDs (in a query for one trace they have it anyway) */
    struct scan_traces {  /* of the current segment */
        struct arena arena;
        const unsigned char *ids;
        uint32_t n, wanted;
    } traces;
};

int scan_init(struct scan *s, struct engine *g, const struct store_query *q, bool need_type, struct err *e);
void scan_done(struct scan *s);
/* Whether the label of this name is one of the allow-list or of every selected series. */
bool scan_all_have(const struct scan *s, struct str name);
const struct scan_symbols *scan_find_symbols(const struct scan *s, const struct symbols *symbols);
/* Handles damage during a query: reports it and lets the query continue. Returns 0 for damage, r for anything else. */
int scan_damage(struct scan *s, int r, const char *what);
/* The same for a chunk whose checksums are right but whose columns are not. */
int scan_damaged_chunk(struct scan *s, int r, const struct segment *segment, uint64_t off);
static inline bool scan_cancelled(const struct scan *s)
{
    return s->q->cancel && atomic_load_explicit(s->q->cancel, memory_order_relaxed);
}

/* How much of a directory entry of a segment is deleted. Sums without detail are deleted as a whole or not at all,
 * depending on their first start. */
enum hidden { HIDDEN_NONE, HIDDEN_PART, HIDDEN_ALL };
enum hidden scan_hidden_among(const struct scan *s, const struct scan_symbols *sym, const struct segment *segment,
                              const struct chunk_entry *e, int level);
static inline enum hidden scan_hidden(const struct scan *s, const struct scan_symbols *sym,
                                      const struct segment *segment, const struct chunk_entry *e, int level)
{
    return s->n_tombstones ? scan_hidden_among(s, sym, segment, e, level) : HIDDEN_NONE;
}
/* Whether a profile that came with this log is deleted. */
static inline bool scan_deleted(const struct scan *s, const struct scan_symbols *sym, uint64_t log, uint32_t series,
                                int64_t time_ns)
{
    for (uint32_t i = 0; i < s->n_tombstones; i++)
        if (log <= s->tombstones[i]->log && sym->deleted[(size_t) i * sym->n_series + series] &&
            tombstone_covers(s->tombstones[i], time_ns))
            return true;
    return false;
}

struct scan_prof {
    const struct stored_profile *p;
    struct symbols *symbols;
    const struct sym_series *series;
    const struct blobs *blobs;
    uint32_t column;
};
typedef int (*scan_fn)(void *ctx, const struct scan_prof *p);

/* Scans every profile of the query's columns (by series, time, handle). Rows are set when with_rows. */
int scan_profs(struct scan *s, bool with_rows, scan_fn fn, void *ctx);
/* The same for memtables only. */
int scan_memtables(struct scan *s, scan_fn fn, void *ctx);
/* Whether the query selects this row of the profile (trace, span, detail matchers). */
bool scan_row(const struct scan *s, const struct scan_prof *p, const struct row *row);
/* Appends the text of the attribute of this name that is nearest: in the set (of a row), the profile's, the
 * resource's. */
void scan_attribute(const struct scan_prof *p, uint32_t set, struct str name, struct buf *out);
/* A chunk to scan. */
struct scan_part {
    struct segment *segment;
    uint64_t off;
    uint32_t len;
    uint32_t service; /* only its profiles; UINT32_MAX: all */
    bool with_rows;
};
/* Calls fn for every chunk of segments that may contain profiles of the columns. */
typedef int (*scan_chunk_fn)(void *ctx, const struct scan_symbols *sym, const struct scan_part *part);
int scan_chunks(struct scan *s, scan_chunk_fn fn, void *ctx);
/* Lists what occurs in all profiles of a chunk, selected or not. The list is in the arena or the segment's. Needs
 * rich_only. */
int scan_attributes(struct scan *s, const struct scan_part *part, struct arena *a, struct segment_attributes *ret);
/* Scans the profiles of one chunk. */
int scan_chunk(struct scan *s, const struct scan_symbols *sym, const struct scan_part *part, scan_fn fn, void *ctx);

/* Ranges that a query is going to read of a segment in the object store, so that it is read with few requests. */
struct scan_plan {
    struct segment_range *v;
    size_t cap;
    uint32_t n;
};
int scan_plan_add(struct scan_plan *p, uint64_t off, uint32_t len);
/* Reads the ranges into the cache and empties the plan. */
int scan_plan_run(struct scan *s, struct scan_plan *p, struct segment *segment);
void scan_plan_done(struct scan_plan *p);
/* The same for a group whose chunks are read one after the other: the entries of its directory from..to (of time) that
 * contain selected series. whole: whole chunks, else only their totals. */
struct scan_expect {
    struct segment *segment;
    const struct scan_symbols *sym;
    const struct directory *dir;
    bool whole;
};
int scan_expect(struct scan *s, const struct scan_expect *x);

#endif
