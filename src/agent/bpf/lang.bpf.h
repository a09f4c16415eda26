// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * Where a walk calls the steps of languages. Included by walk.bpf.h after struct walk_state and its helpers (read_word,
 * finish); each language's own file (python.bpf.h) is included here.
 *
 *   lang_walk   called after the native walk, in a process with a language: appends the language's frames to the native
 *               ones, AGENT_LANG_WORDS words each, the first with AGENT_WORD_LANG + its enum agent_frame in the top
 *               byte. The user side merges them (struct lang, merge).
 *   lang_rule   called for a row with UNWIND_CFA_LANG: r->reg says which step of the language finds the caller. Returns
 *               0 to continue, 1 (through finish()) to end the walk.
 */
#ifndef AGENT_LANG_BPF_H
#define AGENT_LANG_BPF_H

#include "agent/bpf/go.bpf.h"
#include "agent/bpf/python.bpf.h"

static __always_inline void lang_walk(struct walk_state *w, bool bounded)
{
    if (w->lang->kind == AGENT_LANG_PYTHON)
        python_walk(w, &w->lang->python, bounded);
    else if (w->lang->kind == AGENT_LANG_GO)
        go_walk(w, &w->lang->go, bounded);
}

/* Go switches to a thread's own stack (systemstack, asmcgocall): the frame pointer is still that of the caller, on the
 * goroutine's stack. */
static __always_inline long lang_rule(struct walk_state *w, struct unwind_rule *r)
{
    __u64 v[2] = {};

    if (!w->s->at.fp || bpf_probe_read_user(v, sizeof v, (void *) w->s->at.fp))
        return finish(w, AGENT_END_NO_RULE);
    if (!v[1])
        return finish(w, AGENT_END_ROOT);
    w->s->at.pc = arch_code(v[1]);
    w->s->at.sp = w->s->at.fp + 16;
    w->s->at.fp = v[0];
    w->s->at.exact = w->s->at.is_leaf = 0;
    return 0;
}

#endif
