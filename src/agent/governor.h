/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the agent within its budgets. Its input is the CPU time that sampling has cost so far (in BPF, in this process and
 * in the processes that read binaries for it) and how much memory is in use; its output is the sampling rate, whether new
 * processes and files may be read at the moment, and how much memory tables may take.
 *
 * The CPU budget holds for every period of 60 seconds, the first one included. The time spent in each of the last 60
 * seconds is known. From it follows what may be spent in the current second: as much as in the second that leaves the
 * period, and a part of what is left of the budget. A start, which costs more than normal operation, is therefore spread
 * over the first minute.
 *
 * When a second's share is used up, new processes and files are not read until the next second (`open`): on a host with many
 * short processes they are most of the cost, and a lower rate would not help. Only if the cost is too high over ten seconds
 * in which hardly anything was read, the rate is lowered, to GOVERNOR_RATE_MIN at most; it recovers slowly when there is room.
 *
 * Except for governor_memory(), these functions are pure arithmetic, so that tests can feed them numbers.
 */
#ifndef AGENT_GOVERNOR_H
#define AGENT_GOVERNOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GOVERNOR_RATE_MIN = 10, GOVERNOR_SECONDS = 60 };

struct governor_limits {
    double cpu;    /* part of all CPUs together; 0: no limit */
    size_t memory; /* bytes, kernel maps included; 0: no limit */
    unsigned cpus;
    unsigned rate;      /* as wanted */
    size_t table_bytes; /* as wanted */
};

struct governor_second {
    uint64_t spent_ns, share_ns;
    uint32_t reports, open_reports; /* calls of governor_spent(), and those that found some of the share left */
};

struct governor {
    struct governor_limits limits;
    struct governor_second seconds[GOVERNOR_SECONDS]; /* by second % GOVERNOR_SECONDS */
    uint64_t second;                                  /* the current one, counted from begin_ns */
    uint64_t begin_ns, total_ns;                      /* total_ns: as reported last */
    uint64_t changed;                                 /* the second in which the rate was changed */
    unsigned rate;                                    /* allowed now */
    bool open;                                        /* new processes and files may be read */
    size_t table_bytes;
    char text[96]; /* "" while nothing is limited */
};

void governor_init(struct governor *g, const struct governor_limits *l, uint64_t now_ns);
/* Reports all CPU time spent since governor_init(). Sets `open` and, once a second, the rate. True when the rate
 * changed. */
bool governor_spent(struct governor *g, uint64_t now_ns, uint64_t total_ns);
/* Reports the memory in use. True when the memory for tables changed. */
bool governor_used(struct governor *g, size_t memory);
/* True if a new second has begun since the last report: costs that are not cheap to find out are due. */
bool governor_is_due(const struct governor *g, uint64_t now_ns);

/* Private memory of this process in bytes; 0 when it cannot be read. */
size_t governor_memory(void);
/* Returns the new n for sampling one wait in n. Now n costs `part` of the machine's CPU, and may cost `target`. */
unsigned governor_waits(unsigned n, double part, double target);

#endif
