/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A language of the agent, and of `wick dump`: a runtime whose frames are not native ones, or whose threads carry
 * something that belongs to a sample. It is a folder agent/lang/NAME and a line LANG(NAME) in langs.h:
 *
 *   lang_NAME.c   const struct lang lang_NAME, the user side
 *   NAME.bpf.h    NAME_walk() and NAME_step(), the BPF side (bpf/lang.bpf.h)
 *   NAME_abi.h    what both sides share, if there is anything: a struct in the words of struct agent_lang
 *   meson.build   its C files
 *
 * read_file() runs in the confined process that reads binaries (reader/file_reader.h), everything else in the agent's
 * thread.
 */
#ifndef AGENT_LANG_H
#define AGENT_LANG_H

#include "agent/lang/lang_question.h"
#include "agent/process.h"
#include "base/arena.h"
#include "proc/proc_memory.h"

struct elf_file;

struct lang_frame {
    struct str function, file; /* valid until the arena given to resolve() is emptied */
    int64_t line, start_line;
    const char *type; /* profile.frame.type: "cpython", "go" */
};

struct lang {
    const char *name; /* profile.frame.type of a frame without a name */
    /* Checks whether the process runs this runtime. Called when its executable mappings are known, and again when they
     * changed, until it returns 1. 1: yes; p->lang_record.words and p->lang_state are set. 0: no. Negative: yes, but
     * its frames cannot be walked (an unknown version); the error message says why. */
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

    /* Answers a question of this language about a binary, at most LANG_ANSWER_BYTES into ret, which is zeroed. Returns
     * 0 or 1 (found), or a negative errno. The file is hostile input. NULL: there are no questions. */
    int (*read_file)(const struct elf_file *f, const char *path, const struct lang_question *q, void *ret);
    /* Whether read_file() can have given this answer: it comes from a process that is not trusted. */
    bool (*is_answer_valid)(const struct lang_question *q, const void *answer);
};

#define LANG(name) extern const struct lang lang_##name;
#include "agent/lang/langs.h"
#undef LANG

extern const struct lang *const langs[LANGS];

/* Finds the language of a process and sets p->lang. Returns what attach() of the first one that knows the process
 * returned, or 0. */
int lang_find(struct process *p, struct err *e);
/* Asks read_file() of language `number` about an object. Copies the first n bytes of the answer. */
int lang_ask(struct object *o, uint32_t number, const struct lang_question *q, void *ret, size_t n);

#endif
