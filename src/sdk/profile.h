/* SPDX-License-Identifier: Apache-2.0 */
/* Turns sums (agg.h, heap_view.h) into a batch, with names, mappings, labels and links. Background thread only. */
#ifndef SDK_PROFILE_H
#define SDK_PROFILE_H

#include "base/buf.h"
#include "base/err.h"
#include "model/batch.h"
#include "sdk/agg.h"

struct heap_view;

struct profile_part {
    int type;                     /* TYPE_CPU ...; TYPE_HEAP is all four values of allocation and use */
    const struct agg *agg;        /* not for TYPE_HEAP */
    int delta;                    /* TYPE_HEAP: allocations since the last export */
    bool peak;                    /* TYPE_HEAP: with peak_space */
    const struct heap_view *base; /* TYPE_HEAP: values to subtract, for the first n_base stacks; NULL = none */
    uint32_t n_base;
    int64_t time_ns, duration_ns, period;
    int64_t lines_until; /* deadline for lines and inlined calls (clock_mono()); 0 = function names only */
    void (*pump)(void);  /* called from time to time during that wait, or NULL */
};

struct profile_resource {
    struct str name, version;
    const struct kv *attrs; /* strings only */
    uint32_t n_attrs;
};

/* Attributes of the scope in every export: the profiler's own statistics. */
struct profile_scope {
    int64_t rate, lost, cpu_ns, governor;
};

/* For OTLP: one resource, one scope, a profile per part, whose frames profile_name_parts() has named. */
int profile_make(const struct profile_part *parts, uint32_t n, const struct profile_resource *resource,
                 const struct profile_scope *scope, struct batch **ret, struct err *e);
/* One part as Go prints it for ?debug=1 (pprof's legacy formats). */
int profile_make_text(const struct profile_part *part, struct buf *out, struct err *e);
/* One part as gzip'd profile.proto with Go's sample types and run-time addresses. */
int profile_make_pprof(const struct profile_part *part, struct buf *out, struct err *e);

/* Looks up names, and lines where a part asks for them, for all frames of the parts. Samples that pump() adds to them
 * meanwhile are named as well. */
void profile_name_parts(const struct profile_part *parts, uint32_t n);

/* --- for profile_text.c --- */
/* Stack i of the heap, with the base values of part subtracted. */
void profile_heap_at(const struct profile_part *part, uint32_t i, struct heap_view *ret);

#endif
