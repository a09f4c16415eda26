/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the agent within its budgets. It is told what sampling cost (time in BPF and of this process) and what memory is
 * held, and answers with the rate to sample at and how much memory tables may take. Costs are averaged over a minute, so
 * that one large binary does not lower the rate at once; the rate comes back slowly when there is room.
 *
 * Pure arithmetic: tests feed it numbers.
 */
#ifndef AGENT_GOVERNOR_H
#define AGENT_GOVERNOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct governor_limits {
    double cpu;    /* part of all CPUs together; 0: no limit */
    size_t memory; /* bytes, kernel maps included; 0: no limit */
    unsigned cpus;
    unsigned rate;      /* as wanted */
    size_t table_bytes; /* as wanted */
};

struct governor {
    struct governor_limits limits;
    double cost;   /* average, part of all CPUs */
    unsigned rate; /* allowed now */
    size_t table_bytes;
    char text[96]; /* "" while nothing is held back */
};

void governor_init(struct governor *g, const struct governor_limits *l);
/* What was spent in an interval, and what is held at its end. True when the rate or the tables' bytes changed. */
bool governor_tell(struct governor *g, int64_t interval_ns, uint64_t spent_ns, size_t memory);

/* One wait in how many is to be looked at next: one in n now, which takes this part of the machine, and may take `target`. */
unsigned governor_waits(unsigned n, double part, double target);

#endif
