/* SPDX-License-Identifier: Apache-2.0 */
/* pprof's own views as pages: top, graph, peek, source, disasm; and download. */
#ifndef PPROF_PPROF_HTTP_PAGES_H
#define PPROF_PPROF_HTTP_PAGES_H

struct front;

/* Routes for a front whose front_options.store_ctx is the struct pprof_files. They must be mounted before those of the
 * UI. */
int pprof_pages_mount(struct front *f);

#endif
