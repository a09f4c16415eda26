/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table that maps incoming types to wick's canonical types, used by every flag, API and page.
 *
 *   canonical   unit         rule         arrives as (type/unit; period type where it decides)
 *   cpu         nanoseconds  delta        cpu/nanoseconds, samples/count with period cpu/nanoseconds (x period),
 *                                         process_cpu (Pyroscope), on_cpu, CPU
 *   wall        nanoseconds  delta        wall/nanoseconds, wall/count x period
 *   offcpu      nanoseconds  delta        off_cpu/nanoseconds, offcpu
 *   alloc       bytes        delta*       alloc_space/bytes, allocations/bytes, alloc_in_new_tlab_bytes
 *   alloc_objects count      delta*       alloc_objects/count
 *   heap        bytes        gauge        inuse_space/bytes
 *   heap_objects count       gauge        inuse_objects/count
 *   lock        nanoseconds  delta*       delay/nanoseconds (mutex, block), contentions
 *   lock_count  count        delta*       contentions/count
 *   goroutine   count        gauge        goroutine/count, goroutines
 *   thread      count        gauge        threadcreate/count, thread
 *   anything else keeps its own name and unit and is a delta.
 *
 * Rules of adding up
 *   delta       adds over time and over instances
 *   gauge       averages over the snapshots of one instance, adds over instances
 *   cumulative  differenced per resource and stack on intake, with reset detection, and a delta from then on. The wire
 *               does not say which is which: (*) are cumulative when scraped from Go endpoints without a delta (the
 *               receiver sets a flag), deltas otherwise.
 *
 * Counts become nanoseconds by the period; the original type, unit and period stay in the profile's attributes
 * (wick.original_type) so that a pprof written later equals the one received.
 */
#ifndef MODEL_TYPES_H
#define MODEL_TYPES_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

enum type_rule { TYPE_DELTA, TYPE_GAUGE, TYPE_CUMULATIVE };

struct type {
    struct str name; /* canonical */
    struct str unit;
    enum type_rule rule;
    struct str pprof_type, pprof_unit; /* its name in a pprof file: Go's names */
    struct str title;                  /* for display: "CPU time" */
};

/* A sample type as a profile spells it; the period may be absent. */
struct type_spelling {
    struct str type, unit, period_type, period_unit;
    int64_t period;
};

/* Looks up the canonical type of a sample type. ret_scale: the factor for values (the period for
 * counts, else 1). Always succeeds: an unknown type is returned under its own name, pointing into the spelling. */
void type_lookup(const struct type_spelling *s, struct type *ret, int64_t *ret_scale);
/* Looks up a canonical type by name ("cpu") or by an alternative spelling ("off-cpu", "inuse_space", Pyroscope's
 * "process_cpu:cpu:nanoseconds:cpu:nanoseconds"). Returns false when unknown; ret then carries the name itself. */
bool type_by_name(struct str name, struct type *ret);
bool type_is_known(const struct type *t); /* whether it is one of the table */
/* Distinguishes types that have the same names, by the name of the profile: "block" or "mutex". */
void type_named(struct str name, struct type *t);
/* Whether the Pyroscope ID of a type that is not known does not follow from its name and unit: the profile has another
 * name, or its period another unit. The canonical name of such a type is the ID. */
bool type_needs_id(struct str name, const struct type *t, struct str period_type, struct str period_unit);
/* Prints Pyroscope's ID of a canonical type, name:type:unit:period_type:period_unit; and its first part alone. */
void type_pyroscope_id(const struct type *t, struct buf *out);
/* All canonical types, for help and pages: fills ret, returns the count. */
size_t type_all(const struct type **ret);

/* Formats a value for display: "1.52s", "3.4 MB", "12,004"; as a rate per second when per_s is true ("1.4 cores", "3
 * MB/s"). */
void type_format(struct buf *out, const struct type *t, double value, bool per_s);

#endif
