/* SPDX-License-Identifier: Apache-2.0 */
/* Applies one unwind rule to the registers of another thread or process. */
#include "unwind/remote.h"

#if defined(__x86_64__)
enum { BX = 3, SIGNAL_REGS = 17, CONTEXT = 40 };
#else
enum { BX = 255, LINK = 30, CONTEXT = 128 + 176 + 8 };
#endif

/* ucontext at sp; gregs from +40: r8..r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip. */
static enum remote_result signal_frame(struct remote_regs *w, const struct proc_memory *m)
{
#if defined(__x86_64__)
    uint64_t g[SIGNAL_REGS];

    if (proc_memory_read(m, w->sp + CONTEXT, g, sizeof g) < 0)
        return REMOTE_BAD;
    w->leaf[0] = g[13];
    w->leaf[1] = g[12];
    w->leaf[2] = g[14];
    w->leaf[4] = g[9];
    w->leaf[5] = g[8];
    for (int i = 0; i < 8; i++)
        w->leaf[8 + i] = g[i];
    w->fp = g[10];
    w->bx = g[11];
    w->sp = g[15];
    w->pc = g[16];
#else
    uint64_t g[33]; /* x0..x30, sp, pc of the sigcontext after siginfo (128 bytes) and the ucontext's head */

    if (proc_memory_read(m, w->sp + CONTEXT, g, sizeof g) < 0)
        return REMOTE_BAD;
    memcpy(w->leaf, g, 31 * sizeof *g);
    w->fp = g[29];
    w->sp = g[31];
    w->pc = g[32];
#endif
    w->exact = !remote_after_syscall(w->leaf, w->pc);
    w->is_leaf = true;
    return REMOTE_STEPPED;
}

static bool find_cfa(struct remote_regs *w, const struct unwind_rule *r, const struct proc_memory *m, uint64_t *ret)
{
    uint64_t off = (uint64_t) (int64_t) r->cfa_off;

    switch (r->cfa) {
    case UNWIND_CFA_SP:
        *ret = w->sp + off;
        return true;
    case UNWIND_CFA_FP:
    case UNWIND_CFA_SWITCH:
        *ret = w->fp + off;
        return true;
    case UNWIND_CFA_PLT:
        *ret = w->sp + 8 + ((w->pc & 15) >= r->reg ? 8 : 0);
        return true;
    case UNWIND_CFA_DEREF_SP:
    case UNWIND_CFA_DEREF_FP:
        if (!proc_memory_u64(m, (r->cfa == UNWIND_CFA_DEREF_SP ? w->sp : w->fp) + off, ret))
            return false;
        *ret += r->reg * 8u;
        return true;
    case UNWIND_CFA_REG:
        if (r->reg == BX)
            *ret = w->bx + off;
        else if (w->is_leaf && r->reg < REMOTE_REGS)
            *ret = w->leaf[r->reg] + off;
        else
            return false;
        return true;
    default:
        return false;
    }
}

static bool find_ra(struct remote_regs *w, const struct unwind_rule *r, const struct proc_memory *m, uint64_t cfa,
                    uint64_t *ret)
{
    switch (r->ra) {
    case UNWIND_RA_X86:
        return proc_memory_u64(m, cfa - 8, ret);
    case UNWIND_RA_OFFSET:
        return proc_memory_u64(m, cfa + (uint64_t) ((int64_t) r->aux * 8), ret);
    default:
        if (!w->is_leaf)
            return false;
#if defined(__x86_64__)
        *ret = w->leaf[r->reg & (REMOTE_REGS - 1)];
#else
        *ret = w->leaf[LINK];
#endif
        return true;
    }
}

/* arm64's pointer authentication codes and tags are above bit 47. */
static uint64_t code_address(uint64_t pc)
{
#if defined(__aarch64__)
    return pc & 0x0000ffffffffffffull;
#else
    return pc;
#endif
}

static void arrive(struct remote_regs *w, uint64_t pc, uint64_t sp, uint64_t fp)
{
    w->pc = code_address(pc);
    w->sp = sp;
    w->fp = fp;
    w->exact = w->is_leaf = false;
}

/* Go on arm64 keeps the frame pointer just below the stack pointer, where a copy of the stack may not reach: its own frames do
 * without it. */
static bool read_fp(const struct remote_regs *w, const struct unwind_rule *r, const struct proc_memory *m, uint64_t cfa,
                    uint64_t *ret)
{
    uint64_t at = (r->flags & UNWIND_FP_AT_FP ? w->fp : cfa) + (uint64_t) ((int64_t) r->fp * 8);

    if (proc_memory_u64(m, at, ret))
        return true;
    *ret = 0;
    return at < w->sp;
}

enum remote_result remote_step(struct remote_regs *w, const struct unwind_rule *r, const struct proc_memory *m)
{
    uint64_t cfa, ra, fp = w->fp, bx = w->bx;

    if (r->cfa == UNWIND_CFA_END)
        return REMOTE_ROOT;
    if (r->cfa == UNWIND_CFA_SIGNAL)
        return signal_frame(w, m);
    if (!find_cfa(w, r, m, &cfa))
        return r->cfa == UNWIND_CFA_NONE ? REMOTE_NO_RULE : REMOTE_BAD;
    if (r->cfa != UNWIND_CFA_SWITCH && (cfa < w->sp || (cfa == w->sp && r->ra != UNWIND_RA_REG) || cfa & 7))
        return REMOTE_BAD; /* a stack is walked in one direction, except where a runtime switches stacks */
    if (!find_ra(w, r, m, cfa, &ra))
        return REMOTE_BAD;
    if (r->flags & UNWIND_FP_SAVED && !read_fp(w, r, m, cfa, &fp))
        return REMOTE_BAD;
    if (r->flags & UNWIND_BX_SAVED &&
        !proc_memory_u64(m, (r->flags & UNWIND_BX_AT_FP ? w->fp : cfa) + (uint64_t) ((int64_t) r->aux * 8), &bx))
        return REMOTE_BAD;
    arrive(w, ra, cfa, fp);
    w->bx = bx;
    return w->pc ? REMOTE_STEPPED : REMOTE_ROOT;
}

enum remote_result remote_step_fp(struct remote_regs *w, const struct proc_memory *m)
{
    uint64_t v[2];

    if (w->fp < w->sp || w->fp & 7 || proc_memory_read(m, w->fp, v, sizeof v) < 0)
        return REMOTE_NO_RULE;
    if (!v[1])
        return REMOTE_ROOT;
    if (v[0] && v[0] <= w->fp)
        return REMOTE_NO_RULE;
    arrive(w, v[1], w->fp + 16, v[0]);
    return REMOTE_STEPPED;
}
