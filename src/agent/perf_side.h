/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampling without BPF, with perf_event_open(2) alone: only processes that the user may trace; every sample has its
 * registers and a copy of its stack. Its events have the same form as those of the BPF programs (bpf/agent_abi.h). The
 * agent's thread only.
 */
#ifndef AGENT_PERF_SIDE_H
#define AGENT_PERF_SIDE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct perf_side;
struct processes;

/* kernel: record kernel frames as well, if that is allowed. children: also of processes that are started later. */
int perf_side_new(unsigned hz, bool kernel, bool children, struct perf_side **ret, struct err *e);
void perf_side_free(struct perf_side *s);
/* Adds all threads of the process, and those that it starts later. */
int perf_side_add_pid(struct perf_side *s, pid_t pid, struct err *e);
int perf_side_add_to(struct perf_side *s, int epoll_fd);
/* Passes records about processes to p, and samples to f as struct agent_stack and struct agent_event, in order of
 * time. */
int perf_side_drain(struct perf_side *s, struct processes *p, int (*f)(void *arg, void *event, size_t n), void *arg);
unsigned long perf_side_lost(const struct perf_side *s);
/* CPU time that the threads have used since they were added, in nanoseconds; also in the kernel, and of threads that have
 * ended. 0 without s. */
uint64_t perf_side_used(const struct perf_side *s);
size_t perf_side_memory(const struct perf_side *s);

#endif
