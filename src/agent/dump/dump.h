/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The current stacks of all threads of a process: the threads are stopped for some milliseconds (ptrace), their stacks
 * are walked with the same unwind tables as samples, the frames of a language (agent/lang) take the place of its
 * interpreter's, and the threads continue. Tasks of the language, Go's goroutines, are listed with the threads; a Java
 * program is asked for its threads, as jstack does. The process is not changed; the kernel restarts system calls that a stop interrupts, except for the few that signal(7)
 * names (epoll_wait and others then return EINTR, as after SIGSTOP and SIGCONT).
 *
 * If the caller may not stop the process, or does not want to (nonblocking), only what the language knows is returned,
 * read while the process runs.
 *
 * Binaries are read by the confined process of the agent (reader/file_reader.h), never by the caller's.
 */
#ifndef AGENT_DUMP_H
#define AGENT_DUMP_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"

struct file_reader;
struct object;
struct objects;
struct process;
struct processes;

enum {
    DUMP_THREADS_MAX = 16384,
    DUMP_TASKS_MAX = 65536,
    DUMP_FRAMES_MAX = 4096, /* of a thread, native */
    DUMP_MODULES_MAX = 4096,
};

/* A function: of the frame, or of a call that was inlined into it. */
struct dump_line {
    struct str function, file; /* {NULL} when not known */
    int64_t line;
};

struct dump_frame {
    const char *type;              /* "native", "go", "python", "jvm", "v8js" */
    bool exact;                    /* address is the instruction itself; else it is a return address, after the call */
    uint64_t address;              /* in the process */
    int32_t module;                /* of dump.modules; -1: code of no file, or a language's frame */
    uint64_t elf;                  /* the address in its file, of the call */
    const struct dump_line *lines; /* innermost inlined call first; the function itself is last */
    uint32_t n_lines;              /* 0: not known */
};

struct dump_label {
    struct str key, value;
};

struct dump_stack {
    bool whole;                /* the native stack was walked to its root */
    struct dump_frame *frames; /* leaf first */
    uint32_t n_frames;
    struct dump_label *labels; /* Go's pprof labels */
    uint32_t n_labels;
};

struct dump_thread {
    int tid;
    char name[64];
    char state;       /* of /proc: R running, S sleeping, D in the kernel ... */
    uint64_t task_id; /* the task that it runs; 0: none */
    struct dump_stack stack;
};

/* A goroutine; a thread of Java; or a Python thread, if the process was not stopped. */
struct dump_task {
    uint64_t id;
    struct str state; /* "chan receive"; "": not known */
    int64_t wait_ns;  /* for how long it waits at least; -1: not known */
    int tid;          /* the thread that runs it; 0: none */
    bool is_system;   /* of the runtime itself */
    bool own_moment;  /* its frames are not those of the thread that runs it: Java's, which are taken at another time */
    struct str name;  /* of a Java thread */
    struct dump_stack stack;
};

struct dump_module {
    struct object *object;
    const char *path; /* as seen by the process */
};

struct dump {
    int pid;
    struct dump_module *modules;
    uint32_t n_modules;
    struct dump_thread *threads;
    uint32_t n_threads;
    struct dump_task *tasks;
    uint32_t n_tasks;
    uint64_t tasks_left_out; /* beyond DUMP_TASKS_MAX */
    const char *task_word;   /* "goroutine", "Java thread"; NULL: there are no tasks */
    struct str runtime;      /* "CPython 3.11.7", "go1.26.1"; empty for others */
    struct str warning;      /* what is missing and why; empty when nothing is */
    int64_t stopped_ns;      /* how long the process was stopped */
    struct arena arena;
    struct objects *objects;
    struct processes *processes;
    struct process *process;
    uint64_t *fps; /* of the frames of the last dump_walk(): the frame pointers of those that are walked by them */
};

struct dump_options {
    bool nonblocking;           /* do not stop it: only what its language knows */
    bool no_native;             /* leave out native frames of threads that have a language's */
    struct file_reader *reader; /* reads the binaries; NULL: in this process, for tests */
};

/* *ret is to be freed with dump_free(), before the reader. -ESRCH, -EPERM with an error message. Native frames have
 * names from symbol tables, pclntab or a perf map; other lines and inlined calls are left to the symbolizer. */
int dump_take(int pid, const struct dump_options *o, struct dump **ret, struct err *e);
void dump_free(struct dump *s);
DEFINE_CLEANUP(struct dump *, dump_free)

#endif
