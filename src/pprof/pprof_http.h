/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick pprof -http=[host]:[port]: serves the web UI for one profile (or two, with a base), under /ui/ as pprof does.
 */
#ifndef PPROF_PPROF_HTTP_H
#define PPROF_PPROF_HTTP_H

#include "pprof/pprof_args.h"
#include "report/prof.h"

/* Serves until SIGINT or SIGTERM. Messages go to stderr as in pprof. */
int pprof_http(struct prof *p, const struct pprof_args *a, struct err *e);

#endif
