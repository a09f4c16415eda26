/* SPDX-License-Identifier: Apache-2.0 */
/* Rust's two manglings. Called only by demangle.c, which has checked the prefix. */
#ifndef DEMANGLE_DEMANGLE_RUST_H
#define DEMANGLE_DEMANGLE_RUST_H

#include "base/buf.h"
#include "base/str.h"

/* name starts with "_R" (RFC 2603). Flags of demangle.h. 0, -EINVAL, -ENOMEM; out is untouched on failure. */
int demangle_rust_v0(struct str name, unsigned flags, struct buf *out);
/* name is "_ZN" … "17h" 16 characters "E". -EINVAL when it is a C++ name. */
int demangle_rust_legacy(struct str name, struct buf *out);

#endif
