/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens perf events for an agent that has given up root. Kernels of Debian (kernel.perf_event_paranoid 3) and Ubuntu (4)
 * allow perf events only with CAP_SYS_ADMIN, whatever CAP_PERFMON says. Then a small process keeps that capability: it
 * answers requests on a socket and can do nothing else. perf_open() asks it for what the kernel refuses. The socket is
 * inherited by all processes of the agent, and the opener ends when the last of them is gone.
 */
#ifndef AGENT_PERF_OPENER_H
#define AGENT_PERF_OPENER_H

#include <stdbool.h>
#include <sys/types.h>

struct perf_event_attr;

/* Starts the process, before rights are dropped and threads are started. restrict_self is called in it and returns a
 * negative errno if it could not give up its rights; then there is no opener. */
int perf_opener_start(int (*restrict_self)(void));
/* Once rights are dropped: ends the opener if this process can open events itself. */
void perf_opener_settle(void);
/* Its socket, which children that close descriptors must keep; -1: there is no opener. */
int perf_opener_fd(void);
/* An event of a whole CPU, as perf_open(); -EACCES without an opener. */
int perf_opener_ask(const struct perf_event_attr *attr, int cpu);

#endif
