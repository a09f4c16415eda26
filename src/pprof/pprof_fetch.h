/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches profiles over http and https for `wick pprof`. */
#ifndef PPROF_PPROF_FETCH_H
#define PPROF_PPROF_FETCH_H

#include "pprof/pprof_args.h"

/* Fetches the source (a URL, or HOST:PORT/PATH). A source that is neither a file nor a URL fails like a missing
 * file. quiet shows no progress: several fetches may run at once, each in a thread. *ret_url gets the URL that was
 * requested. */
int pprof_fetch(const struct pprof_args *a, const char *source, bool quiet, struct buf *out, struct buf *ret_url,
                struct err *e);
/* Posts body to url and returns the response. */
int pprof_post(const struct pprof_args *a, struct str url, struct str body, struct buf *out, struct err *e);
/* From now on Ctrl-C cancels fetches, until this is called with false. */
void pprof_fetch_catch(bool on);

#endif
