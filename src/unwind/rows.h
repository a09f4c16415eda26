/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unwind rows: one format with three readers (the SDK's signal handler, the agent's BPF program, remote.h).
 * Compiled from .eh_frame and .debug_frame by table.c. This header is plain enough for clang's BPF target.
 *
 *   row    4 bytes   u16 pc      low 16 bits of the ELF address where the row begins; it ends where the next begins
 *                    u16 rule    index into the rules of the table; 0 = nothing is known here (a gap)
 *   page   8 bytes   u32 row     index of its first row
 *                    u32 n       rows; 0 = nothing is known in these 64 KiB of addresses
 *   rule  12 bytes   see below; rule 0 is UNWIND_CFA_NONE
 *   block  2 bytes   128 a page, for the handler only: block b holds the index, within the page, of the row in force at
 *                    the page's byte b * 512, which leaves a search over a handful of rows
 *
 * Invariants: rows of a page ascend by pc and lie in one shard (row / 65536 is equal for all of them); the first row of
 * a page has pc 0, so that a search never leaves its page.
 */
#ifndef UNWIND_ROWS_H
#define UNWIND_ROWS_H

#include <linux/types.h>

enum {
    UNWIND_PAGE_BITS = 16,
    UNWIND_SHARD_ROWS = 65536,
    UNWIND_BLOCK_BITS = 9,
    UNWIND_PAGE_BLOCKS = 1 << (UNWIND_PAGE_BITS - UNWIND_BLOCK_BITS),
    UNWIND_RULES_MAX = 65535,
};

struct unwind_row {
    __u16 pc, rule;
};

struct unwind_page {
    __u32 row, n;
};

/* How the canonical frame address (CFA: the stack pointer of the caller after the call) is found. */
enum unwind_cfa {
    UNWIND_CFA_NONE,     /* unknown */
    UNWIND_CFA_SP,       /* sp + cfa_off */
    UNWIND_CFA_FP,       /* fp + cfa_off */
    UNWIND_CFA_REG,      /* register `reg` (DWARF number) + cfa_off: known in leaf frames; rbx in every frame */
    UNWIND_CFA_PLT,      /* sp + 8 + ((pc & 15) >= reg ? 8 : 0): x86 procedure linkage tables */
    UNWIND_CFA_DEREF_SP, /* *(sp + cfa_off) + reg * 8 */
    UNWIND_CFA_DEREF_FP, /* *(fp + cfa_off) + reg * 8 */
    UNWIND_CFA_SIGNAL,   /* a signal frame: all registers are in the ucontext at sp */
    UNWIND_CFA_END,      /* the root: there is no caller */
    UNWIND_CFA_SWITCH,   /* a runtime has switched stacks (Go): the frame pointer is the caller's, on another stack */
};

/* Where the return address is. x86 has it at CFA - 8, except for the last jump of an exception. */
enum unwind_ra {
    UNWIND_RA_X86,    /* *(CFA - 8) */
    UNWIND_RA_OFFSET, /* *(CFA + aux * 8) */
    UNWIND_RA_REG,    /* in a register, leaf frames only: arm64's link register, x86's `reg` (CFA by sp or fp) */
};

enum {
    UNWIND_FP_AT_FP = 1 << 0, /* fp is saved at fp + fp * 8, not at CFA + fp * 8 */
    UNWIND_BX_AT_FP = 1 << 1, /* the same for rbx */
    UNWIND_FP_SAVED = 1 << 2, /* fp was saved; else it is unchanged */
    UNWIND_BX_SAVED = 1 << 3,
};

struct unwind_rule {
    __u8 cfa;   /* enum unwind_cfa */
    __u8 reg;   /* see there */
    __u8 ra;    /* enum unwind_ra */
    __u8 flags; /* UNWIND_FP_... */
    __s32 cfa_off;
    __s16 fp;  /* where the frame pointer was saved, in units of 8 bytes */
    __s16 aux; /* x86: where rbx was saved; arm64: where the return address was */
};

#endif
