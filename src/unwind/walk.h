/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step up the stack of the calling thread, for signal handlers and hooks: no lock, no allocation, and no calls
 * except one harmless system call where memory is not known to be mapped. Everything is inline, so that all code of the
 * signal handler is in one file.
 *
 * Memory is read only where it is known to be mapped: inside [lo, hi) directly; elsewhere the address of a page is
 * first passed to the kernel, which returns EFAULT instead of a fault.
 */
#ifndef UNWIND_WALK_H
#define UNWIND_WALK_H

#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/macros.h"
#include "unwind/table.h"

enum { WALK_PAGE = 4096, WALK_LEAF_REGS = 32 };

struct walk {
    uint64_t pc, sp, fp, bx;
    const uint64_t *leaf;    /* the interrupted registers (ucontext order) while no frame was left, else NULL */
    uint64_t lo, hi;         /* memory that may be read */
    uint64_t own_lo, own_hi; /* the thread's own stack, mapped from any sp inside to own_hi; 0 = not known */
    bool exact;              /* pc is the interrupted instruction, not a return address */
};

enum walk_result {
    WALK_STEPPED,
    WALK_ROOT,    /* the stack ends here, as it should */
    WALK_NO_RULE, /* there is no rule for this pc */
    WALK_BAD,     /* memory that cannot be read, or an invalid frame */
};

/* Asks the kernel whether the page of addr can be read: it copies the set before it looks at the (wrong) first argument. */
static inline bool walk_probe(uint64_t addr)
{
    uint64_t page = addr & ~(uint64_t) (WALK_PAGE - 1);
    long r;

#if defined(__x86_64__)
    __asm__ volatile("mov %4, %%r10\n\tsyscall"
                     : "=a"(r)
                     : "0"(SYS_rt_sigprocmask), "D"(-1l), "S"(page), "r"(8l), "d"(0l)
                     : "rcx", "r11", "r10", "memory");
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = SYS_rt_sigprocmask;
    register long x0 __asm__("x0") = -1;
    register long x1 __asm__("x1") = (long) page;
    register long x2 __asm__("x2") = 0;
    register long x3 __asm__("x3") = 8;

    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    r = x0;
#else
#error "this machine is not supported"
#endif
    return r != -14; /* EFAULT */
}

/* Sets the readable memory for a new stack: sp may lie anywhere. */
static inline void walk_set_stack(struct walk *w)
{
    w->lo = w->sp;
    w->hi = w->sp >= w->own_lo && w->sp < w->own_hi ? w->own_hi : w->sp;
}

/* Another thread's stack may change while it is read: the caller checks whether it did. */
__attribute__((no_sanitize("address"), no_sanitize("thread"))) static inline uint64_t walk_load(uint64_t addr)
{
    return *(const volatile uint64_t *) addr;
}

static inline bool walk_read_slow(struct walk *w, uint64_t addr, uint64_t *ret)
{
    uint64_t last = addr + 7;

    if (addr & 7 || addr < WALK_PAGE || last < addr || !walk_probe(addr))
        return false;
    if (addr >= w->hi && addr - w->hi < WALK_PAGE) /* the page after the known range: extend the range */
        w->hi = (addr | (WALK_PAGE - 1)) + 1;
    *ret = walk_load(addr);
    return true;
}

static inline bool walk_read(struct walk *w, uint64_t addr, uint64_t *ret)
{
    if (likely(addr >= w->lo && addr + 8 <= w->hi && addr + 8 > addr && !(addr & 7))) {
        *ret = walk_load(addr);
        return true;
    }
    return walk_read_slow(w, addr, ret);
}

#if defined(__x86_64__)
#define WALK_ARCH CFI_X86_64
enum { WALK_UC_REGS = 40, WALK_SIGNAL_SIZE = 40 + 23 * 8 };

/* DWARF register number -> place in ucontext's gregs. */
static inline int walk_greg(unsigned dwarf)
{
    static const uint8_t map[16] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
                                    REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

    return dwarf < 16 ? map[dwarf] : -1;
}

static inline void walk_from_regs(struct walk *w, const uint64_t *gregs)
{
    w->pc = gregs[REG_RIP];
    w->sp = gregs[REG_RSP];
    w->fp = gregs[REG_RBP];
    w->bx = gregs[REG_RBX];
    w->leaf = gregs;
    w->exact = gregs[REG_RCX] != gregs[REG_RIP]; /* a system call leaves the address after it in rcx */
}

static inline void walk_init_ucontext(struct walk *w, const ucontext_t *uc)
{
    walk_from_regs(w, (const uint64_t *) uc->uc_mcontext.gregs);
    walk_set_stack(w);
}

static inline uint64_t walk_strip(uint64_t pc)
{
    return pc;
}
#elif defined(__aarch64__)
/* rt_sigframe: siginfo (128), ucontext; its mcontext at +176: fault address, x0..x30, sp, pc. */
#define WALK_ARCH CFI_ARM64
enum { WALK_UC_REGS = 128 + 176 + 8, WALK_SIGNAL_SIZE = 128 + 176 + 8 + 33 * 8 };

static inline int walk_greg(unsigned dwarf)
{
    return dwarf < 32 ? (int) dwarf : -1;
}

static inline void walk_from_regs(struct walk *w, const uint64_t *regs)
{
    w->pc = regs[32];
    w->sp = regs[31];
    w->fp = regs[29];
    w->bx = 0;
    w->leaf = regs;
    w->exact = true;
}

