/* SPDX-License-Identifier: Apache-2.0 */
/* The stack of a sample: what BPF programs could not walk is walked here, and frames of a language are put between the native
 * ones. The agent's thread only. */
#ifndef AGENT_AGENT_STACK_H
#define AGENT_AGENT_STACK_H

#include <stdint.h>

#include "agent/bpf/agent_abi.h"

struct agent;
struct process;

/* The copy of a stack that belongs to the event; NULL when there is none. */
const struct agent_stack *agent_stack_copy(const struct agent *a, const struct agent_event *e);
/* Completes the words of the event, of which *n are in a->words; sets a->labels. Returns how the walk ended. */
enum agent_end agent_stack_finish(struct agent *a, struct process *p, const struct agent_event *e, uint32_t *n);

#endif
