/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts names of the symbol table to readable names: C++ (Itanium ABI) and Rust (v0 and the older `_ZN…17h<hash>E`).
 * The result is what `go tool pprof` prints, because reports are compared with its reports.
 *
 * Symbol names come from untrusted files: nesting, work, memory and output are bounded, and a name beyond the bounds is
 * treated as not mangled. These functions keep no state between calls; any thread may call them.
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

/* Appends the demangled name and returns 0. -EINVAL when name is not mangled (or is beyond the bounds), -ENOMEM; then
 * out is unchanged. */
int demangle(struct str name, unsigned flags, struct buf *out);

/* pprof's -symbolize=demangle= modes. */
enum demangle_mode {
    DEMANGLE_SIMPLE, /* "default": no parameters, no template arguments */
    DEMANGLE_NONE,
    DEMANGLE_TEMPLATES, /* no parameters */
    DEMANGLE_FULL,
};

/* Appends pprof's name of a function whose name in the symbol table is system_name: demangled according to mode; a name
 * with an extra leading '_' (macOS) is tried without it; one that looks already demangled is simplified in the same
 * way; any other is appended unchanged. 0 or -ENOMEM. */
int demangle_function(struct str system_name, enum demangle_mode mode, struct buf *out);

#endif
