/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the BPF steps and the user sides of languages. A language is a value of enum agent_lang_kind with a struct
 * in struct agent_lang, its steps in bpf/NAME.bpf.h, called from bpf/lang.bpf.h, and its user side (agent/lang/lang.h).
 */
#ifndef AGENT_LANG_ABI_H
#define AGENT_LANG_ABI_H

#include <linux/types.h>

enum agent_lang_kind { AGENT_LANG_NONE, AGENT_LANG_PYTHON, AGENT_LANG_GO };

/* Kinds of language frames: AGENT_WORD_LANG + this is the top byte of a frame's first word. */
enum agent_frame { AGENT_FRAME_PYTHON, AGENT_FRAME_GO };

enum {
    AGENT_PYTHON_NONE = 0xffff,
    AGENT_PYTHON_ENTRY = 1, /* in the first word: the outermost frame of its native one (code objects are aligned) */
};

/* Where things are in CPython: see unwind/lang/python/python.h. AGENT_PYTHON_NONE: not there in this version. */
struct agent_python {
    __u64 interpreters; /* address of the pointer to the first one */
    __u16 minor;        /* 3.minor */
    __u16 interp_next, interp_threads, thread_next, thread_id, thread_frame, cframe_frame;
    __u16 frame_previous, frame_code, frame_instr, frame_owner, frame_entry;
    __u16 code_filename, code_start;
};

enum {
    AGENT_LABELS = 8,      /* of a goroutine; more are ignored */
    AGENT_LABEL_WORDS = 8, /* of each label: its key, then its value, truncated and padded with zeros */
    AGENT_LABEL_KEY = 16,
    AGENT_LABEL_VALUE = 48,
    AGENT_GO_M = 48,
};

/* Where Go keeps labels: see unwind/lang/go/go_runtime.h. */
struct agent_go {
    __s64 g;            /* from the thread pointer */
    __u32 curg, labels; /* in m, in g */
};

struct agent_lang {
    __u32 kind, pad; /* enum agent_lang_kind */
    union {
        __u64 words[32]; /* space for the language's own struct */
        struct agent_python python;
        struct agent_go go;
    };
};

#endif
