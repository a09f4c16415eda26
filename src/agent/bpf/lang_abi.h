/* SPDX-License-Identifier: Apache-2.0 */
/* What the BPF and user sides share of every language. What only one language needs is in its folder (NAME_abi.h). */
#ifndef AGENT_LANG_ABI_H
#define AGENT_LANG_ABI_H

#include <linux/types.h>

/* The number of a language: AGENT_WORD_LANG + this is the top byte of the first word of its frames. */
enum {
#define LANG(name) LANG_##name,
#include "agent/lang/langs.h"
#undef LANG
    LANGS,
};

enum {
    AGENT_LABELS = 8,      /* of a sample; more are ignored */
    AGENT_LABEL_WORDS = 8, /* of each label: its key, then its value, truncated and padded with zeros */
    AGENT_LABEL_KEY = 16,
    AGENT_LABEL_VALUE = 48,
};

/* A step of a hash that both sides compute. */
static inline __attribute__((always_inline)) __u64 agent_hash_step(__u64 hash, __u64 word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 29;
}

/* What the language's programs know of a process. */
struct agent_lang {
    __u32 number, pad;
    __u64 words[32]; /* room for the language's own struct */
};

#endif
