/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What questions have in common: which series of which epochs are meant, and going through the profiles of a range with
 * their rows, in memtables and segments alike.
 */
#ifndef SEGMENT_SCAN_H
#define SEGMENT_SCAN_H

#include "store/engines/segment/engine.h"
#include "store/match.h"

/* One epoch's part in a question. */
struct scan_symbols {
    struct symbols *symbols;
    uint8_t *bits; /* per series: bit per column that means it */
    uint32_t n_series, n_services;
    uint8_t *services; /* per service: any series meant */
    uint8_t *deleted;  /* per tombstone of the scan and series: it means it; NULL where there is none */
};

struct scan {
    struct engine *g;
    const struct store_query *q;
    struct engine_tenant *tenant; /* NULL: nobody, the answer is empty */
    struct snapshot *snap;
    struct match match[2];
    struct tombstone **tombstones; /* of the tenant, about the columns' times; they live with the snapshot */
    uint32_t n_tombstones;
    struct scan_symbols *symbols;
    uint32_t n_symbols;
    struct store_notes *notes;
    struct err *e;
    bool needs_detail[2]; /* per column: rows must be looked at one by one */
    bool only_counts;     /* rows are counted (n_rows) and not made, but in memtables */
    bool with_traces;     /* rows need their trace ids (asked for one trace they have it anyway) */
    struct scan_traces {  /* of the segment at hand */
        struct arena arena;
        const unsigned char *ids;
        uint32_t n, wanted;
    } traces;
};

int scan_init(struct scan *s, struct engine *g, const struct store_query *q, bool need_type, struct store_notes *notes,
              struct err *e);
void scan_done(struct scan *s);
const struct scan_symbols *scan_find_symbols(const struct scan *s, const struct symbols *symbols);
/* Damage on the way to an answer: told, and the rest goes on. Returns 0 for damage, r for anything else. */
int scan_damage(struct scan *s, int r, const char *what);
/* The same of a chunk whose checksums are right and whose columns are not. */
int scan_damaged_chunk(struct scan *s, int r, const struct segment *segment, uint64_t off);
static inline bool scan_cancelled(const struct scan *s)
{
    return s->q->cancel && atomic_load_explicit(s->q->cancel, memory_order_relaxed);
}

/* How much of an entry of a segment's directory is deleted. Of sums that have no detail behind them (any more) each is
 * there or not, as its first start says. */
enum hidden { HIDDEN_NONE, HIDDEN_PART, HIDDEN_ALL };
enum hidden scan_hidden_among(const struct scan *s, const struct scan_symbols *sym, const struct segment *segment,
                              const struct chunk_entry *e, int level);
static inline enum hidden scan_hidden(const struct scan *s, const struct scan_symbols *sym,
                                      const struct segment *segment, const struct chunk_entry *e, int level)
{
    return s->n_tombstones ? scan_hidden_among(s, sym, segment, e, level) : HIDDEN_NONE;
}
/* Is a profile that came with this log deleted? */
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
    const struct prof *p;
    struct symbols *symbols;
    const struct sym_series *series;
    const struct blobs *blobs;
    uint32_t column;
};
typedef int (*scan_fn)(void *ctx, const struct scan_prof *p);

/* Every profile of the query's columns (by series, time, handle). Rows are there when with_rows. */
int scan_profs(struct scan *s, bool with_rows, scan_fn fn, void *ctx);
/* Those of memtables alone. */
int scan_memtables(struct scan *s, scan_fn fn, void *ctx);
/* Is this row of it meant (trace, span, detail matchers)? */
bool scan_row(const struct scan *s, const struct scan_prof *p, const struct row *row);
/* Profiles of one chunk; restrict to one service with service != UINT32_MAX. */
int scan_chunk(struct scan *s, const struct scan_symbols *sym, struct segment *segment, uint64_t off, uint32_t len,
               uint32_t service, bool with_rows, scan_fn fn, void *ctx);

#endif
