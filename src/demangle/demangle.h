/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of the symbol table -> names for people: C++ (Itanium ABI) and Rust (v0 and the older `_ZN…17h<hash>E`).
 * The words are those that `go tool pprof` prints, because reports are compared with its reports.
 *
 * Symbol names come out of files of unknown origin: nesting, work, memory and output are bounded, and a name beyond the
 * bounds counts as not mangled. Nothing here keeps state between calls; any thread may call.
 */
#ifndef DEMANGLE_DEMANGLE_H
#define DEMANGLE_DEMANGLE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

enum {
    DEMANGLE_NO_PARAMS = 1 << 0,           /* f, not f(int); implies NO_CLONES */
    DEMANGLE_NO_TEMPLATE_PARAMS = 1 << 1,  /* f, not f<int> */
    DEMANGLE_NO_ENCLOSING_PARAMS = 1 << 2, /* f()::local, not f(int)::local */
    DEMANGLE_NO_CLONES = 1 << 3,           /* drops ".constprop.0", ".cold" */
};

enum { DEMANGLE_OUTPUT_MAX = 1 << 20 }; /* longest name made */

/* Appends the demangled name and returns 0. -EINVAL when name is not a mangled one (or is beyond the bounds), -ENOMEM;
 * then out is as it was. */
int demangle(struct str name, unsigned flags, struct buf *out);

/* pprof's -symbolize=demangle= modes. */
enum demangle_mode {
    DEMANGLE_SIMPLE, /* "default": no parameters, no template arguments */
    DEMANGLE_NONE,
    DEMANGLE_TEMPLATES, /* no parameters */
    DEMANGLE_FULL,
};

/* Appends what pprof calls a function whose name in the symbol table is system_name: demangled by mode; a name with one
 * '_' too many (macOS) is tried without it; one that looks demangled already is simplified the same way; any other is
 * appended as it is. 0 or -ENOMEM. */
int demangle_function(struct str system_name, enum demangle_mode mode, struct buf *out);

#endif
