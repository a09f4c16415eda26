/* SPDX-License-Identifier: Apache-2.0 */
/* perf_event_open(2) and the machine's CPUs. */
#ifndef AGENT_PERF_OPEN_H
#define AGENT_PERF_OPEN_H

#include <stdbool.h>
#include <sys/types.h>

struct perf_event_attr;

/* A descriptor, close-on-exec, or a negative errno. What this process may not open, the opener does (perf_opener.h). */
int perf_open(struct perf_event_attr *attr, pid_t pid, int cpu);
int perf_open_here(struct perf_event_attr *attr, pid_t pid, int cpu); /* only by this process's own rights */
long perf_paranoid(void); /* kernel.perf_event_paranoid; -1: the kernel has no perf events */
int perf_cpus(void);      /* number of possible CPUs: all CPU numbers are below this */
bool perf_cpu_is_online(int cpu);

#endif
