/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of code that a JIT compiled: /tmp/perf-PID.map of Node (--perf-basic-prof), Java's agents and others, as the
 * process sees it. Lines "START SIZE NAME"; later lines win. Read again when the file has grown and a name is missing.
 */
#ifndef AGENT_PERF_MAP_H
#define AGENT_PERF_MAP_H

#include "base/err.h"
#include "base/str.h"

struct perf_map;
struct process;

/* -ENOENT when the process has none. */
int perf_map_new(const struct process *p, struct perf_map **ret, struct err *e);
void perf_map_free(struct perf_map *m);
/* The next name that is not found has the file read again, however recently it was read. */
void perf_map_expire(struct perf_map *m);
/* How many names it has. */
size_t perf_map_count(const struct perf_map *m);
/* Finds the name of the code at the address; it is valid until the next call. False when there is none. */
bool perf_map_find(struct perf_map *m, const struct process *p, uint64_t address, struct str *ret, uint64_t *ret_start);

#endif
