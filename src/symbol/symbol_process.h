/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A symbolizer in a process of its own, because ELF and DWARF are hostile input: a crash ends only that process and not
 * the server. The child is `wick symbolize`, at the other end of a socket pair; it is started at the first request, and
 * again after it has died. A binary that killed it twice is refused from then on.
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
/* Gives up all privileges that answering requests does not need: no writing, opening files for reading only, no
 * network, no other programs; memory and open files are limited. With folders (NULL-terminated; NULL for none) only
 * files below them can be read, if the kernel has Landlock. Returns 0, or a negative errno if the kernel does not
 * support it. */
int symbol_process_confine(size_t memory_max, const char *const *folders);

#endif
