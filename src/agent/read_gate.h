/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which new processes are read. A process is read when it is sampled, as long as the governor's limit allows
 * it. A process that is not read is identified by its executable alone (process.brief), and may be read at a later
 * sample.
 */
#ifndef AGENT_READ_GATE_H
#define AGENT_READ_GATE_H

#include <stdint.h>

struct process;

struct read_gate {
    uint64_t next_ns; /* when the next process may be read */
};

/* Sets p->brief. reads: governor.reads. */
void read_gate_judge(struct read_gate *g, struct process *p, unsigned reads, uint64_t now_ns);

#endif
