/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a batch in any format that `wick convert` supports: for commands that make profiles themselves. */
#ifndef CLI_CONVERT_OUTPUT_H
#define CLI_CONVERT_OUTPUT_H

#include "base/err.h"

struct batch;

/* Checks that the file's name determines a format, with an error message if it does not. Called before the work is
 * done. */
int convert_output_check(const char *path, struct err *e);
/* title: what was profiled, for formats that show it. */
int convert_output_write(struct batch *b, const char *title, const char *path, struct err *e);

#endif
