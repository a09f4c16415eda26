/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user side of off-CPU samples (bpf/waits.bpf.h): how many waits are looked at, the looks at all threads, and the stacks that
 * were told ahead of the wait's time (AGENT_EVENT_WAIT), one a thread, walked and merged already. As many stacks are kept as fit
 * into a fixed table by thread id; one that falls on another's place takes it. The agent's thread only.
 */
#ifndef AGENT_WAITS_H
#define AGENT_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/bpf/agent_abi.h"

struct bpf_side;
struct process;
struct waits;

enum { WAITS_SWITCH_NS = 90 }; /* what a switch costs of which nothing is kept: not measured at each one */

struct wait_stack {
    uint64_t wait_ns;
    uint32_t tid;
    uint32_t n_kernel, n_words;
    enum agent_end end;
    uint64_t *words;
};

/* part: of the machine's CPU that may be taken; 0: a default. */
int waits_new(struct bpf_side *bpf, double part, unsigned cpus, struct waits **ret);
void waits_free(struct waits *s);
/* As often as the ring is read, before it is. flush: tell all long waits up to now. */
void waits_round(struct waits *s, uint64_t now_ns, bool flush);
/* Copies the words. 0, -ENOMEM. */
int waits_keep(struct waits *s, const struct wait_stack *one);
/* NULL when it is not there. */
const struct wait_stack *waits_find(const struct waits *s, uint32_t tid, uint64_t wait_ns);
/* Reads the stack of a thread that waits (AGENT_EVENT_ASK), as the BPF program would have copied it. False when the thread went on
 * meanwhile. */
bool waits_read_stack(const struct process *p, const struct agent_event *e, struct agent_stack *ret);

#endif
