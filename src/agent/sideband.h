/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel tells of processes: fork, exec, exit, names and executable mappings, as records in one perf buffer per
 * CPU, read in the order of their times. Works without BPF. The agent's thread only.
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

/* For every process of the machine on every CPU. */
int sideband_new(size_t bytes_per_cpu, struct sideband **ret, struct err *e);
void sideband_free(struct sideband *s);
/* Adds the descriptors to an epoll set; each becomes readable with the first record. */
int sideband_add_to(struct sideband *s, int epoll_fd);
/* Hands everything that was told to p; returns the number of records, negative without memory. lost() counts those that
 * the kernel had no room for: then nothing is sure, and processes are to be read again. */
int sideband_drain(struct sideband *s, struct processes *p);
unsigned long sideband_lost(const struct sideband *s);
size_t sideband_memory(const struct sideband *s);

/* One record, for whoever reads rings of its own: hands it to p, returns how many the kernel lost. */
unsigned long sideband_record(struct processes *p, const struct perf_event_header *h, uint64_t time);

#endif
