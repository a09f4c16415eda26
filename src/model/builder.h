/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds a batch piece by piece. Everything that goes into the dictionary is interned: equal content gives the same
 * index, so producers (pprof, folded stacks, the agent, the SDK, merging) do not need their own tables.
 *
 * Errors stick, as in buf.h: after the first one (no memory, a limit) every call returns 0 and builder_finish() returns
 * it. Strings passed in are copied unless `borrow` says that they live as long as the batch.
 *
 * Order: builder_resource(), builder_scope(), builder_profile(), builder_sample()..., each below the last of its
 * parent.
 */
#ifndef MODEL_BUILDER_H
#define MODEL_BUILDER_H

#include "base/map.h"
#include "model/batch.h"

struct builder;

struct builder_limits {
    size_t memory;  /* bytes of the batch, 0 = none */
    uint32_t depth; /* locations per stack, 0 = none; deeper stacks lose their root end without a mark */
    /* Mappings, functions, locations and stacks are not interned: the n-th call adds entry n. For a file whose tables
     * must stay as they are. */
    bool every_entry;
};

/* A location to add: lines (innermost first) and indices of attributes may be absent. */
struct builder_location {
    uint32_t mapping;
    uint64_t address;
    const struct line *lines;
    uint32_t n_lines, n_attrs;
    const uint32_t *attrs;
};

/* A sample to add. It has values, timestamps, or equally many of both. */
struct builder_sample {
    uint32_t stack, link;
    struct run attrs; /* of builder_attrs() */
    const int64_t *values;
    const uint64_t *timestamps;
    uint32_t n_values, n_timestamps;
};

int builder_new(const struct builder_limits *limits, struct builder **ret);
void builder_free(struct builder *b);
DEFINE_CLEANUP(struct builder *, builder_free)
/* The batch so far, for reading; it keeps changing until builder_finish(). */
struct batch *builder_batch(struct builder *b);
int builder_error(const struct builder *b);
/* Hands the batch over. After this, only builder_free() may be called. */
int builder_finish(struct builder *b, struct batch **ret, struct err *e);

/* --- dictionary; each returns the index of the one interned entry --- */
uint32_t builder_string(struct builder *b, struct str s);
uint32_t builder_mapping(struct builder *b, const struct mapping *m, const uint32_t *attrs, uint32_t n_attrs);
uint32_t builder_function(struct builder *b, const struct function *f);
uint32_t builder_location(struct builder *b, const struct builder_location *l);
uint32_t builder_stack(struct builder *b, const uint32_t *locations, uint32_t n); /* leaf first */
uint32_t builder_link(struct builder *b, const struct link *l);
uint32_t builder_attr(struct builder *b, uint32_t key, uint32_t unit, const struct value *v);
uint32_t builder_attr_str(struct builder *b, struct str key, struct str value);
uint32_t builder_attr_int(struct builder *b, struct str key, int64_t value, struct str unit);
uint32_t builder_attr_bool(struct builder *b, struct str key, bool value);
/* A list of attribute indices, interned as a whole in the given order. */
struct run builder_attrs(struct builder *b, const uint32_t *attrs, uint32_t n);

/* --- body --- */
uint32_t builder_resource(struct builder *b);                                         /* returns its index */
void builder_resource_attr(struct builder *b, struct str key, const struct value *v); /* of the last resource */
void builder_resource_attr_str(struct builder *b, struct str key, struct str value);
uint32_t builder_scope(struct builder *b, struct str name, struct str version);
void builder_scope_attr(struct builder *b, struct str key, const struct value *v);
/* Adds a profile with n types to the last scope. The caller fills in the rest through the pointer, which is valid until
 * the next call. */
struct profile *builder_profile(struct builder *b, const struct value_type *types, uint32_t n);
/* Adds a sample to the last profile. Samples are not merged here: see convert.h. */
void builder_sample(struct builder *b, const struct builder_sample *s);

/* --- whole batches --- */
/* Appends all of src: dictionaries are merged, and equal resources (attributes, schema) and their equal scopes become
 * one. Profiles stay separate. The `batch` processor and file merging use this. */
int builder_append(struct builder *b, const struct batch *src);
/* Appends samples [from, from + n) of src with their profiles, scopes and resources, and only the dictionary entries
 * that they reach. All parts of a batch together contain all of its samples; this is how a request is split. */
int builder_append_part(struct builder *b, const struct batch *src, uint32_t from, uint32_t n);
/* A batch with all profiles of src and only those dictionary entries that they reach: OTLP allows no others. */
int builder_reached(const struct batch *src, struct batch **ret, struct err *e);
/* Makes room for expected entries, so that tables do not grow step by step. These are only hints: errors show up
 * later. */
void builder_reserve(struct builder *b, const struct dict *more);
void builder_reserve_samples(struct builder *b, uint32_t more);
/* A deep copy of a value into the batch's arena. */
struct value builder_value(struct builder *b, const struct value *v);

#endif
