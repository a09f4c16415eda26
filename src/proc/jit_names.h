/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /tmp/perf-PID.map, what JITs write for profilers (node --perf-basic-prof, Java agents, LuaJIT, Python's -X perf). A
 * line is
 *
 *     START SIZE name that may have spaces          numbers in hexadecimal, with or without "0x"
 *
 * Code that moved is written again: the last line for an address is valid. The file is below the process's root, is
 * named by the pid of the process in its own namespace, and any user there may have written it: only a regular file of
 * the process's own user (or root) is read, at most JIT_NAMES_FILE_MAX bytes of it.
 */
#ifndef PROC_JIT_NAMES_H
#define PROC_JIT_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "proc/addr_names.h"

enum { JIT_NAMES_FILE_MAX = 64 << 20 };

/* Adds the lines of text, which may be a part of the file: *ret_used is the length of the complete lines. Malformed
 * lines are ignored. The caller calls addr_names_sort(). */
int jit_names_parse(struct str text, size_t *ret_used, struct addr_names *t);
/* One line; false when it is malformed. */
bool jit_names_line(struct str line, uint64_t *ret_start, uint64_t *ret_size, struct str *ret_name);
/* Opens the file of a process. proc: "/proc". -ENOENT when there is none, -EPERM when it belongs to another user. */
int jit_names_open(const char *proc, int pid, struct err *e);
/* The frame name for code without names: "[node: run with --perf-basic-prof]", by the name of the executable. The text
 * is constant; NULL for programs that are not known to have a JIT. has_map: the process has a perf map, but this
 * address is not in it. */
const char *jit_names_hint(struct str executable, bool has_map);

#endif
