/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of code that a JIT compiled: /tmp/perf-PID.map of Node (--perf-basic-prof), Java's agents and others, as the
 * process sees it. Lines "START SIZE NAME"; later lines win.
 *
 * Only places are kept, 16 bytes a line: names stay in the file. What was appended is read in pieces, as far as the part
 * of the budget that the process has (far_call.h) and the memory for all maps together allow.
 */
#ifndef AGENT_PERF_MAP_H
#define AGENT_PERF_MAP_H

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

struct perf_map;
struct process;

/* Of all maps together: bytes of memory, and of a file that are read at once; 0: no limit. */
void perf_maps_limit(size_t memory, size_t piece);
/* Maps that could not be read whole. */
uint64_t perf_maps_cut(void);

/* -ENOENT when the process has none. */
int perf_map_new(const struct process *p, struct perf_map **ret, struct err *e);
void perf_map_free(struct perf_map *m);
/* Reads what was appended, at most a few times a second, unless it has expired. */
void perf_map_refresh(struct perf_map *m, const struct process *p);
void perf_map_expire(struct perf_map *m);
/* How many names it has. */
size_t perf_map_count(const struct perf_map *m);
/* Which of the names read so far is that of the code at the address, 0: none. It is another one when the code is. */
uint64_t perf_map_place(const struct perf_map *m, uint64_t address);
/* Refreshes, and finds the name of the code at the address; it is valid until the next call for any map. False when there
 * is none. */
bool perf_map_find(struct perf_map *m, const struct process *p, uint64_t address, struct str *ret);

#endif
