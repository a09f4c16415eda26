/* SPDX-License-Identifier: Apache-2.0 */
/* Source files by the names that profiles use: trimmed, searched along -source_path, read once. */
#ifndef REPORT_SOURCE_READER_H
#define REPORT_SOURCE_READER_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

struct source_file;

struct source_reader {
    struct str search_path, trim_path;
    struct source_file *files;
    size_t n_files, cap_files;
    struct arena arena;
};

enum { SOURCE_FILE_MAX = 64 << 20, SOURCE_FILES_MAX = 1 << 16 };

/* search_path "" is the working directory. */
int source_reader_init(struct source_reader *s, struct str search_path, struct str trim_path, struct err *e);
void source_reader_done(struct source_reader *s);
/* 1: *ret is the line, without its end. 0: there is no such line. -ENOMEM. */
int source_reader_line(struct source_reader *s, struct str path, int64_t line, struct str *ret);
/* The error message if the file could not be read, or NULL; after source_reader_line(). */
const char *source_reader_error(struct source_reader *s, struct str path);

#endif
