/* SPDX-License-Identifier: Apache-2.0 */
/* Writes profiles in any format that `wick convert` supports, for that command and for those that make profiles themselves. */
#ifndef CONVERT_CONVERT_OUTPUT_H
#define CONVERT_CONVERT_OUTPUT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/compress.h"
#include "base/err.h"
#include "codec/input.h"

struct batch;
struct convert_format;

/* The options of `wick convert`; NULL: the default. */
struct convert_options {
    const char *to, *from, *type, *compress, *base;
    bool annotate;
    bool
        is_command; /* of `wick convert`, not of another command that writes a file: error messages may name its options */
};

/* What the options and the name of the output amount to. */
struct convert_plan {
    enum input_format from;
    const struct convert_format *to;
    enum compression compression;
};

/* Checks the options and chooses the formats; an error is one of usage. */
int convert_plan(const struct convert_options *o, const char *out, struct convert_plan *ret, struct err *e);
/* Reads the file in and writes the file out; "-" is standard input or output. */
int convert_file(const struct convert_options *o, const struct convert_plan *p, const char *in, const char *out,
                 struct err *e);
/* Appends a line for each output format, for a help text. */
void convert_formats(struct buf *out);

/* Checks that the file's name determines a format and that it can be written, with an error message if not. Called
 * before the work is done. option: how the user named it. */
int convert_output_check(const char *option, const char *path, struct err *e);

/* The format that the file's name says, by its name; NULL: none. */
const char *convert_output_format(const char *path);
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
