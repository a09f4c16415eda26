/* SPDX-License-Identifier: Apache-2.0 */
/* perf_event_open(2) and the machine's CPUs. */
#ifndef AGENT_PERF_OPEN_H
#define AGENT_PERF_OPEN_H

#include <stdbool.h>
#include <sys/types.h>

struct perf_event_attr;

/* A descriptor, close-on-exec, or a negative errno. */
int perf_open(struct perf_event_attr *attr, pid_t pid, int cpu);
int perf_cpus(void); /* number of possible CPUs: all CPU numbers are below this */
bool perf_cpu_is_online(int cpu);

#endif
