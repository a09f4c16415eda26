/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A symbolizer (model/symbolizer.h) that reads local files: the symbol table, debug information with inlined calls
 * where there is any, Go's own line table where there is none. Frames, names, lines and columns are those of
 * llvm-symbolizer, which pprof uses.
 *
 * A request names the binary by path; without one, by build id under /usr/lib/debug/.build-id. The last few binaries
 * are kept open, so that repeated requests are cheap. Not thread-safe.
 */
#ifndef SYMBOL_DWARF_SYMBOLIZER_H
#define SYMBOL_DWARF_SYMBOLIZER_H

#include "model/symbolizer.h"

/* NULL if out of memory. */
struct symbolizer *dwarf_symbolizer_new(void);

#endif
