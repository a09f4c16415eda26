/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick run -- CMD: starts a program with libwick-preload.so loaded into it. Without an output file the command replaces
 * this process; with one this process waits for it, and merges the files that it and its children wrote into one. For
 * Python programs see run_python.h.
 */
#ifndef RECORD_RUN_PROGRAM_H
#define RECORD_RUN_PROGRAM_H

#include <stdint.h>

#include "base/err.h"

#define RUN_UNSET INT64_MIN

struct run_options {
    const char *types, *export, *pprof, *output, *service; /* NULL: the default */
    int64_t rate, depth, interval;                         /* RUN_UNSET: the default */
};

/* Checks the options; an error is one of usage. */
int run_program_check(const struct run_options *o, struct err *e);
/* Runs argv, which ends with NULL. Returns only with an output file, or on failure; *ret_status is then the exit status of
 * the program, 127 or 126 if it is missing or cannot be run, or 0 if wick refused it. */
int run_program(const struct run_options *o, char **argv, int *ret_status, struct err *e);

#endif
