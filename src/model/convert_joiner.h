/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of convert_join.c share: the state of a joining, labels made of resources and links, and the order of
 * types. Nobody else includes it.
 */
#ifndef MODEL_CONVERT_JOINER_H
#define MODEL_CONVERT_JOINER_H

#include "base/map.h"
#include "model/batch.h"

/* Profiles [first, first + n) of the source are one unit of n types, or one profile of n_types. */
struct unit {
    uint32_t first, n;
    uint32_t resource;
    uint32_t n_types;
    uint32_t set; /* index of the type set */
};

/* Units of equal types: one profile of the result. */
struct set {
    uint32_t unit; /* the first */
    uint32_t n_units;
    uint64_t n_samples; /* of all units, before merging */
};

struct joiner {
    const struct batch *b;
    struct batch *out;
    bool single; /* convert_to_single(): labels, no links, no timestamps */
    struct unit *units;
    struct set *sets;
    size_t n_units, n_sets, cap_units, cap_sets;
    /* labels */
    struct str *keys; /* resource attributes that differ within the set at hand */
    size_t n_keys, cap_keys;
    uint32_t *resource_attrs; /* of the resource at hand */
    uint32_t n_resource_attrs;
    uint32_t (*link_attrs)[2]; /* per link; [0] == 0: not made yet */
    uint32_t *list;            /* attributes of one sample */
    size_t cap_list;
    bool grown; /* strings, attrs and indices are copies of our own */
    size_t cap_strings, cap_attrs, cap_indices;
    /* samples of the set at hand */
    struct map rows;
    size_t cap_samples, cap_values;
};

enum { OWN_STRINGS, OWN_ATTRS, OWN_INDICES, OWN_SAMPLES, OWN_VALUES }; /* slots of batch.owned */
/* --- convert_labels.c: a dictionary that can grow, and what samples get from elsewhere --- */

/* Appends a list of attributes. */
int joiner_add_run(struct joiner *j, const uint32_t *v, uint32_t n, struct run *ret);
/* The resource attributes that are not the same for all units of the set. */
int joiner_find_keys(struct joiner *j, uint32_t set);
/* Prepares the labels that samples of this unit get from their resource. */
int joiner_resource_labels(struct joiner *j, const struct unit *u);
/* The attributes of a sample in the result: its own, its resource's, its link's. */
int joiner_sample_attrs(struct joiner *j, const struct sample *s, struct run *ret);

/* --- convert_order.c --- */

/* Puts the types of q, made of profiles of scope s, into the order that they had in their pprof, where that is known. */
void joiner_restore_order(struct batch *x, const struct scope *s, struct profile *q);

#endif
