/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One profile in the shape that pprof's reports work on: mutable tables and samples that point into them by index. It
 * is made from a batch (prof_from_batch), merged, filtered and trimmed in place, then reported.
 *
 * Shape
 *   - Tables of mappings, functions and locations start at index 1; index 0 means none. Ids (what a file calls them)
 *     equal the index unless `location_ids`/`mapping_ids` say otherwise.
 *   - A sample's frames are a run of `frames` (location indices, leaf first); its values are the n_types numbers at
 *     `values`; its labels are one of `label_sets` (0 = none).
 *   - A label set holds its text labels sorted by key, then its numeric ones sorted by key; values of one key keep
 *     their order. `units` of a key are absent (as pprof says) when none of its values has one.
 *   - Pools may be borrowed from the batch (which the pool of strings keeps alive): runs are never changed in place
 *     where two owners may share them, filters write new runs. Sample values belong to one sample each.
 *
 * Strings are ids of the session's prof_pool. Not thread-safe.
 */
#ifndef REPORT_PROF_H
#define REPORT_PROF_H

#include "model/batch.h"
#include "report/strtab.h"

enum { PROF_BATCHES_MAX = 4096 };

/* Shared by all profiles of a session: strings, and the batches that strings and pools point into. */
struct prof_pool {
    struct strtab strings;
    struct batch **batches;
    size_t n_batches, cap_batches;
};

int prof_pool_init(struct prof_pool *pool);
void prof_pool_done(struct prof_pool *pool);

struct prof_type {
    uint32_t type, unit;
};

struct prof_mapping {
    uint64_t start, limit, offset;
    uint32_t file, build_id;
    bool has_functions, has_filenames, has_line_numbers, has_inline_frames;
};

struct prof_function {
    uint32_t name, system_name, filename;
    int64_t start_line;
};

struct prof_location {
    uint64_t address;
    uint32_t mapping;
    struct run lines; /* into prof.lines, innermost inlined first */
    bool is_folded;
};

struct prof_label {
    int64_t num;
    uint32_t key, str, unit;
};

struct prof_labels {
    uint32_t off, n_str, n_num; /* labels[off ..]: n_str text labels, then n_num numeric ones */
};

struct prof_sample {
    struct run frames;
    uint32_t labels, values;
};

struct prof {
    struct prof_pool *pool;
    struct prof_type types[PROFILE_TYPES_MAX];
    uint32_t n_types;
    uint32_t default_type; /* string, 0 = not said */
    struct prof_type period_type;
    bool has_period_type;
    int64_t period, time_ns, duration_ns;
    uint32_t drop_frames, keep_frames, doc_url;
    uint32_t *comments;
    size_t n_comments, cap_comments;

    struct prof_mapping *mappings; /* [0] unused in these three */
    struct prof_function *functions;
    struct prof_location *locations;
    uint64_t *mapping_ids, *location_ids; /* NULL when id == index */
    struct line *lines;
    uint32_t *frames;
    struct prof_sample *samples;
    int64_t *values;
    struct prof_label *labels;
    struct prof_labels *label_sets; /* [0] is the empty set */
    /* Counts include the unused entry 0 of mappings, functions, locations and label_sets. */
    size_t n_mappings, n_functions, n_locations, n_lines, n_frames, n_samples, n_values, n_labels, n_label_sets;
    size_t cap_mappings, cap_functions, cap_locations, cap_lines, cap_frames, cap_samples, cap_values, cap_labels,
        cap_label_sets;   /* 0 for a pool that is borrowed */
    struct map label_map; /* label sets by content */
};

/* An empty profile with its entries 0. */
int prof_new(struct prof_pool *pool, struct prof **ret);
void prof_free(struct prof *p);
DEFINE_CLEANUP(struct prof *, prof_free)
/* The profile of b in this shape. The pool takes a reference to b; b must not be shared with others. */
int prof_from_batch(struct prof_pool *pool, struct batch *b, const struct profile *from, struct prof **ret,
                    struct err *e);
/* An independent copy, for a command that may change it. */
int prof_copy(const struct prof *p, struct prof **ret);
/* As a batch with one multi-value profile, for the encoders. */
int prof_to_batch(const struct prof *p, struct batch **ret, struct err *e);

/* Growing tables: each returns the new index or a negative errno. */
int64_t prof_add_mapping(struct prof *p, const struct prof_mapping *m);
int64_t prof_add_function(struct prof *p, const struct prof_function *f);
int64_t prof_add_location(struct prof *p, const struct prof_location *l);
int64_t prof_add_lines(struct prof *p, const struct line *lines, uint32_t n); /* returns the offset */
int64_t prof_add_frames(struct prof *p, const uint32_t *frames, uint32_t n);  /* returns the offset */
int64_t prof_add_values(struct prof *p, const int64_t *values, uint32_t n);   /* returns the offset */
int prof_add_sample(struct prof *p, const struct prof_sample *s);
int prof_add_comment(struct prof *p, uint32_t comment);
/* The label set with this content (already in order), added if new. */
int64_t prof_add_labels(struct prof *p, const struct prof_label *labels, uint32_t n_str, uint32_t n_num);

static inline struct str prof_str(const struct prof *p, uint32_t id)
{
    return p->pool->strings.v[id];
}

static inline uint64_t prof_location_id(const struct prof *p, uint32_t i)
{
    return p->location_ids ? p->location_ids[i] : i;
}

static inline uint64_t prof_mapping_id(const struct prof *p, uint32_t i)
{
    return p->mapping_ids ? p->mapping_ids[i] : i;
}

static inline const uint32_t *prof_sample_frames(const struct prof *p, const struct prof_sample *s)
{
    return p->frames ? p->frames + s->frames.off : NULL; /* NULL: no sample has any */
}

static inline const int64_t *prof_sample_values(const struct prof *p, const struct prof_sample *s)
{
    return p->values + s->values;
}

/* True when any numeric label of this key in the set (the run [i, end) of one key) has a unit. */
bool prof_labels_have_unit(const struct prof_label *labels, uint32_t n);
/* Is this sample one of the -diff_base profile. */
bool prof_sample_is_base(const struct prof *p, const struct prof_sample *s);

/* --- prof_merge.c --- */
/* Makes types and units of the profiles agree (common sample types, finest units), as pprof does before a merge. */
int prof_unify(struct prof **ps, size_t n, struct err *e);
/* One new profile of all of them: samples of equal frames and labels add up, tables hold what samples use, in order of
 * first use. */
int prof_merge(struct prof *const *ps, size_t n, struct prof **ret, struct err *e);
/* unify + merge; a single profile is returned unchanged. Takes ownership of the profiles: ps[i] are NULL afterwards. */
int prof_combine(struct prof **ps, size_t n, struct prof **ret, struct err *e);
/* Multiplies the values (rounded) and drops samples that become zero. */
void prof_scale(struct prof *p, double ratio);
void prof_scale_types(struct prof *p, const double *ratios);
/* Scales p so that the sums of its values equal base's. */
int prof_normalize(struct prof *p, const struct prof *base, struct err *e);
/* Sets a text label of all samples / removes it. */
int prof_set_label(struct prof *p, struct str key, struct str value);
/* The index of a sample type by number, name or default; -EINVAL with pprof's error message. */
int prof_type_index(const struct prof *p, struct str wanted, struct err *e);
/* pprof's validity check of a decoded profile. */
int prof_check(const struct prof *p, struct err *e);

#endif
