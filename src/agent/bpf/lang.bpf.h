// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * Where a walk asks the languages. Included by walk.bpf.h behind struct walk_state and its helpers (read_word, finish); a
 * language's own file (python.bpf.h) is included here.
 *
 *   lang_walk   after the native walk, in a process with a language: adds the language's frames behind the native ones,
 *               AGENT_LANG_WORDS words each, the first with AGENT_WORD_LANG + its enum agent_frame in the top byte. The user
 *               side puts them where they belong (struct lang, merge).
 *   lang_rule   a row with UNWIND_CFA_LANG: r->reg says which step of the language finds the caller. 0 to go on, 1 (by
 *               finish()) to end the walk.
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

/* Go changes to a thread's own stack (systemstack, asmcgocall): the frame pointer still is that of the caller, on the
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
