/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A deletion that is still to be carried out: which series, which starts, and what had come in by then. What it hides is
 * in the files until they are rewritten without it; no answer shows it.
 *
 *   told       the log in use ends and another begins, so that what came before has a log's number up to `log`; the
 *              catalogue has the tombstone, synced; readers' snapshot has it. Only then does the call return.
 *   applied    when a memtable is flushed and when a segment is rewritten, to what has a log up to `log`. Segments of
 *              rewrites have the largest log of their inputs, and nothing in them that a tombstone of then hid.
 *   forgotten  when no memtable up to `log` is left and every segment with its series was rewritten (engine_purge).
 *
 * Data that comes in later has a larger log: it is not meant. Deduplication keys stay: what was deleted and is sent again
 * is known, and refused like any other duplicate. Immutable, shared.
 */
#ifndef SEGMENT_TOMBSTONE_H
#define SEGMENT_TOMBSTONE_H

#include "base/arena.h"
#include "store/engines/segment/format/segment_file.h"
#include "store/engines/segment/symbols/symbols.h"

enum { TOMBSTONES_MAX = 256 };

struct tombstone {
    _Atomic uint32_t refs;
    uint64_t id; /* the catalogue's */
    uint32_t tenant;
    uint64_t log;     /* data of logs up to this one */
    int64_t from, to; /* starts in [from, to) */
    struct selector selector;
    struct type type; /* canonical; no name: any */
    struct arena arena;
};

int tombstone_new(uint64_t id, uint32_t tenant, uint64_t log, int64_t from, int64_t to, struct str selector,
                  struct tombstone **ret, struct err *e);
struct tombstone *tombstone_ref(struct tombstone *t);
void tombstone_unref(struct tombstone *t);
DEFINE_CLEANUP(struct tombstone *, tombstone_unref)

static inline bool tombstone_covers(const struct tombstone *t, int64_t time_ns)
{
    return time_ns >= t->from && time_ns < t->to;
}
static inline bool tombstone_matches(const struct tombstone *t, const struct sym_series *s)
{
    return (!t->type.name.n || str_eq(t->type.name, s->type.name)) && selector_matches(&t->selector, &s->labels);
}
/* May data of this tenant and log, with starts in [t0, t1], be meant? */
static inline bool tombstone_concerns(const struct tombstone *t, uint32_t tenant, uint64_t log, int64_t t0, int64_t t1)
{
    return t->tenant == tenant && log <= t->log && t0 < t->to && t1 >= t->from;
}
/* Is a profile of this tenant and log hidden by one of them? */
bool tombstones_hide(struct tombstone *const *v, uint32_t n, uint32_t tenant, uint64_t log, const struct sym_series *s,
                     int64_t time_ns);
/* Has the segment a series that the tombstone means, with first and last starts around, or some inside? 1 or 0. */
int tombstone_hits(const struct tombstone *t, struct segment *s, struct symbols *symbols, struct err *e);

#endif
