/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles over http and https for `wick pprof`. */
#ifndef PPROF_PPROF_FETCH_H
#define PPROF_PPROF_FETCH_H

#include "pprof/pprof_args.h"

/* The bytes that the source (a URL, or HOST:PORT/PATH) answers with. A source that is neither a file nor a URL fails as
 * a file that is not there. quiet shows no progress: several may run at once, each in a thread. *ret_url gets the URL
 * that was asked. */
int pprof_fetch(const struct pprof_args *a, const char *source, bool quiet, struct buf *out, struct buf *ret_url,
                struct err *e);
/* The answer to bytes that are posted there. */
int pprof_post(const struct pprof_args *a, struct str url, struct str body, struct buf *out, struct err *e);
/* From here on Ctrl-C ends what is being fetched, until it is called with false. */
void pprof_fetch_catch(bool on);

#endif
