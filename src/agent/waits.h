/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user side of off-CPU samples (bpf/waits.bpf.h): sets how many waits are sampled, triggers the visits of all
 * threads, and keeps the stacks that were sent before the duration of their wait is known (AGENT_EVENT_WAIT), one per
 * thread, already walked and merged. The stacks are kept in a fixed table by thread id; a stack that falls on an
 * occupied place replaces the one there. The agent's thread only.
 */
#ifndef AGENT_WAITS_H
#define AGENT_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/bpf/agent_abi.h"

struct bpf_side;
struct process;
struct waits;

enum { WAITS_SWITCH_NS = 90 }; /* cost of a switch that is skipped: not measured each time */

struct wait_stack {
    uint64_t wait_ns;
    uint32_t tid;
    uint32_t n_kernel, n_words;
    enum agent_end end;
    bool inferred;
    uint64_t *words;
};

/* part: the part of the machine's CPU that may be used; 0: a default. */
int waits_new(struct bpf_side *bpf, double part, unsigned cpus, struct waits **ret);
void waits_free(struct waits *s);
/* To be called each time before the ring is read. flush: report all long waits up to now. */
void waits_round(struct waits *s, uint64_t now_ns, bool flush);
/* Copies the words. 0, -ENOMEM. */
int waits_keep(struct waits *s, const struct wait_stack *one);
/* NULL when it is not in the table. */
const struct wait_stack *waits_find(const struct waits *s, uint32_t tid, uint64_t wait_ns);
/* Reads the stack of a thread that waits (AGENT_EVENT_ASK), as the BPF program would have copied it. False when the
 * thread ran in the meantime. */
bool waits_read_stack(const struct process *p, const struct agent_event *e, struct agent_stack *ret);

#endif
