/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The selection of one column by window of time and by instance, in one answer: what a comparison needs that tests over
 * windows and instances (query/drift.h). An engine that can group by both implements store_ops.cube; for any other,
 * store_cube() asks select for each window and instance.
 *
 * Windows
 *   Window i is [from + i * width_ns, from + (i + 1) * width_ns). A profile belongs to the window in which it starts.
 *
 * Instances
 *   With by_resource, an instance is a process or a resource (process_sources.h), which requires reading detail;
 *   otherwise it is one series, and sums of five minutes and more are used where they lie in one window. Beyond
 *   CUBE_INSTANCES_MAX, several instances share a number, and their labels are left out.
 */
#ifndef STORE_STORE_CUBE_H
#define STORE_STORE_CUBE_H

#include "model/labels.h"
#include "model/tree.h"
#include "store/store.h"

enum { CUBE_INSTANCES_MAX = 64, CUBE_WINDOWS_MAX = 512 };

struct store_cube_query {
    int64_t width_ns;
    bool by_resource;
};

struct cube_instance {
    struct id128 id;      /* the same in every answer for the same resource or series, as by_resource says */
    struct labels labels; /* of the series and, with by_resource, attributes that name an instance */
};

/* A cell that has data. The values of a node may be in several entries. */
struct cube_cell {
    uint32_t window, instance;
    uint64_t n_profiles;
    size_t first; /* of its values */
    uint32_t n;
};

struct cube_value {
    uint32_t node; /* in tree */
    int64_t self;
};

struct store_cube {
    struct tree *tree; /* the nodes of all cells; column 0 has the sums over all of them, for a gauge over snapshots */
    struct cube_instance *instances;
    uint32_t n_instances;
    struct cube_cell *cells; /* by window, then instance */
    uint32_t n_cells;
    struct cube_value *values;
    size_t n_values;
    int64_t from, width_ns;
    uint32_t n_windows;
    bool gauge; /* values of a cell are sums over its n_profiles snapshots */
    struct arena arena;
};

/* Answers for column 0 of q, whose granularity should be BY_FUNCTION. -EINVAL if the range has more than CUBE_WINDOWS_MAX
 * windows or none. max_nodes and min_share do not apply. */
int store_cube(struct store *s, const struct store_query *q, const struct store_cube_query *cq, struct store_cube *ret,
               struct err *e);
/* Accepts a zeroed cube. */
void store_cube_done(struct store_cube *c);

/* --- for engines --- */

/* The attributes that name an instance in addition to the labels of its series; NULL-terminated. */
extern const char *const cube_instance_attributes[];
/* Finds or adds the instance with this identity; labels are set by the caller when *ret_new. Returns -ENOMEM. */
int cube_instance(struct store_cube *c, struct map *by_id, struct id128 id, uint32_t *ret, bool *ret_new);
/* Orders the cells and sums up the tree. */
void cube_finish(struct store_cube *c);

#endif
