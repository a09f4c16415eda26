/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every thread of a process as it is now: all are stopped for some milliseconds (ptrace), their stacks are walked with the
 * same rows as samples are, Python's frames are put in the place of the interpreter's, and all go on. Nothing of the
 * process is changed; system calls that a stop interrupts are taken up again by the kernel, but for the few that signal(7)
 * names (epoll_wait and others then return EINTR, as after SIGSTOP and SIGCONT).
 *
 * Whoever may not stop the process, or does not want to (nonblocking), gets Python's frames alone, read while it runs.
 */
#ifndef AGENT_STILL_H
#define AGENT_STILL_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "elf/elf.h"

struct elf_symbols;
struct unwind_table;

enum {
    STILL_THREADS_MAX = 16384,
    STILL_FRAMES_MAX = 4096, /* of a thread */
    STILL_MODULES_MAX = 4096,
};

enum still_kind { STILL_NATIVE, STILL_PYTHON };

struct still_frame {
    enum still_kind kind;
    bool exact;                /* address is the instruction itself; else it is a return address, behind the call */
    uint64_t address;          /* in the process */
    int32_t module;            /* of still.modules; -1: code of no file */
    uint64_t elf;              /* the address in its file, of the call */
    struct str function, file; /* {NULL} when not known */
    int64_t line;
};

struct still_label {
    struct str key, value;
};

struct still_thread {
    int tid;
    char name[64];
    char state;                 /* of /proc: R running, S sleeping, D in the kernel ... */
    bool whole;                 /* the native stack was walked to its root */
    struct still_frame *frames; /* leaf first */
    uint32_t n_frames;
    struct still_label *labels; /* Go's pprof labels of what it runs */
    uint32_t n_labels;
};

struct still_module {
    struct str path; /* as the process names it */
    struct str build_id;
    char open_path[128]; /* where we can open it */
    struct elf_file *file;
    struct unwind_table *table;
    struct elf_symbols *symbols; /* loaded at need */
    bool is_go;
    uint64_t fp_lo, fp_hi; /* ELF addresses of code with frame pointers and without rows (v8_builtins.h) */
};

struct still {
    int pid;
    struct still_module *modules;
    uint32_t n_modules;
    struct still_thread *threads;
    uint32_t n_threads;
    struct str runtime; /* "CPython 3.11.7", "go1.26.1"; empty for others */
    struct str warning; /* what is missing and why; empty when nothing is */
    int64_t stopped_ns; /* how long the process was stopped */
    struct arena arena;
};

struct still_options {
    bool nonblocking; /* do not stop it: Python's frames alone */
    bool no_native;   /* leave out native frames of threads that have Python's */
};

/* *ret is to be freed with still_free(). -ESRCH, -EPERM with words. Native frames have names from symbol tables,
 * pclntab or a perf map; lines and inlined calls are the symbolizer's. */
int still_take(int pid, const struct still_options *o, struct still **ret, struct err *e);
void still_free(struct still *s);
DEFINE_CLEANUP(struct still *, still_free)

#endif
