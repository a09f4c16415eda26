/* SPDX-License-Identifier: Apache-2.0 */
/* The interactive shell of `wick pprof`: commands, assignments, help; completion and history on a terminal. */
#ifndef PPROF_PPROF_SHELL_H
#define PPROF_PPROF_SHELL_H

#include "base/err.h"
#include "report/pprof_config.h"
#include "report/prof.h"

/* Reads commands from stdin until quit or its end. If stdin is not a terminal, no prompt is printed and nothing is
 * echoed. */
int pprof_shell(struct prof *p, const struct pprof_config *config, struct err *e);

#endif
