/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step up a stack of another thread or process, whose registers and memory the caller provides: the third reader of
 * the rows (rows.h), for stacks that are walked in user space later.
 */
#ifndef UNWIND_REMOTE_H
#define UNWIND_REMOTE_H

#include "elf/elf.h"
#include "proc/proc_memory.h"
#include "unwind/table.h"

enum { REMOTE_REGS = 32 };

struct remote_regs {
    uint64_t pc, sp, fp, bx;
    uint64_t leaf[REMOTE_REGS]; /* by DWARF number; valid while is_leaf */
    bool exact;                 /* pc is the interrupted instruction, not after a call or a system call */
    bool is_leaf;
};

/* True if the registers of a thread, by DWARF number, are those of a system call, which leaves the address after it in
 * rcx. On arm64 nothing in them shows it. */
static inline bool remote_after_syscall(const uint64_t *leaf, uint64_t pc)
{
#if defined(__x86_64__)
    return leaf[2] == pc;
#else
    (void) leaf;
    (void) pc;
    return false;
#endif
}

enum remote_result {
    REMOTE_STEPPED,
    REMOTE_ROOT,    /* the stack ends here, as it should */
    REMOTE_NO_RULE, /* there is no rule for this pc */
    REMOTE_BAD,     /* memory that cannot be read, or an invalid frame */
};

/* Goes to the caller by the rule in force at pc (exact) or pc - 1. */
enum remote_result remote_step(struct remote_regs *w, const struct unwind_rule *r, const struct proc_memory *m);
/* Code without tables (JIT code): follows frame pointers as long as they are plausible. */
enum remote_result remote_step_fp(struct remote_regs *w, const struct proc_memory *m);

#endif
