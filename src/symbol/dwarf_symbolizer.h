/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A symbolizer (model/symbolizer.h) that reads files of this machine: the symbol table, debug information with inlined
 * calls where there is any, Go's own line table where there is none. Frames, names, lines and columns are those of
 * llvm-symbolizer, which pprof uses.
 *
 * A request names the binary by path; without one, by build id under /usr/lib/debug/.build-id. Binaries stay open, the
 * last few of them, so that asking again is cheap. Not thread-safe.
 */
#ifndef SYMBOL_DWARF_SYMBOLIZER_H
#define SYMBOL_DWARF_SYMBOLIZER_H

#include "model/symbolizer.h"

/* NULL when there is no memory. */
struct symbolizer *dwarf_symbolizer_new(void);

#endif
