/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pending deletion: which series, which range of starts, and which data had arrived by then. The data it hides
 * remains in the files until they are rewritten without it, but is in no answer.
 *
 *   recorded   the current log ends and another begins, so that earlier data has a log number up to `log`; the
 *              catalogue has the tombstone, synced; the readers' snapshot has it. Only then does the call return.
 *   applied    when a memtable is flushed and when a segment is rewritten, to data with a log number up to `log`. A
 *              rewritten segment has the largest log number of its inputs, and contains nothing that a tombstone hid at
 *              the time.
 *   forgotten  when no memtable up to `log` is left and every segment with its series was rewritten (engine_purge).
 *
 * Data that arrives later has a larger log number and is not affected. Deduplication keys stay: deleted data that is
 * sent again is treated like any other duplicate. A tombstone is immutable and shared.
 */
#ifndef SEGMENT_TOMBSTONE_H
#define SEGMENT_TOMBSTONE_H

#include "base/arena.h"
#include "store/engines/segment/format/segment_file.h"
#include "store/engines/segment/symbols/symbols.h"
#include "store/engines/segment/write/catalog.h"

enum { TOMBSTONES_MAX = 256 };

struct tombstone {
    _Atomic uint32_t refs;
    uint64_t id; /* in the catalogue */
    uint32_t tenant;
    uint64_t log;     /* applies to data of logs up to this one */
    int64_t from, to; /* starts in [from, to) */
    struct selector selector;
    struct type type; /* canonical; no name: any */
    struct arena arena;
};

int tombstone_new(const struct catalog_deletion *d, struct tombstone **ret, struct err *e);
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
/* Whether data of this tenant and log, with starts in [t0, t1], may be affected. */
static inline bool tombstone_concerns(const struct tombstone *t, uint32_t tenant, uint64_t log, int64_t t0, int64_t t1)
{
    return t->tenant == tenant && log <= t->log && t0 < t->to && t1 >= t->from;
}
/* Whether one of them hides a profile of this tenant and log. */
bool tombstones_hide(struct tombstone *const *v, uint32_t n, uint32_t tenant, uint64_t log, const struct sym_series *s,
                     int64_t time_ns);
/* Returns 1 when the segment has a series that the tombstone covers, with a range of starts that overlaps its own, else
 * 0. */
int tombstone_hits(const struct tombstone *t, struct segment *s, struct symbols *symbols, struct err *e);

#endif
