/* SPDX-License-Identifier: Apache-2.0 */
/* Local binaries of a profile: finding them, names and lines out of them, demangling. */
#ifndef PPROF_PPROF_SYMBOLIZE_H
#define PPROF_PPROF_SYMBOLIZE_H

#include "pprof/pprof_args.h"
#include "report/prof.h"

struct pprof_origins;

/* Does the path name a binary (ELF)? Then `wick pprof BINARY PROFILE` means the profile's main binary. */
bool pprof_is_binary(const char *path);
/* Replaces mapping files by those found under $PPROF_BINARY_PATH; gives a profile without mappings one; binary and
 * build_id (may be empty) override those of the first mapping. */
int pprof_locate_binaries(struct prof *p, struct str binary, struct str build_id, struct err *e);
/* -symbolize=MODE: names and lines where the profile has none, from local binaries (-tools says with what) and from
 * where it was fetched; then demangled names. */
int pprof_symbolize(struct prof *p, const struct pprof_args *a, const struct pprof_origins *origins, struct err *e);

#endif
