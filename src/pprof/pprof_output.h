/* SPDX-License-Identifier: Apache-2.0 */
/* The destinations of a report of `wick pprof`: through graphviz, to stdout, into a file, to a viewer or browser. */
#ifndef PPROF_PPROF_OUTPUT_H
#define PPROF_PPROF_OUTPUT_H

#include "pprof/pprof_commands.h"
#include "report/pprof_config.h"
#include "report/prof.h"

/* Makes the report of p (which it modifies) and sends it to the destination given by command and config. In the shell,
 * viewers run in the background. */
int pprof_report(struct prof *p, const struct pprof_command *c, struct str argument, const struct pprof_config *config,
                 bool shell, struct err *e);
/* Sets where nm and objdump are: -tools. To be called before the first report; tools must stay valid. */
void pprof_output_tools(struct str tools);
/* Deletes the files that were opened in viewers. */
void pprof_output_done(void);

#endif
