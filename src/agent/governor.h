/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the agent within its budgets. It is told what sampling cost (time in BPF and of this process) and what memory is
 * held, and answers with the rate to sample at, how many new processes a second may be read, and how much memory tables may
 * take. Reading processes is what a host with many short ones costs, and no lower rate helps: the rate goes down to
 * GOVERNOR_RATE_MIN, then fewer processes are read; those that are not are known by their executable alone. Costs are averaged over a minute, so
 * that one large binary does not lower the rate at once; the rate comes back slowly when there is room.
 *
 * Pure arithmetic, but for governor_memory(): tests feed it numbers.
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
    char text[96]; /* "" while nothing is held back */
};

void governor_init(struct governor *g, const struct governor_limits *l);
/* What was spent in an interval, and what is held at its end. True when the rate or the tables' bytes changed. */
bool governor_tell(struct governor *g, int64_t interval_ns, uint64_t spent_ns, size_t memory);

/* Memory of this process that is its own, in bytes; 0 when it cannot be read. */
size_t governor_memory(void);
/* One wait in how many is to be looked at next: one in n now, which takes this part of the machine, and may take `target`. */
unsigned governor_waits(unsigned n, double part, double target);

#endif
