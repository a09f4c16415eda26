/* SPDX-License-Identifier: Apache-2.0 */
/* Other programs that show a graph: graphviz, viewers, browsers. */
#ifndef PPROF_PPROF_VIEW_H
#define PPROF_PPROF_VIEW_H

#include "pprof/pprof_commands.h"

/* Replaces the graph in b by the output of `dot -Tformat`; with_script makes an SVG that can be panned and zoomed. */
int pprof_run_dot(const char *format, bool with_script, struct buf *b, struct err *e);
/* Writes b to a temporary file and opens it with the command's viewer or a browser. */
int pprof_view(const struct pprof_command *c, const struct buf *b, bool background, struct err *e);
/* Starts a browser at the address and does not wait for it. -ENOENT if there is none. */
int pprof_open_browser(const char *url);
/* Deletes the temporary files. */
void pprof_view_done(void);

#endif
