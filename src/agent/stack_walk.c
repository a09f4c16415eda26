/* SPDX-License-Identifier: Apache-2.0 */
/* Walks a copied stack with the same steps as bpf/walk.bpf.h, using unwind/remote.h with the copy as memory. */
#include "agent/stack_walk.h"

#include <errno.h>
#include <string.h>

#include "unwind/code_rule.h"
#include "unwind/remote.h"

#if defined(__x86_64__)
enum { CODE_RULES = 1 };
#else
enum { CODE_RULES = 0 };
#endif

static int read_copy(const struct proc_memory *m, uint64_t at, void *ret, size_t n)
{
    const struct stack_copy *copy = m->data;

    if (at < copy->start || at - copy->start > copy->n || copy->n - (at - copy->start) < n)
        return -EFAULT;
    memcpy(ret, copy->bytes + (at - copy->start), n);
    return 0;
}

struct proc_memory stack_copy_memory(const struct stack_copy *copy)
{
    return (struct proc_memory){.read = read_copy, .data = copy};
}

static enum agent_end end_of(enum remote_result r)
{
    static const uint8_t ends[] = {[REMOTE_STEPPED] = AGENT_END_NONE,
                                   [REMOTE_ROOT] = AGENT_END_ROOT,
                                   [REMOTE_NO_RULE] = AGENT_END_NO_RULE,
                                   [REMOTE_BAD] = AGENT_END_BAD};

    return ends[r];
}

bool stack_infer(stack_code *code, void *arg, uint64_t pc, struct unwind_rule *ret)
{
    enum { PAGE = 4096 };
    uint8_t bytes[CODE_RULE_WINDOW];
    uint64_t start = (pc & ~(uint64_t) (PAGE - 1)) - PAGE;
    size_t n = code(arg, start, bytes, sizeof bytes);

    if (!n) {
        start += PAGE;
        n = code(arg, start, bytes, sizeof bytes - PAGE);
    }
    return pc - start < n && code_rule(bytes, n, pc - start, ret);
}

bool stack_called(stack_code *code, void *arg, uint64_t pc)
{
    uint8_t bytes[CODE_RULE_CALL];

    return code(arg, pc - sizeof bytes, bytes, sizeof bytes) == sizeof bytes &&
           code_ends_with_call(bytes, sizeof bytes);
}

/* To the caller of code without call frame information: as its instructions say, as if it had no frame, or by its frame pointer.
 * There must be a call before the return address. */
static enum remote_result step_inferred(struct remote_regs *regs, const struct stack_source *source,
                                        const struct proc_memory *m)
{
    static const struct unwind_rule no_frame = {.cfa = UNWIND_CFA_SP, .ra = UNWIND_RA_X86, .cfa_off = 8},
                                    by_fp = {.cfa = UNWIND_CFA_FP,
                                             .ra = UNWIND_RA_X86,
                                             .flags = UNWIND_FP_SAVED,
                                             .cfa_off = 16,
                                             .fp = -2};
    struct unwind_rule shown;
    const struct unwind_rule *tried[] = {&no_frame, &by_fp};

    if (source->infer(source->arg, regs->pc, &shown))
        tried[0] = &shown;
    for (size_t i = 0; i < ARRAY_SIZE(tried); i++) {
        struct remote_regs next = *regs;

        if (remote_step(&next, tried[i], m) != REMOTE_STEPPED || !source->called(source->arg, next.pc))
            continue;
        if (source->learn && tried[i] == &shown)
            source->learn(source->arg, regs->pc, regs->exact, &shown);
        *regs = next;
        return REMOTE_STEPPED;
    }
    if (source->learn)
        source->learn(source->arg, regs->pc, regs->exact, NULL);
    return REMOTE_NO_RULE;
}

enum agent_end stack_walk(const struct agent_regs *from, const struct stack_copy *copy,
                          const struct stack_source *source, struct stack_words *words)
{
    struct proc_memory memory = stack_copy_memory(copy);
    struct remote_regs regs = {from->pc, from->sp, from->fp, from->bx, {0}, from->exact, from->is_leaf};
    enum agent_end end = AGENT_END_NONE;

    memcpy(regs.leaf, from->leaf, sizeof from->leaf);
    while (end == AGENT_END_NONE) {
        uint32_t why = AGENT_END_NO_RULE;
        const struct unwind_rule *u;

        if (words->n >= words->max)
            return AGENT_END_DEPTH;
        u = source->rule(source->arg, regs.exact ? regs.pc : regs.pc - 1, &why);
        if (!u && why == AGENT_END_NO_MAPPING)
            return why; /* not code: the frame before was the last valid one */
        if (words->fps)
            words->fps[words->n] = !u && why == AGENT_END_NONE ? regs.fp : 0;
        words->v[words->n++] = regs.pc | (uint64_t) (regs.exact || (u && u->cfa == UNWIND_CFA_SIGNAL)) << 56;
        if (u && u->cfa == UNWIND_CFA_SWITCH) /* the walk continues on a stack that was not copied */
            return AGENT_END_NO_RULE;
        if (!u && why != AGENT_END_NONE) {
            if (why != AGENT_END_NO_RULE || !CODE_RULES || step_inferred(&regs, source, &memory) != REMOTE_STEPPED)
                return why;
            words->inferred = true;
            continue;
        }
        end = end_of(u ? remote_step(&regs, u, &memory) : remote_step_fp(&regs, &memory));
    }
    return end;
}
