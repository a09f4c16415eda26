/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks a copied stack: registers, and the bytes from sp upwards. Uses the same rows as the BPF programs. Needed when
 * something was not loaded in BPF yet, or when all stacks are copied.
 */
#ifndef AGENT_STACK_WALK_H
#define AGENT_STACK_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/bpf/agent_abi.h"
#include "proc/proc_memory.h"

struct stack_copy {
    uint64_t start; /* address of bytes[0] */
    uint64_t n;
    const uint8_t *bytes;
};

/* The rule at an address of the process (a return address minus one). NULL with *ret_end: AGENT_END_NO_MAPPING,
 * AGENT_END_NO_RULE, or AGENT_END_NONE for "by frame pointers". */
typedef const struct unwind_rule *stack_rule(void *arg, uint64_t address, uint32_t *ret_end);

/* Reads code of the process: n bytes from the address on, or those before the first page that cannot be read. */
typedef size_t stack_code(void *arg, uint64_t address, uint8_t *ret, size_t n);
/* What the walk needs to know of the process. The others are for code without call frame information: infer(), the rule that the
 * instructions at pc show; called(), whether a call ends at pc; learn(): the inferred rule was right, or with NULL, nothing
 * leads on from there; may be NULL. exact: pc is an instruction that was interrupted, and not after a call. */
struct stack_source {
    stack_rule *rule;
    bool (*infer)(void *arg, uint64_t pc, struct unwind_rule *ret);
    bool (*called)(void *arg, uint64_t pc);
    void (*learn)(void *arg, uint64_t pc, bool exact, const struct unwind_rule *rule);
    void *arg;
};
bool stack_infer(stack_code *code, void *arg, uint64_t pc, struct unwind_rule *ret);
bool stack_called(stack_code *code, void *arg, uint64_t pc);

/* The words of a stack: n of them, at most max. fps, unless NULL, gets the frame pointers of those that are walked by them; 0: of
 * others. */
struct stack_words {
    uint64_t *v;
    uint32_t n, max;
    bool inferred; /* a caller was found without call frame information */
    uint64_t *fps;
};

/* The copy as memory, valid as long as it is. */
struct proc_memory stack_copy_memory(const struct stack_copy *copy);

/* Appends words; returns how the walk ended. */
enum agent_end stack_walk(const struct agent_regs *regs, const struct stack_copy *copy,
                          const struct stack_source *source, struct stack_words *words);

#endif
