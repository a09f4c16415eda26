/* SPDX-License-Identifier: Apache-2.0 */
/* Walks a copied stack with the same steps as bpf/walk.bpf.h, using unwind/remote.h with the copy as memory. */
#include "agent/stack_walk.h"

#include <errno.h>
#include <string.h>

#include "unwind/remote.h"

static int read_copy(const struct proc_memory *m, uint64_t at, void *ret, size_t n)
{
    const struct stack_copy *copy = m->data;

    if (at < copy->start || at - copy->start > copy->n || copy->n - (at - copy->start) < n)
        return -EFAULT;
    memcpy(ret, copy->bytes + (at - copy->start), n);
    return 0;
}

static enum agent_end end_of(enum remote_result r)
{
    static const uint8_t ends[] = {[REMOTE_STEPPED] = AGENT_END_NONE,
                                   [REMOTE_ROOT] = AGENT_END_ROOT,
                                   [REMOTE_NO_RULE] = AGENT_END_NO_RULE,
                                   [REMOTE_BAD] = AGENT_END_BAD};

    return ends[r];
}

enum agent_end stack_walk(const struct agent_regs *from, const struct stack_copy *copy, stack_rule *rule, void *arg,
                          struct stack_words *words)
{
    struct proc_memory memory = {.read = read_copy, .data = copy};
    struct remote_regs regs = {from->pc, from->sp, from->fp, from->bx, {0}, from->exact, from->is_leaf};
    enum agent_end end = AGENT_END_NONE;

    memcpy(regs.leaf, from->leaf, sizeof from->leaf);
    while (end == AGENT_END_NONE) {
        uint32_t why = AGENT_END_NO_RULE;
        const struct unwind_rule *u;

        if (words->n >= words->max)
            return AGENT_END_DEPTH;
        u = rule(arg, regs.exact ? regs.pc : regs.pc - 1, &why);
        if (!u && why == AGENT_END_NO_MAPPING)
            return why; /* not code: the frame before was the last valid one */
        words->v[words->n++] = regs.pc | (uint64_t) regs.exact << 56;
        if (u && u->cfa == UNWIND_CFA_SWITCH) /* the walk continues on a stack that was not copied */
            return AGENT_END_NO_RULE;
        if (!u && why != AGENT_END_NONE)
            return why;
        end = end_of(u ? remote_step(&regs, u, &memory) : remote_step_fp(&regs, &memory));
    }
    return end;
}
