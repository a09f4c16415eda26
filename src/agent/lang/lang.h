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
#include "unwind/remote.h"

struct elf_file;

enum {
    LANG_INLINED_MAX = 32,
    LANG_PLACE_SHIFT = 48, /* in the second word of frame(): the index of its native word, for merge() */
    LANG_LABELS_MAX = 16,
    LANG_FRAMES_MAX = 4096, /* of a thread, for thread() */
    LANG_WORDS_MAX = LANG_FRAMES_MAX * AGENT_LANG_WORDS,
};

struct lang_frame {
    struct str function, file; /* valid until the arena given to resolve() is emptied */
    int64_t line, start_line;
    const char *type; /* profile.frame.type: "cpython", "go" */
};

struct lang_label {
    struct str key, value;
};

/* What a language knows of a thread, for `wick dump`. */
struct lang_thread {
    uint64_t *words; /* its frames, as NAME_walk() puts them into an event; room for LANG_WORDS_MAX */
    uint32_t n_words;
    uint64_t x28; /* arm64: this register, set by the caller */
    struct lang_label labels[LANG_LABELS_MAX];
    uint32_t n_labels;
    uint64_t task; /* the key of the task that it runs; 0: none */
};

/* A thread of the language's own: a goroutine; for Python, a thread as the interpreter knows it. */
struct lang_task {
    uint64_t key, id;
    struct str state;        /* "chan receive"; "": not known */
    int64_t wait_since_ns;   /* of the monotonic clock; 0: not known */
    bool is_running;         /* a thread runs it: its frames are the thread's */
    uint64_t thread_pointer; /* not 0: its frames are those of thread(); else the walk begins at regs */
    struct remote_regs regs;
    uint64_t stack_end;
    const struct lang_label *labels;
    uint32_t n_labels;
};

typedef int lang_task_fn(void *arg, const struct lang_task *t);

struct lang {
    const char *name; /* profile.frame.type of a frame without a name */
    const char
        *in_bpf;  /* what its programs in BPF find, and what is missing if a kernel refuses them: "Python frames" */
    bool has_jit; /* its functions are code of no file, which is [unknown] if it is none of them */
    /* Checks whether the process runs this runtime. Called when its executable mappings are known, and again when they
     * changed, until it returns 1 or 2. 1: yes; p->lang_record.words and p->lang_state are set. 2: yes, but there is
     * nothing to do for its programs in BPF. 0: no. Negative: yes, but its frames cannot be walked (an unknown
     * version); the error message says why. */
    int (*attach)(struct process *p, struct err *e);
    void (*detach)(struct process *p);
    /* The event has the language's frames after the native ones: words [n_kernel, n_native) are native, those up to n
     * the language's. Moves each frame to its place and returns the new number of words, at most n. whole: the native
     * stack was walked to its root. */
    uint32_t (*merge)(struct process *p, uint64_t *words, uint32_t n_kernel, uint32_t n_native, uint32_t n, bool whole);
    /* Labels among the language's words: AGENT_LABEL_WORDS words each (lang_abi.h), as bytes. NULL: it has none. */
    struct str (*labels)(const uint64_t *words, uint32_t n);
    /* Takes what was copied of the process at the first sample with a frame, for resolve(). NULL: nothing is copied. */
    void (*take_memory)(struct process *p, const struct agent_memory *memory);
    /* Resolves the words of a frame; called once per distinct words of a process, soon after the sample. Returns the number of
     * functions, at most max: inlined calls first, the innermost one first of all. Negative: the frame is shown as one of this
     * language without a name. */
    int (*resolve)(struct process *p, const uint64_t words[AGENT_LANG_WORDS], struct arena *a, struct lang_frame *ret,
                   uint32_t max);
    /* What NAME_step() and NAME_walk() do, for a stack that was copied, or of a process that is stopped: the words of the frame of
     * code that is walked by frame pointers, with its place among the native words left out. False: it is none of this language.
     * stack: where the frame is read; what it points to is read from the process. NULL: the language has no such frames. */
    bool (*frame)(struct process *p, const struct proc_memory *stack, uint64_t word, uint64_t fp,
                  uint64_t words[AGENT_LANG_WORDS]);

    /* Answers a question of this language about a binary, at most LANG_ANSWER_BYTES into ret, which is zeroed. Returns
     * 0 or 1 (found), or a negative errno. The file is hostile input. NULL: there are no questions. */
    int (*read_file)(const struct elf_file *f, const char *path, const struct lang_question *q, void *ret);
    /* Whether read_file() can have given this answer: it comes from a process that is not trusted. */
    bool (*is_answer_valid)(const struct lang_question *q, const void *answer);

    /* --- for `wick dump`, in a process that is stopped, or that runs while it is read; each may be NULL --- */
    /* The runtime's name and version: "CPython 3.11.7". */
    struct str (*version)(struct process *p, struct arena *a);
    /* Reads the lists that the following calls need. Called before the process is stopped, so that what takes long is
     * known, and again when it is. */
    void (*look)(struct process *p, struct arena *a);
    /* What is known of the thread with this thread pointer. ret->words and x28 are set by the caller, the rest is zero. */
    void (*thread)(struct process *p, uint64_t thread_pointer, struct arena *a, struct lang_thread *ret);
    /* The thread pointer of a thread of which only the id and the stack pointer are known: samples without BPF. 0: not
     * known, or the thread runs nothing of this language. */
    uint64_t (*thread_pointer)(struct process *p, uint32_t tid, uint64_t sp);
    /* Calls f for each task until it returns a value other than 0, which is returned. -ENOTSUP with an error message. */
    int (*tasks)(struct process *p, struct arena *a, lang_task_fn *f, void *arg, struct err *e);
    const char *task_word;  /* "goroutine" */
    bool are_tasks_threads; /* each task is a thread: they are only listed if the threads cannot be stopped */
};

#define LANG(name) extern const struct lang lang_##name;
#include "agent/lang/langs.h"
#undef LANG

extern const struct lang *const langs[LANGS];
extern const char *const lang_words[LANGS]; /* the words of langs.h */

/* Finds the language of a process and sets p->lang. Returns what attach() of the first one that knows the process
 * returned, or 0. */
int lang_find(struct process *p, struct err *e);
/* Reads the frames of a thread from the process's memory, for a sample without BPF; the thread may have gone on by some
 * microseconds since. words has room for LANG_WORDS_MAX; returns their number. Finds the language if that has not been
 * done yet. */
uint32_t lang_read(struct processes *s, struct process *p, uint32_t tid, uint64_t sp, uint64_t *words);
/* Native words [from, n) of a stack; fps: the frame pointers of those that are walked by them, else 0. */
struct lang_stack {
    const struct proc_memory *memory; /* where frames are read */
    uint64_t *words;
    const uint64_t *fps;
    uint32_t from, n;
};

/* Appends the language's frames of native words to the n_lang words of the language after them. Returns their new number. */
uint32_t lang_frames(struct process *p, const struct lang_stack *s, uint32_t n_lang);
/* Asks read_file() of language `number` about an object. Copies the first n bytes of the answer. */
int lang_ask(struct object *o, uint32_t number, const struct lang_question *q, void *ret, size_t n);

#endif
