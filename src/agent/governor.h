/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the agent within its budgets. Its input is what sampling cost (CPU time in BPF and of this process) and how
 * much memory is in use; its output is the sampling rate, how many new processes may be read per second, and how much
 * memory tables may take. On a host with many short processes most of the cost is reading processes, and a lower rate
 * does not help: therefore the rate is lowered to GOVERNOR_RATE_MIN at most, then fewer processes are read; the others
 * are identified by their executable alone. Costs are averaged over a minute, so that one large binary does not lower
 * the rate at once; the rate recovers slowly when there is room.
 *
 * Except for governor_memory(), these functions are pure arithmetic, so that tests can feed them numbers.
 */
#ifndef AGENT_GOVERNOR_H
#define AGENT_GOVERNOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GOVERNOR_RATE_MIN = 10, GOVERNOR_READS = 1000 };

struct governor_limits {
    double cpu;    /* part of all CPUs together; 0: no limit */
    size_t memory; /* bytes, kernel maps included; 0: no limit */
    unsigned cpus;
    unsigned rate;      /* as wanted */
    size_t table_bytes; /* as wanted */
};

struct governor {
    struct governor_limits limits;
    double cost;    /* average, part of all CPUs */
    unsigned rate;  /* allowed now */
    unsigned reads; /* new processes that may be read in a second; GOVERNOR_READS: all of them */
    size_t table_bytes;
    char text[96]; /* "" while nothing is limited */
};

void governor_init(struct governor *g, const struct governor_limits *l);
/* Reports the CPU time spent in an interval, and the memory in use at its end. True when the rate or the memory for
 * tables changed. */
bool governor_tell(struct governor *g, int64_t interval_ns, uint64_t spent_ns, size_t memory);

/* Private memory of this process in bytes; 0 when it cannot be read. */
size_t governor_memory(void);
/* Returns the new n for sampling one wait in n. Now n costs `part` of the machine's CPU, and may cost `target`. */
unsigned governor_waits(unsigned n, double part, double target);

#endif
