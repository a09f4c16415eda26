/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the languages' BPF steps and their user sides share. A language is a value of enum agent_lang_kind with a struct
 * in struct agent_lang, its steps in bpf/NAME.bpf.h, called from bpf/lang.bpf.h, and its user side (agent/lang.h).
 */
#ifndef AGENT_LANG_ABI_H
#define AGENT_LANG_ABI_H

#include <linux/types.h>

enum agent_lang_kind { AGENT_LANG_NONE, AGENT_LANG_PYTHON, AGENT_LANG_GO };

/* Kinds of language frames: AGENT_WORD_LANG + this is the top byte of a frame's first word. */
enum agent_frame { AGENT_FRAME_PYTHON, AGENT_FRAME_GO };

struct agent_lang {
    __u32 kind, pad; /* enum agent_lang_kind */
    union {
        __u64 words[32]; /* room; a language puts its own struct here */
    };
};

#endif
