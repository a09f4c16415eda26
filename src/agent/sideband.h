/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's records about processes: fork, exec, exit, names and executable mappings, in one perf buffer per CPU,
 * read in the order of their times. Works without BPF. The agent's thread only.
 */
#ifndef AGENT_SIDEBAND_H
#define AGENT_SIDEBAND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct perf_event_header;
struct processes;
struct sideband;

/* Opens the buffers, for every process of the machine on every CPU. bytes: of all of them, unless that is too little for
 * one of them to be of use. */
int sideband_new(size_t bytes, struct sideband **ret, struct err *e);
void sideband_free(struct sideband *s);
/* Adds the descriptors to an epoll set; each becomes readable when it has a record. */
int sideband_add_to(struct sideband *s, int epoll_fd);
/* Passes all records to p; returns their number, or a negative errno when memory is exhausted. Records that the kernel
 * had no room for are counted as lost: then the state of processes is uncertain and must be read again. */
int sideband_drain(struct sideband *s, struct processes *p);
unsigned long sideband_lost(const struct sideband *s);
size_t sideband_memory(const struct sideband *s);

/* Passes one record to p, for callers that read rings of their own; returns how many records the kernel lost. */
unsigned long sideband_record(struct processes *p, const struct perf_event_header *h, uint64_t time);

#endif
