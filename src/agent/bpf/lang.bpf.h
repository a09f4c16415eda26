// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * The languages' part of a walk. Included by walk.bpf.h after struct walk_state and its helpers (read_word, put_word,
 * finish); the file NAME.bpf.h of each language is included here and defines two functions:
 *
 *   NAME_walk(w, bounded)   runs after the native walk, in a program of its own (agent.bpf.c, waits.bpf.h), so that the
 *                           verifier's limits apply to each language alone. Appends the language's frames to the native
 *                           ones, AGENT_LANG_WORDS words each, the first with AGENT_WORD_LANG + LANG_NAME in the top
 *                           byte; the user side moves them to their places (struct lang, merge). bounded: there is no
 *                           bpf_loop (WALK_REPEAT).
 *   NAME_step(w)            a step of the native walk, for code outside of all files (JIT code) that frame pointers do
 *                           not describe: finds the caller and returns 0, or ends the walk with finish(), or returns
 *                           LANG_NO_STEP, and the frame pointer is followed. The word of the frame was added before.
 *                           Without bpf_loop it runs in a program of its own (old_step_NAME), and calls no function
 *                           that is not inlined. LANG_HAS_STEP(NAME), or LANG_HAS_NO_STEP(NAME) instead of it.
 *
 * Both find what the user side knows of the process in w->lang->words.
 */
#ifndef AGENT_LANG_BPF_H
#define AGENT_LANG_BPF_H

enum { LANG_NO_STEP = -1 };

#define LANG_HAS_STEP(name) enum { name##_has_step = 1 };
#define LANG_HAS_NO_STEP(name)                                    \
    enum { name##_has_step };                                     \
    static __always_inline long name##_step(struct walk_state *w) \
    {                                                             \
        return LANG_NO_STEP;                                      \
    }

/* Room for the variables of a language's walk that change from frame to frame. On the stack, the verifier would follow each way
 * through a frame through all further ones (struct walk_next). */
#define LANG_VARIABLES(w, type)                                                          \
    ({                                                                                   \
        _Static_assert(sizeof(type) <= sizeof((w)->s->walk), "variables of a language"); \
        (type *) (w)->s->walk;                                                           \
    })

/* Adds n bytes of the process as piece i of what is sent, after the *used bytes before; false if there is no room for them, or they
 * cannot be read. room: where each piece begins at most, and where the last one ends. Whoever sends sets all pieces: the buffer held
 * something else. */
static __always_inline bool add_piece(struct agent_memory *to, const __u32 i, __u64 *used, const __u32 *room,
                                      __u64 address, __u64 n)
{
    const __u32 begin = room[i], most = room[i + 1] - begin;

    if (n > most || *used > begin || read_user(step_bytes(to->bytes, *used, begin), n, most, address))
        return false;
    to->pieces[i].address = address;
    to->pieces[i].n = n;
    *used += n;
    return true;
}

#include "agent/lang/langs.bpf.h"

static __always_inline bool lang_has_step(__u32 number)
{
    static const __u64 having = 0
#define LANG(name) | (__u64) name##_has_step << LANG_##name
#include "agent/lang/langs.h"
#undef LANG
        ;

    return having >> (number & 63) & 1;
}

static __always_inline long lang_step(struct walk_state *w)
{
    switch (w->lang->number) {
#define LANG(name)    \
    case LANG_##name: \
        return name##_step(w);
#include "agent/lang/langs.h"
#undef LANG
    }
    return LANG_NO_STEP;
}

#endif
