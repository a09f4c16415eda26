// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * Where a walk asks the languages. Included by walk.bpf.h behind struct walk_state and its helpers (put_word, read_word,
 * finish); a language's own file (python.bpf.h, go.bpf.h) is included here.
 *
 *   lang_enter  a native frame lies in [lang_lo, lang_hi) (the interpreter's loop); its word was put already. Sets
 *               w->mode = WALK_LANG and w->lang_state when language frames come next; the native caller has been found by
 *               the time of the first lang_step.
 *   lang_step   one language frame: AGENT_LANG_WORDS words (put_word), the first with AGENT_WORD_LANG + its enum
 *               agent_frame in the top byte. Sets w->mode = WALK_NATIVE when the native walk goes on. 0 to go on, 1 (by
 *               finish()) to end the walk.
 *   lang_rule   a row with UNWIND_CFA_LANG: r->reg says which step of the language finds the caller. 0 or 1 as above.
 */
#ifndef AGENT_LANG_BPF_H
#define AGENT_LANG_BPF_H

static __always_inline void lang_enter(struct walk_state *w)
{
}

static __always_inline long lang_step(struct walk_state *w)
{
    w->mode = WALK_NATIVE;
    return 0;
}

static __always_inline long lang_rule(struct walk_state *w, struct unwind_rule *r)
{
    return finish(w, AGENT_END_NO_RULE);
}

#endif
