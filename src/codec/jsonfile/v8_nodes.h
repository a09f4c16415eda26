/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call trees of V8's profiles. A node is
 *
 *   {"id":1, "callFrame":{"functionName","url","lineNumber","columnNumber"}, "children":[ids], "parent":id, "hitCount":n}
 *
 * with children in .cpuprofile and parent in trace events; lines and columns count from 0.
 */
#ifndef CODEC_V8_NODES_H
#define CODEC_V8_NODES_H

#include "codec/jsonfile/json_profile.h"

struct v8_nodes {
    struct call_nodes nodes;
    uint64_t *ids;
    double *hits;
    size_t cap_ids, cap_hits;
    struct map map;
    uint32_t frame_type;
};

void v8_nodes_done(struct v8_nodes *n);
/* Reads a callFrame into a location; 0 for the root. */
uint32_t v8_frame_read(struct json_profile *p, struct v8_nodes *n, struct json *j);
/* Adds the nodes of a JSON array. Ids may refer to nodes of earlier calls. */
int v8_nodes_read(struct json_profile *p, struct v8_nodes *n, struct str array);
/* The index of the node with this id, or -1. */
int64_t v8_nodes_find(const struct v8_nodes *n, double id);

/* Adds samples, which are ids of nodes, to profile `profile` of the sums: one count each, and the time until the next one.
 * deltas[i] are the microseconds from sample i - 1 to i; end_us is the time from the first one to the end; as->time is when the
 * profile began. */
int v8_samples_add(struct json_profile *p, struct v8_nodes *n, const struct json_numbers *samples,
                   const struct json_numbers *deltas, double end_us, const struct sum_row *as);
/* Writes the profile of types samples/count and wall/nanoseconds. */
int v8_profile_write(struct json_profile *p, uint32_t profile, bool timed, int64_t duration_ns);

#endif
