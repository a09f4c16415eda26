/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events other than the clock that samples are taken by: "cycles,cache-misses/100000". Names are those of perf(1). Without
 * /N the kernel adjusts the period so that each CPU takes as many samples per second as the rate says; with it every N-th
 * event is a sample. A sample stands for as many events as its period has.
 */
#ifndef AGENT_PERF_EVENTS_H
#define AGENT_PERF_EVENTS_H

#include <stdint.h>

#include "base/err.h"

enum { PERF_EVENTS_MAX = 4 };

struct perf_event_choice {
    const char *name; /* static; becomes the type of the profile */
    uint32_t type;    /* PERF_TYPE_* */
    uint64_t config;
    uint64_t period; /* 0: by the rate */
};

struct perf_events {
    struct perf_event_choice v[PERF_EVENTS_MAX];
    uint32_t n;
};

/* -EINVAL with an error message that lists the names, or suggests one. */
int perf_events_parse(const char *text, struct perf_events *ret, struct err *e);
/* Opens the event on a CPU, for all processes. The file descriptor, or a negative errno with an error message that says
 * why this machine does not have it. */
int perf_events_open(const struct perf_event_choice *c, int cpu, unsigned hz, struct err *e);
/* The error message for an event that could not be opened with this errno. Returns code. devices: the directory where the
 * kernel lists its counters, cpuinfo: that of /proc. */
int perf_events_explain(const struct perf_event_choice *c, int code, const char *devices, const char *cpuinfo,
                        struct err *e);

#endif
