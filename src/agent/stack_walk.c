/* SPDX-License-Identifier: Apache-2.0 */
/* See stack_walk.h. Step by step what bpf/walk.bpf.h does. */
#include "agent/stack_walk.h"

#include <stdbool.h>
#include <string.h>

struct stack_state {
    struct agent_regs *r;
    const struct stack_copy *copy;
};

static bool read_bytes(const struct stack_state *w, uint64_t at, void *ret, size_t n)
{
    if (at < w->copy->start || at - w->copy->start > w->copy->n || w->copy->n - (at - w->copy->start) < n)
        return false;
    memcpy(ret, w->copy->bytes + (at - w->copy->start), n);
    return true;
}

static bool read_word(const struct stack_state *w, uint64_t at, uint64_t *ret)
{
    return read_bytes(w, at, ret, sizeof *ret);
}

/* ucontext at sp; gregs from +40: r8..r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip. */
static enum agent_end signal_frame(struct stack_state *w)
{
    struct agent_regs *r = w->r;
    uint64_t g[17];

    if (!read_bytes(w, r->sp + 40, g, sizeof g))
        return AGENT_END_READ;
    r->leaf[0] = g[13];
    r->leaf[1] = g[12];
    r->leaf[2] = g[14];
    r->leaf[4] = g[9];
    r->leaf[5] = g[8];
    memcpy(r->leaf + 8, g, 8 * sizeof g[0]);
    r->fp = g[10];
    r->bx = g[11];
    r->sp = g[15];
    r->pc = g[16];
    r->exact = r->is_leaf = 1;
    return AGENT_END_NONE;
}

static bool find_cfa(const struct stack_state *w, const struct unwind_rule *u, uint64_t *ret)
{
    const struct agent_regs *r = w->r;
    uint64_t off = (uint64_t) (int64_t) u->cfa_off;

    switch (u->cfa) {
    case UNWIND_CFA_SP:
        *ret = r->sp + off;
        return true;
    case UNWIND_CFA_FP:
        *ret = r->fp + off;
        return true;
    case UNWIND_CFA_PLT:
        *ret = r->sp + 8 + ((r->pc & 15) >= u->reg ? 8 : 0);
        return true;
    case UNWIND_CFA_DEREF_SP:
    case UNWIND_CFA_DEREF_FP:
        if (!read_word(w, (u->cfa == UNWIND_CFA_DEREF_SP ? r->sp : r->fp) + off, ret))
            return false;
        *ret += u->reg * 8u;
        return true;
    case UNWIND_CFA_REG:
        if (u->reg != 3 && !r->is_leaf)
            return false;
        *ret = (u->reg == 3 ? r->bx : r->leaf[u->reg & 15]) + off;
        return true;
    default:
        return false;
    }
}

static enum agent_end apply(struct stack_state *w, const struct unwind_rule *u)
{
    struct agent_regs *r = w->r;
    uint64_t cfa = 0, ra = 0, fp = r->fp, bx = r->bx;

    if (u->cfa == UNWIND_CFA_END)
        return AGENT_END_ROOT;
    if (u->cfa == UNWIND_CFA_SIGNAL)
        return signal_frame(w);
    if (u->cfa == UNWIND_CFA_LANG)
        return AGENT_END_NO_RULE;
    if (!find_cfa(w, u, &cfa) || cfa < r->sp || (u->ra == UNWIND_RA_REG ? !r->is_leaf : cfa == r->sp))
        return AGENT_END_BAD;
    if (u->ra == UNWIND_RA_REG)
        ra = r->leaf[u->reg & 15];
    else if (!read_word(w, cfa - 8, &ra))
        return AGENT_END_READ;
    if (u->flags & UNWIND_FP_SAVED &&
        !read_word(w, (u->flags & UNWIND_FP_AT_FP ? r->fp : cfa) + (uint64_t) ((int64_t) u->fp * 8), &fp))
        return AGENT_END_READ;
    if (u->flags & UNWIND_BX_SAVED &&
        !read_word(w, (u->flags & UNWIND_BX_AT_FP ? r->fp : cfa) + (uint64_t) ((int64_t) u->aux * 8), &bx))
        return AGENT_END_READ;
    if (!ra)
        return AGENT_END_ROOT;
    r->pc = ra;
    r->sp = cfa;
    r->fp = fp;
    r->bx = bx;
    r->exact = r->is_leaf = 0;
    return AGENT_END_NONE;
}

static enum agent_end by_frame_pointer(struct stack_state *w)
{
    struct agent_regs *r = w->r;
    uint64_t v[2];

    if (r->fp < r->sp || !read_bytes(w, r->fp, v, sizeof v))
        return AGENT_END_NO_RULE;
    if (!v[1])
        return AGENT_END_ROOT;
    if (v[0] && v[0] <= r->fp)
        return AGENT_END_NO_RULE;
    r->pc = v[1];
    r->sp = r->fp + 16;
    r->fp = v[0];
    r->exact = r->is_leaf = 0;
    return AGENT_END_NONE;
}

enum agent_end stack_walk(struct agent_regs *regs, const struct stack_copy *copy, stack_rule *rule, void *arg,
                          uint64_t *words, uint32_t *n, uint32_t max)
{
    struct stack_state w = {regs, copy};
    enum agent_end end = AGENT_END_NONE;

    while (end == AGENT_END_NONE) {
        uint32_t why = AGENT_END_NO_RULE;
        const struct unwind_rule *u;

        if (*n >= max)
            return AGENT_END_DEPTH;
        u = rule(arg, regs->exact ? regs->pc : regs->pc - 1, &why);
        if (!u && why == AGENT_END_NO_MAPPING)
            return why; /* no code: the frame before was the last that made sense */
        words[(*n)++] = regs->pc | (uint64_t) (regs->exact != 0) << 56;
        if (u)
            end = apply(&w, u);
        else if (why == AGENT_END_NONE)
            end = by_frame_pointer(&w);
        else
            return why;
    }
    return end;
}
