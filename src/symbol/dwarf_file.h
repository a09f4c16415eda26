/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The debug information of one binary, by elfutils: lines and chains of inlined calls for addresses. The information
 * may be in the binary, in a separate file found by build id or .gnu_debuglink, in .dwo files, or come from debuginfod
 * when DEBUGINFOD_URLS is set (elfutils does that by itself).
 *
 * Units are indexed when the file is opened; the functions of a unit when an address in it is first looked up. elfutils
 * is not thread-safe: use a file from one thread at a time.
 */
#ifndef SYMBOL_DWARF_FILE_H
#define SYMBOL_DWARF_FILE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/macros.h"

struct dwarf_frame {
    const char *name; /* linkage name, else plain name, else NULL; lives as long as the file */
    const char *file; /* or NULL */
    const char *dir;  /* directory to put in front of file with a '/', or NULL */
    int line, column, start_line;
};

enum { DWARF_FRAMES_MAX = 256 }; /* maximum depth of inlined calls; deeper chains lose their outermost frames */

struct dwarf_file;

/* fd: the binary, which the caller keeps, or -1 to open the path. -ENODATA if the binary has no debug information. */
int dwarf_file_open(const char *path, int fd, struct dwarf_file **ret, struct err *e);
void dwarf_file_free(struct dwarf_file *d);
DEFINE_CLEANUP(struct dwarf_file *, dwarf_file_free)

/* The frames at an ELF address, innermost first. Returns their number; 0 if no unit contains the address, or
 * -ENOMEM. */
int dwarf_file_lookup(struct dwarf_file *d, uint64_t address, struct dwarf_frame ret[DWARF_FRAMES_MAX]);

#endif
