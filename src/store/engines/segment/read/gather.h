/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first step of every query for sums: service by service, the values of the selection are added to an array over
 * the service's nodes (symbols.h). The caller turns the array into a tree, a table or callers.
 */
#ifndef SEGMENT_GATHER_H
#define SEGMENT_GATHER_H

#include "store/engines/segment/read/scan.h"

struct gauge_instance;

struct gather {
    struct scan scan;
    /* the current service */
    const struct scan_symbols *sym;
    uint32_t service, n_nodes;
    int64_t *acc[2]; /* per column and node; all zero except during the callback for a service */
    bool few;        /* a query for rows: only nodes in touched have values, with duplicates */
    uint32_t *touched;
    uint32_t n_touched;
    struct str type, unit; /* as in the symbols */
    uint32_t n_parts;      /* upper bound of the services in the answer */
    /* private to gather.c */
    bool gauge, any;
    struct scan_plan *plan; /* not NULL: nothing is added, only what would be read is noted */
    size_t most;            /* approximate bytes that a service took */
    size_t cap_acc[2], cap_touched;
    struct gauge_instance *instances;
    size_t cap_instances;
    uint32_t n_instances;
    struct map instance_map;
    struct arena arena;
    struct held *held; /* profiles of memtables, or the selected rows */
    size_t cap_held;
    uint32_t n_held;
    uint32_t **held_of; /* per symbols and service: index of its first + 1 */
};

/* Called for each service that has values, with its sums in acc; never concurrently, in any order. */
typedef int (*gather_fn)(void *ctx, struct gather *g);

int gather_init(struct gather *g, struct engine *e, const struct store_query *q, struct err *err);
/* Runs on this thread and, with many services and no other query running, on a second one as well. There, g is not the
 * one given here. */
int gather_run(struct gather *g, gather_fn fn, void *ctx);
void gather_done(struct gather *g);
/* How many nodes of one service may be in an answer of max nodes: all that fit when there are few services, the larger
 * part when there are many. What is cut is summed, so totals stay exact. */
uint32_t gather_part_nodes(const struct gather *g);

#endif
