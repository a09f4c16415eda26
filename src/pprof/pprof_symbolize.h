/* SPDX-License-Identifier: Apache-2.0 */
/* Local binaries of a profile: finds them, reads names and lines from them, and demangles names. */
#ifndef PPROF_PPROF_SYMBOLIZE_H
#define PPROF_PPROF_SYMBOLIZE_H

#include "pprof/pprof_args.h"
#include "report/prof.h"

struct pprof_origins;

/* True if the path names a binary (ELF). In `wick pprof BINARY PROFILE` it is then the profile's main binary. */
bool pprof_is_binary(const char *path);
/* Replaces mapping files by those found under $PPROF_BINARY_PATH; adds a mapping to a profile without any; binary and
 * build_id (may be empty) override those of the first mapping. */
int pprof_locate_binaries(struct prof *p, struct str binary, struct str build_id, struct err *e);
/* -symbolize=MODE: adds missing names and lines, from local binaries (with the programs of -tools) and from the server
 * that the profile was fetched from; then demangles names. */
int pprof_symbolize(struct prof *p, const struct pprof_args *a, const struct pprof_origins *origins, struct err *e);

#endif
