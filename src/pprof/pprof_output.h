/* SPDX-License-Identifier: Apache-2.0 */
/* Where a report of `wick pprof` goes: through graphviz, to stdout, into a file, to a viewer or browser. */
#ifndef PPROF_PPROF_OUTPUT_H
#define PPROF_PPROF_OUTPUT_H

#include "pprof/pprof_commands.h"
#include "report/pprof_config.h"
#include "report/prof.h"

/* Makes the report of p (which it changes) and sends it where command and config say. In the shell viewers run in the
 * background. */
int pprof_report(struct prof *p, const struct pprof_command *c, struct str argument, const struct pprof_config *config,
                 bool shell, struct err *e);
/* Where nm and objdump are: -tools. Before the first report; tools must stay alive. */
void pprof_output_tools(struct str tools);
/* Deletes files that viewers were given. */
void pprof_output_done(void);

#endif
