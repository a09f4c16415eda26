/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by convert_join.c, convert_labels.c and convert_order.c, and included only by them: the state of a join,
 * labels made of resources and links, and the order of types.
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
    uint64_t n_samples; /* of all units, before they are merged */
};

struct joiner {
    const struct batch *b;
    struct batch *out;
    bool single; /* convert_to_single(): labels, no links, no timestamps */
    struct unit *units;
    struct set *sets;
    size_t n_units, n_sets, cap_units, cap_sets;
    /* labels */
    struct str *keys; /* resource attributes that differ within the current set */
    size_t n_keys, cap_keys;
    uint32_t *resource_attrs; /* of the current resource */
    uint32_t n_resource_attrs;
    uint32_t (*link_attrs)[2]; /* per link; [0] == 0: not added yet */
    uint32_t *list;            /* attributes of one sample */
    size_t cap_list;
    bool grown; /* strings, attrs and indices are private copies */
    size_t cap_strings, cap_attrs, cap_indices;
    /* samples of the current set */
    struct map rows;
    size_t cap_samples, cap_values;
};

enum { OWN_STRINGS, OWN_ATTRS, OWN_INDICES, OWN_SAMPLES, OWN_VALUES }; /* slots of batch.owned */
/* --- convert_labels.c: a growable dictionary, and labels that samples get from resources and links --- */

/* Appends a list of attributes. */
int joiner_add_run(struct joiner *j, const uint32_t *v, uint32_t n, struct run *ret);
/* Finds the resource attributes that differ between units of the set. */
int joiner_find_keys(struct joiner *j, uint32_t set);
/* Prepares the labels that samples of this unit get from their resource. */
int joiner_resource_labels(struct joiner *j, const struct unit *u);
/* Collects the attributes of a sample in the result: its own, its resource's and its link's. */
int joiner_sample_attrs(struct joiner *j, const struct sample *s, struct run *ret);

/* --- convert_order.c --- */

/* Restores the original pprof order of the types of q, made of profiles of scope s, where that order is known. */
void joiner_restore_order(struct batch *x, const struct scope *s, struct profile *q);

#endif
