/* SPDX-License-Identifier: Apache-2.0 */
/* Other programs: found on the PATH, run to their end, their output read. */
#ifndef BASE_CHILD_H
#define BASE_CHILD_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/* The program in one of the folders (separated by ':'), or on the PATH when folders is empty. name with a '/' is taken
 * as it is. */
bool child_find(struct str folders, const char *name, struct buf *ret_path);
/* Runs argv[0] with its standard output behind out, at most limit bytes; its input and its messages go nowhere.
 * -EIO with words when it fails. */
int child_output(const char *const *argv, size_t limit, struct buf *out, struct err *e);

#endif
