/* SPDX-License-Identifier: Apache-2.0 */
/* A process's executable mappings: sorted by start, without overlaps. Used by process.c alone. */
#ifndef AGENT_PROCESS_MAPS_H
#define AGENT_PROCESS_MAPS_H

#include "agent/process.h"

enum { PROCESS_MAPPINGS_MAX = 65536 };

void process_maps_clear(struct process *p);
/* Adds a mapping; it replaces what was mapped there before, as with mmap(2). */
int process_maps_add(struct process *p, const struct process_mapping *m);
/* Copies the mappings of `from`, including references to objects. */
int process_maps_copy(struct process *p, const struct process *from);
/* Reads all mappings again from /proc/PID/maps; objects that were found are kept. */
int process_maps_read(struct process *p, uint32_t pid);
/* Code that belongs to no file: "//anon" in mmap records, no path in /proc. */
bool process_maps_is_anonymous(const char *path);

/* process.c */
struct objects *processes_objects(struct processes *s);
struct file_memo *processes_memo(struct processes *s);

#endif
