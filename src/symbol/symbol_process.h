/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A symbolizer in a process of its own, because ELF and DWARF are hostile input: what goes wrong there ends that process
 * and not the server. The child is `wick symbolize`, at the other end of a socket pair; it is started at the first
 * request and again after it died. A binary that killed it twice is refused from then on.
 *
 * Not thread-safe; a call waits for its answer.
 */
#ifndef SYMBOL_SYMBOL_PROCESS_H
#define SYMBOL_SYMBOL_PROCESS_H

#include "model/symbolizer.h"

/* argv of the child, NULL-terminated, copied; argv[0] with a '/'. timeout_ms of one request, 0: a minute. NULL when there
 * is no memory. */
struct symbolizer *symbol_process_new(const char *const *argv, int timeout_ms);

/* The child's side: answers requests from fd until its end with what s says. 0 or a negative errno. */
int symbol_process_serve(int fd, struct symbolizer *s);
/* Gives up all that answering requests does not need: no writing, no new files but to read, no network, no other
 * programs, memory and open files bounded. With folders (NULL-terminated; NULL for none) only files below them can be read,
 * where the kernel has Landlock. 0, or a negative errno when the kernel cannot. */
int symbol_process_confine(size_t memory_max, const char *const *folders);

#endif
