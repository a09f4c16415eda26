/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to do when the functions of a program have no names: the package with its debug symbols, where the distribution has
 * such packages, and the distribution's debuginfod server.
 */
#ifndef HOST_NAME_HINT_H
#define HOST_NAME_HINT_H

#include "base/buf.h"

/* Appends one sentence without a newline. root: "/", or a tree of its own for tests. */
void name_hint(const char *root, const char *path, struct buf *out);

#endif
