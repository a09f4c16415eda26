/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The current stacks of all threads of a process: the threads are stopped for some milliseconds (ptrace), their stacks
 * are walked with the same unwind tables as samples, Python's frames replace those of the interpreter, and the threads
 * continue. The process is not changed; the kernel restarts system calls that a stop interrupts, except for the few
 * that signal(7) names (epoll_wait and others then return EINTR, as after SIGSTOP and SIGCONT).
 *
 * If the caller may not stop the process, or does not want to (nonblocking), only Python's frames are returned, read
 * while it runs.
 */
#ifndef AGENT_DUMP_H
#define AGENT_DUMP_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "elf/elf.h"

struct elf_symbols;
struct unwind_table;

enum {
    DUMP_THREADS_MAX = 16384,
    DUMP_FRAMES_MAX = 4096, /* of a thread */
    DUMP_MODULES_MAX = 4096,
};

enum dump_kind { DUMP_NATIVE, DUMP_PYTHON };

struct dump_frame {
    enum dump_kind kind;
    bool exact;                /* address is the instruction itself; else it is a return address, after the call */
    uint64_t address;          /* in the process */
    int32_t module;            /* of still.modules; -1: code of no file */
    uint64_t elf;              /* the address in its file, of the call */
    struct str function, file; /* {NULL} when not known */
    int64_t line;
};

struct dump_label {
    struct str key, value;
};

struct dump_thread {
    int tid;
    char name[64];
    char state;                /* of /proc: R running, S sleeping, D in the kernel ... */
    bool whole;                /* the native stack was walked to its root */
    struct dump_frame *frames; /* leaf first */
    uint32_t n_frames;
    struct dump_label *labels; /* Go's pprof labels of what it runs */
    uint32_t n_labels;
};

struct dump_module {
    struct str path; /* as seen by the process */
    struct str build_id;
    char open_path[128]; /* where we can open it */
    struct elf_file *file;
    struct unwind_table *table;
    struct elf_symbols *symbols; /* loaded when needed */
    bool is_go;
    uint64_t fp_lo, fp_hi; /* ELF addresses of code with frame pointers and without rows (v8_builtins.h) */
};

struct dump {
    int pid;
    struct dump_module *modules;
    uint32_t n_modules;
    struct dump_thread *threads;
    uint32_t n_threads;
    struct str runtime; /* "CPython 3.11.7", "go1.26.1"; empty for others */
    struct str warning; /* what is missing and why; empty when nothing is */
    int64_t stopped_ns; /* how long the process was stopped */
    struct arena arena;
};

struct dump_options {
    bool nonblocking; /* do not stop it: only Python's frames */
    bool no_native;   /* leave out native frames of threads that have Python's */
};

/* *ret is to be freed with dump_free(). -ESRCH, -EPERM with an error message. Native frames have names from symbol
 * tables, pclntab or a perf map; lines and inlined calls are left to the symbolizer. */
int dump_take(int pid, const struct dump_options *o, struct dump **ret, struct err *e);
void dump_free(struct dump *s);
DEFINE_CLEANUP(struct dump *, dump_free)

#endif
