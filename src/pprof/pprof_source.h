/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where `wick pprof` gets its profile: files and URLs, merged; the base subtracted; symbols and demangled names filled
 * in; drop_frames applied; a copy of what came over the network saved. Messages go to stderr as pprof's do.
 */
#ifndef PPROF_PPROF_SOURCE_H
#define PPROF_PPROF_SOURCE_H

#include "pprof/pprof_args.h"
#include "report/prof.h"

/* The one profile of all sources. pool keeps what it points into. */
int pprof_load(const struct pprof_args *a, struct prof_pool *pool, struct prof **ret, struct err *e);

/* A message of pprof's, with a newline if it has none. Also a filter_message. */
void pprof_say(void *unused, const char *text);

/* A new file DIR/PREFIXnnn SUFFIX with the first free number; its descriptor, and its path in *path. */
int pprof_temp_file(const char *dir, struct str prefix, const char *suffix, struct buf *path, struct err *e);
/* Profile as gzipped protobuf, appended. */
int pprof_write(const struct prof *p, struct buf *out, struct err *e);

#endif