static inline void walk_init_ucontext(struct walk *w, const ucontext_t *uc)
{
    walk_from_regs(w, (const uint64_t *) &uc->uc_mcontext.regs);
    walk_set_stack(w);
}

/* Pointer authentication codes and tags are above bit 47. */
static inline uint64_t walk_strip(uint64_t pc)
{
    return pc & 0x0000ffffffffffffull;
}
#endif

/* The address to look up: a return address belongs to the call before it. */
static inline uint64_t walk_lookup_pc(const struct walk *w)
{
    return w->exact ? w->pc : w->pc - 1;
}

static inline enum walk_result walk_signal_frame(struct walk *w)
{
    const uint64_t *regs = (const uint64_t *) (w->sp + WALK_UC_REGS);
    uint64_t first, last;

    if (!walk_read(w, w->sp + WALK_UC_REGS, &first) || !walk_read(w, w->sp + WALK_SIGNAL_SIZE - 8, &last))
        return WALK_BAD;
    walk_from_regs(w, regs);
    walk_set_stack(w); /* it may be another stack */
    return w->pc ? WALK_STEPPED : WALK_ROOT;
}

static inline bool walk_cfa(struct walk *w, const struct unwind_rule *r, uint64_t *ret)
{
    int reg;

    switch (r->cfa) {
    case UNWIND_CFA_SP:
        *ret = w->sp + (uint64_t) (int64_t) r->cfa_off;
        return true;
    case UNWIND_CFA_FP:
        *ret = w->fp + (uint64_t) (int64_t) r->cfa_off;
        return true;
    case UNWIND_CFA_PLT:
        *ret = w->sp + 8 + ((w->pc & 15) >= r->reg ? 8 : 0);
        return true;
    case UNWIND_CFA_DEREF_SP:
    case UNWIND_CFA_DEREF_FP:
        if (!walk_read(w, (r->cfa == UNWIND_CFA_DEREF_SP ? w->sp : w->fp) + (uint64_t) (int64_t) r->cfa_off, ret))
            return false;
        *ret += r->reg * 8u;
        return true;
    case UNWIND_CFA_REG:
        if (WALK_ARCH == CFI_X86_64 && r->reg == 3) { /* NOLINT(misc-redundant-expression): one constant per machine */
            *ret = w->bx + (uint64_t) (int64_t) r->cfa_off;
            return true;
        }
        reg = walk_greg(r->reg);
        if (!w->leaf || reg < 0)
            return false;
        *ret = w->leaf[reg] + (uint64_t) (int64_t) r->cfa_off;
        return true;
    default:
        return false;
    }
}

static inline bool walk_return_address(struct walk *w, const struct unwind_rule *r, uint64_t cfa, uint64_t *ret)
{
    int reg;

    switch (r->ra) {
    case UNWIND_RA_X86:
        return walk_read(w, cfa - 8, ret);
    case UNWIND_RA_OFFSET:
        return walk_read(w, cfa + (uint64_t) ((int64_t) r->aux * 8), ret);
    default:
        reg = WALK_ARCH == CFI_ARM64 ? 30 : walk_greg(r->reg);
        if (!w->leaf || reg < 0)
            return false;
        *ret = w->leaf[reg];
        return true;
    }
}

/* Goes to the caller by the rule in force at walk_lookup_pc(). */
static inline enum walk_result walk_step(struct walk *w, const struct unwind_rule *r)
{
    uint64_t cfa, ra, fp = w->fp, bx = w->bx;

    if (r->cfa == UNWIND_CFA_END)
        return WALK_ROOT;
    if (r->cfa == UNWIND_CFA_SIGNAL)
        return walk_signal_frame(w);
    if (!walk_cfa(w, r, &cfa))
        return r->cfa == UNWIND_CFA_NONE ? WALK_NO_RULE : WALK_BAD;
    if (cfa < w->sp || (cfa == w->sp && r->ra != UNWIND_RA_REG) || cfa & 7)
        return WALK_BAD; /* a stack is walked in one direction: this also ends every loop */
    if (!walk_return_address(w, r, cfa, &ra))
        return WALK_BAD;
    if (r->flags & UNWIND_FP_SAVED &&
        !walk_read(w, (r->flags & UNWIND_FP_AT_FP ? w->fp : cfa) + (uint64_t) ((int64_t) r->fp * 8), &fp))
        return WALK_BAD;
    if (r->flags & UNWIND_BX_SAVED &&
        !walk_read(w, (r->flags & UNWIND_BX_AT_FP ? w->fp : cfa) + (uint64_t) ((int64_t) r->aux * 8), &bx))
        return WALK_BAD;
    w->pc = walk_strip(ra);
    w->sp = cfa;
    w->fp = fp;
    w->bx = bx;
    w->leaf = NULL;
    w->exact = false;
    return w->pc ? WALK_STEPPED : WALK_ROOT;
}

/* Code without tables (JIT code): follows frame pointers as long as they are plausible. */
static inline enum walk_result walk_step_fp(struct walk *w)
{
    uint64_t fp, ra;

    if (w->fp < w->sp || w->fp & 7 || !walk_read(w, w->fp, &fp) || !walk_read(w, w->fp + 8, &ra))
        return WALK_NO_RULE;
    if (!ra)
        return WALK_ROOT;
    if (fp && fp <= w->fp)
        return WALK_NO_RULE;
    w->pc = walk_strip(ra);
    w->sp = w->fp + 16;
    w->fp = fp;
    w->leaf = NULL;
    w->exact = false;
    return WALK_STEPPED;
}

#endif
