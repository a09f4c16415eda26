/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a question about sums begins with: service by service, the values of the selection are added into an array over
 * the service's nodes (symbols.h). What the array becomes - a tree, a table, callers - is the asker's.
 */
#ifndef SEGMENT_GATHER_H
#define SEGMENT_GATHER_H

#include "store/engines/segment/read/scan.h"

struct instance;

struct gather {
    struct scan scan;
    /* the service at hand */
    const struct scan_symbols *sym;
    uint32_t service, n_nodes;
    int64_t *acc[2]; /* per column and node; zero but for the service at hand, and again after it */
    bool few;        /* a question about rows: only nodes in touched have something, some are there twice */
    uint32_t *touched;
    uint32_t n_touched;
    struct str type, unit; /* as the symbols have them */
    uint32_t n_parts;      /* services in the answer, at most */
    /* gather.c's own */
    bool gauge, any;
    size_t most; /* bytes that a service took, about */
    size_t cap_acc[2], cap_touched;
    struct instance *instances;
    size_t cap_instances;
    uint32_t n_instances;
    struct map instance_map;
    struct arena arena;
    struct held *held; /* profiles of memtables, or the rows that are asked for */
    size_t cap_held;
    uint32_t n_held;
    uint32_t **held_of; /* per symbols and service: its first + 1 */
};

/* Called for each service that has something, with its sums in acc; for one at a time, in any order. */
typedef int (*gather_fn)(void *ctx, struct gather *g);

int gather_init(struct gather *g, struct engine *e, const struct store_query *q, struct store_notes *notes,
                struct err *err);
/* On this thread; with many services and nobody else asking, on a second one as well, where g is not the one given here. */
int gather_run(struct gather *g, gather_fn fn, void *ctx);
void gather_done(struct gather *g);
/* How much of one service may be in an answer of max nodes: all that fits when there are few, the larger part of it when
 * there are many. What is cut is summed up, so totals stay exact. */
uint32_t gather_part_nodes(const struct gather *g);

#endif
