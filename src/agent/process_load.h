/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of processes in the BPF maps, AGENT_PROCESSES at most; the one that was not sampled for the longest time
 * makes room. The agent's thread only.
 */
#ifndef AGENT_PROCESS_LOAD_H
#define AGENT_PROCESS_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpf_side;
struct process;
struct process_loader;
struct processes;
struct row_store;

int process_loader_new(struct bpf_side *bpf, struct processes *processes, struct process_loader **ret);
void process_loader_free(struct process_loader *l);
/* Records that the kernel refused. */
uint64_t process_loader_refused(const struct process_loader *l);
/* Finds its language and spans, if that has not been done yet, and puts its record into the map. */
void process_load(struct process_loader *l, struct process *p, uint64_t now_ns);
/* For a process that a person named: does the same before its first sample and loads the unwind rows of its files, while the
 * store has no more than that many bytes. Otherwise the first stack in each file is copied, and as many more as are taken
 * while the file is read; some of them are cut. */
void process_load_given(struct process_loader *l, struct process *p, struct row_store *rows, size_t most);
/* True when the process should be loaded now, for the first time or again. */
bool process_load_is_due(const struct process *p, uint64_t now_ns);
/* Must be called before the process is freed. */
void process_unload(struct process_loader *l, struct process *p);

#endif
