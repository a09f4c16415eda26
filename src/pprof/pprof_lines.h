/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Line input for the shell of `wick pprof`. On a terminal, lines are edited with libedit: history, kept in the user's
 * state directory, and completion of commands, options and function names. Otherwise they are read as they are, without
 * a prompt.
 */
#ifndef PPROF_PPROF_LINES_H
#define PPROF_PPROF_LINES_H

#include "base/str.h"
#include "report/prof.h"

struct lines;

int lines_new(const struct prof *p, struct lines **ret);
void lines_free(struct lines *l);
/* The next line, valid until the next call; false at the end. */
bool lines_next(struct lines *l, struct str *ret);

#endif
