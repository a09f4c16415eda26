/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the profile of `wick pprof`: files and URLs are merged and the base is subtracted; symbols and demangled names
 * are filled in; drop_frames is applied; a copy of a profile that came over the network is saved. Messages go to stderr
 * as in pprof.
 */
#ifndef PPROF_PPROF_SOURCE_H
#define PPROF_PPROF_SOURCE_H

#include "pprof/pprof_args.h"
#include "report/prof.h"

/* Loads all sources into one profile, which refers to strings in pool. */
int pprof_load(const struct pprof_args *a, struct prof_pool *pool, struct prof **ret, struct err *e);

/* Prints a message in the style of pprof, with a newline if it has none. Also usable as a filter_message. */
void pprof_say(void *unused, const char *text);

/* Creates a new file DIR/PREFIXnnn SUFFIX with the first free number; returns its descriptor, and its path in *path. */
int pprof_temp_file(const char *dir, struct str prefix, const char *suffix, struct buf *path, struct err *e);
/* Appends the profile as gzipped protobuf. */
int pprof_write(const struct prof *p, struct buf *out, struct err *e);

#endif
