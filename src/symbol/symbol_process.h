/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A symbolizer in a process of its own, because ELF and DWARF are hostile input: a crash ends only that process and not
 * the server. The child is `wick symbolize`, at the other end of a socket pair; it is started at the first request, and
 * again after it has died. A binary on which it crashed or hung twice is refused for ten minutes.
 *
 * Not thread-safe; a call waits for its answer.
 */
#ifndef SYMBOL_SYMBOL_PROCESS_H
#define SYMBOL_SYMBOL_PROCESS_H

#include "model/symbolizer.h"

/* argv of the child, NULL-terminated, copied; argv[0] contains a '/'. timeout_ms applies to one request, 0: a minute.
 * NULL if out of memory. */
struct symbolizer *symbol_process_new(const char *const *argv, int timeout_ms);

/* The child's side: answers requests from fd with the results of s until the end of the stream. Returns 0 or a negative
 * errno. */
int symbol_process_serve(int fd, struct symbolizer *s);

struct symbol_confine {
    size_t memory_max; /* address space */
    const char *const
        *folders;  /* NULL-terminated: only files below them can be opened; NULL: all that the user can read */
    bool no_files; /* no file can be opened: only descriptors that are passed are read */
    bool may_exec; /* another program may be started in place of this one; it is confined in the same way */
};

/* Gives up all privileges that answering requests does not need: no capabilities, no writing to files, no network, no
 * other programs (but may_exec), no signals to other processes; memory and open files are limited. On a kernel without Landlock, which
 * restricts a process to folders, no file can be opened at all if folders are given: only descriptors that are passed
 * are read then. Returns 0, or a negative errno; the process must not go on then. */
int symbol_process_confine(const struct symbol_confine *c);

#endif
