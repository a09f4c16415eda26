/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick run -- python: libwick sees the code of the interpreter, not what it interprets. A file with the CPU time of a Python
 * program is therefore recorded from outside, as by `wick record`, which reads the interpreter's frames. This needs no
 * privileges, only a kernel that allows users to sample their own programs.
 */
#ifndef RECORD_RUN_PYTHON_H
#define RECORD_RUN_PYTHON_H

#include <stdbool.h>

#include "base/err.h"

struct run_options;

/* path: the program's file. */
bool run_python_is(const char *path);
/* Whether these options can be done from outside, and the kernel allows it. */
bool run_python_can_record(const struct run_options *o);
/* As run_program(). */
int run_python_record(const struct run_options *o, char **argv, int *ret_status, struct err *e);

#endif
