// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * What differs between machine architectures. Included by walk.bpf.h after struct walk_state and its helpers.
 *
 *   ARCH_TRACE_FRAMES   kernel frames of a program at a tracepoint: its own, and those of the functions that run it
 *   arch_regs           a user's registers, as the kernel saves them; ARCH_PC of them; ARCH_TP of a task: thread pointer
 *   arch_begin          sets the start of a walk from them, exact unless they are those of a system call
 *   arch_after_syscall  true if the registers that a signal interrupted are those of a system call
 *   arch_signal_frame   the registers that a signal interrupted, from the frame at sp
 *   arch_read_ra        the return address
 *   arch_code           an address without its tag and authentication bits
 */
#ifndef AGENT_ARCH_BPF_H
#define AGENT_ARCH_BPF_H

#if defined(__TARGET_ARCH_x86)

typedef struct pt_regs arch_regs;
#define ARCH_PC(regs) ((regs)->rip)
#define ARCH_TP thread.fsbase

/* ARCH_DTV: offset from tp of glibc's pointer to a thread's TLS blocks */
enum { ARCH_BX = 3, ARCH_DTV = 8, ARCH_SWITCH_CFA = 16, ARCH_TRACE_FRAMES = 2 };

static __always_inline void arch_begin(struct walk_state *w, const arch_regs *g)
{
    __u64 *leaf = w->s->event.resume.leaf;

    w->s->at.pc = g->rip;
    w->s->at.exact = (__s64) g->orig_rax < 0;
    w->s->at.sp = g->rsp;
    w->s->at.fp = g->rbp;
    w->s->at.bx = g->rbx;
    leaf[0] = g->rax;
    leaf[1] = g->rdx;
    leaf[2] = g->rcx;
    leaf[4] = g->rsi;
    leaf[5] = g->rdi;
    leaf[8] = g->r8;
    leaf[9] = g->r9;
    leaf[10] = g->r10;
    leaf[11] = g->r11;
    leaf[12] = g->r12;
    leaf[13] = g->r13;
    leaf[14] = g->r14;
    leaf[15] = g->r15;
}

/* A system call leaves the address after it in rcx. */
static __always_inline bool arch_after_syscall(struct walk_state *w)
{
    return w->s->event.resume.leaf[2] == w->s->at.pc;
}

/* ucontext at sp; gregs from +40: r8..r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip. */
static __always_inline long arch_signal_frame(struct walk_state *w)
{
    __u64 *g = w->s->context, *leaf = w->s->event.resume.leaf;

    if (bpf_probe_read_user(g, 17 * 8, (void *) (w->s->at.sp + 40)))
        return -1;
    leaf[0] = g[13];
    leaf[1] = g[12];
    leaf[2] = g[14];
    leaf[4] = g[9];
    leaf[5] = g[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        leaf[8 + i] = g[i];
    w->s->at.fp = g[10];
    w->s->at.bx = g[11];
    w->s->at.sp = g[15];
    w->s->at.pc = g[16];
    return 0;
}

static __always_inline int arch_read_ra(struct walk_state *w, struct unwind_rule *r, __u64 cfa, __u64 *ret)
{
    if (r->ra != UNWIND_RA_REG)
        return read_word(cfa - 8, ret);
    *ret = w->s->event.resume.leaf[r->reg & (AGENT_LEAF_REGS - 1)];
    return 0;
}

static __always_inline __u64 arch_code(__u64 address)
{
    return address;
}

#elif defined(__TARGET_ARCH_arm64)

typedef struct {
    __u64 regs[31], sp, pc, pstate, orig_x0;
    __s32 syscallno;
} arch_regs; /* the kernel's pt_regs begin with it */
#define ARCH_PC(regs) ((regs)->pc)
#define ARCH_TP thread.uw.tp_value

struct pt_regs {
    struct user_pt_regs user_regs;
} __attribute__((preserve_access_index));

enum {
    ARCH_BX = 255,
    ARCH_DTV = 0,
    ARCH_SWITCH_CFA = 24, /* go_table.c */
    ARCH_TRACE_FRAMES = 4,
    ARCH_FP = 29,
    ARCH_G = 28, /* Go's g, also in system calls */
    ARCH_LR = 30,
    ARCH_CONTEXT = 128 + 176 + 8
};

static __always_inline void arch_begin(struct walk_state *w, const arch_regs *g)
{
    __u64 *leaf = w->s->event.resume.leaf;

    w->s->at.pc = g->pc;
    w->s->at.exact = g->syscallno < 0;
    w->s->at.sp = g->sp;
    w->s->at.fp = g->regs[ARCH_FP];
#pragma unroll
    for (int i = 0; i <= ARCH_LR; i++)
        leaf[i] = g->regs[i];
}

/* Nothing in them shows it. */
static __always_inline bool arch_after_syscall(struct walk_state *w)
{
    return false;
}

/* siginfo (128 bytes) at sp, then ucontext; its mcontext at +176: fault address, x0..x30, sp, pc. */
static __always_inline long arch_signal_frame(struct walk_state *w)
{
    __u64 *g = w->s->context, *leaf = w->s->event.resume.leaf;

    if (bpf_probe_read_user(g, 33 * 8, (void *) (w->s->at.sp + ARCH_CONTEXT)))
        return -1;
#pragma unroll
    for (int i = 0; i <= ARCH_LR; i++)
        leaf[i] = g[i];
    w->s->at.fp = g[ARCH_FP];
    w->s->at.sp = g[31];
    w->s->at.pc = g[32];
    return 0;
}

static __always_inline int arch_read_ra(struct walk_state *w, struct unwind_rule *r, __u64 cfa, __u64 *ret)
{
    if (r->ra != UNWIND_RA_REG)
        return read_word(cfa + (__s64) r->aux * 8, ret);
    *ret = w->s->event.resume.leaf[ARCH_LR];
    return 0;
}

/* Pointer authentication codes and tags are above bit 47. */
static __always_inline __u64 arch_code(__u64 address)
{
    return address & 0x0000ffffffffffffull;
}

#else
#error "this machine is not supported"
#endif

#endif
