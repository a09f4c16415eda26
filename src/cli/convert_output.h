/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a batch that is at hand in any format that `wick convert` knows: for commands that make profiles themselves. */
#ifndef CLI_CONVERT_OUTPUT_H
#define CLI_CONVERT_OUTPUT_H

#include "base/err.h"

struct batch;

/* Whether the file's name says what to write, with words when it does not. Before work is done in vain. */
int convert_output_check(const char *path, struct err *e);
/* title: what the profile is of, for formats that show it. */
int convert_output_write(struct batch *b, const char *title, const char *path, struct err *e);

#endif
