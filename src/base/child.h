/* SPDX-License-Identifier: Apache-2.0 */
/* Other programs: finds them on the PATH, runs them to their end and reads their output. */
#ifndef BASE_CHILD_H
#define BASE_CHILD_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/* Finds the program in one of the folders (separated by ':'), or on the PATH if folders is empty. A name with a '/' is
 * used as it is. */
bool child_find(struct str folders, const char *name, struct buf *ret_path);
/* Runs argv[0] and appends its standard output to out, at most limit bytes; its standard input and standard error are
 * /dev/null. -EIO with an error message if it fails. */
int child_output(const char *const *argv, size_t limit, struct buf *out, struct err *e);

#endif
