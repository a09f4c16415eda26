/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampling without BPF, by perf_event_open alone: the processes one may trace, every sample with its registers and a copy
 * of its stack. What it hands on looks like what the BPF programs send (bpf/agent_abi.h). The agent's thread only.
 */
#ifndef AGENT_PERF_SIDE_H
#define AGENT_PERF_SIDE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct perf_side;
struct processes;

/* kernel: kernel frames as well, where that is allowed. */
int perf_side_new(unsigned hz, bool kernel, struct perf_side **ret, struct err *e);
void perf_side_free(struct perf_side *s);
/* All threads of the process, and what it starts from now on. */
int perf_side_add_pid(struct perf_side *s, pid_t pid, struct err *e);
int perf_side_add_to(struct perf_side *s, int epoll_fd);
/* Records of processes go to p, samples to f as struct agent_stack and struct agent_event; in order of time. */
int perf_side_drain(struct perf_side *s, struct processes *p, int (*f)(void *arg, void *event, size_t n), void *arg);
unsigned long perf_side_lost(const struct perf_side *s);
unsigned long perf_side_samples(const struct perf_side *s);
size_t perf_side_memory(const struct perf_side *s);

#endif
