/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A language's user side. What the BPF side needs goes into the process's struct agent_lang (bpf/lang_abi.h), which the
 * agent puts into the map `langs` together with the process's record; resolve() returns the meaning of its frames.
 *
 * A new language is a struct lang in the list `langs` (lang.c), its struct in lang_abi.h, and its steps called from
 * bpf/lang.bpf.h. All calls come from the agent's thread.
 */
#ifndef AGENT_LANG_H
#define AGENT_LANG_H

#include "agent/process.h"
#include "base/arena.h"

struct lang_frame {
    struct str function, file; /* valid until the arena given to resolve() is emptied */
    int64_t line, start_line;
    const char *type; /* profile.frame.type: "cpython", "go" */
};

struct lang {
    const char *name;
    enum agent_lang_kind kind;
    /* Checks whether the process runs this runtime. Called when its executable mappings are known, and again when they
     * changed, until it returns 1. 1: yes; p->lang_record and p->lang_state are set. 0: no. Negative: yes, but its
     * frames cannot be walked (an unknown version); the error message says why. */
    int (*attach)(struct process *p, struct err *e);
    void (*detach)(struct process *p);
    /* The event has the language's frames after the native ones: words [n_kernel, n_native) are native, those up to n
     * the language's. Moves each frame to its place and returns the new number of words, at most n. whole: the native
     * stack was walked to its root. */
    uint32_t (*merge)(struct process *p, uint64_t *words, uint32_t n_kernel, uint32_t n_native, uint32_t n, bool whole);
    /* Labels among the language's words: AGENT_LABEL_WORDS words each (lang_abi.h), as bytes. NULL: it has none. */
    struct str (*labels)(const uint64_t *words, uint32_t n);
    /* Resolves the words of a frame; called once per distinct words of a process, soon after the sample. 0, or
     * negative: the frame is shown as one of this language without a name. */
    int (*resolve)(struct process *p, const uint64_t words[AGENT_LANG_WORDS], struct arena *a, struct lang_frame *ret);
};

extern const struct lang *const langs[]; /* NULL-terminated */

#endif
