/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks a copied stack: registers, and the bytes from sp upwards. Uses the same rows as the BPF programs. Needed when
 * something was not loaded in BPF yet, or when all stacks are copied.
 */
#ifndef AGENT_STACK_WALK_H
#define AGENT_STACK_WALK_H

#include <stdint.h>

#include "agent/bpf/agent_abi.h"

struct stack_copy {
    uint64_t start; /* address of bytes[0] */
    uint64_t n;
    const uint8_t *bytes;
};

/* The rule at an address of the process (a return address minus one). NULL with *ret_end: AGENT_END_NO_MAPPING,
 * AGENT_END_NO_RULE, or AGENT_END_NONE for "by frame pointers". */
typedef const struct unwind_rule *stack_rule(void *arg, uint64_t address, uint32_t *ret_end);

/* The words of a stack: n of them, at most max. */
struct stack_words {
    uint64_t *v;
    uint32_t n, max;
};

/* Appends words; returns how the walk ended. */
enum agent_end stack_walk(const struct agent_regs *regs, const struct stack_copy *copy, stack_rule *rule, void *arg,
                          struct stack_words *words);

#endif
