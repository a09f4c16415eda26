/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All conversions of a batch to a tree or to a single profile, and between profiles of one and of several types.
 * Receivers, exports and the commands that read files use them.
 */
#ifndef MODEL_CONVERT_H
#define MODEL_CONVERT_H

#include "model/batch.h"
#include "model/tree.h"

/* Adds the samples of profile p, sample type `type`, into column `column` of t, by function; files are hints. */
int convert_to_tree(const struct batch *b, const struct profile *p, uint32_t type, struct tree *t, uint32_t column);

/* The sampling rate of a profile of time, in Hz; 0 if it is not known. */
uint32_t convert_rate(const struct batch *b, const struct profile *p, uint32_t type);

/*
 * Makes one multi-value profile of everything in b, as pprof needs it (one file, one profile):
 *   - profiles of one scope with equal group become one with several types, samples joined by (stack, attributes);
 *   - profiles with equal types are then merged, samples with equal (stack, attributes, link) added up;
 *   - resource attributes that differ between them become labels of the samples; links become the labels
 *     trace_id and span_id; timestamps are dropped and their values summed.
 * Profiles of different, ungrouped types cannot share a pprof: the result has one profile per type set, the one with
 * the most samples first. A batch that is one profile without links and timestamps is returned as another reference.
 */
int convert_to_single(const struct batch *b, struct batch **ret, struct err *e);

/* Gives each profile of b with n_types > 1 a form that OTLP can carry: one profile per type, and a group that ties them
 * together. Batches without such profiles are returned as another reference. */
int convert_split_types(struct batch *b, struct batch **ret, struct err *e);
/* The reverse: profiles with equal group of a scope become one with several types. */
int convert_join_types(struct batch *b, struct batch **ret, struct err *e);

#endif
