/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a batch in any format that `wick convert` supports: for commands that make profiles themselves. */
#ifndef CONVERT_CONVERT_OUTPUT_H
#define CONVERT_CONVERT_OUTPUT_H

#include <stdbool.h>

#include "base/err.h"

struct batch;

/* Checks that the file's name determines a format and that it can be written, with an error message if not. Called
 * before the work is done. option: how the user named it. */
int convert_output_check(const char *option, const char *path, struct err *e);

/* Whether the format is pprof. */
bool convert_output_is_pprof(const char *path);

struct convert_files {
    const char *path;  /* "-": standard output */
    const char *first; /* a batch with several types, in a format for one: this one goes into path, the others into
                        * files beside it, x.off_cpu.pb.gz; NULL: the first that there is */
    void (*wrote)(void *ctx, const char *path); /* called for each file; may be NULL */
    void *ctx;
};
/* title: what was profiled, for formats that show it. */
int convert_output_write(struct batch *b, const char *title, const struct convert_files *files, struct err *e);

#endif
