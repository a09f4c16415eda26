/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file beside an object that holds its debug information, where distributions put them: by build id, and by the name
 * in .gnu_debuglink, beside the file, in .debug there, or below /usr/lib/debug. A file of that name counts only when it is
 * of the same build: by its build id, or by the checksum in the link where the object has none.
 */
#ifndef AGENT_DEBUG_FILE_H
#define AGENT_DEBUG_FILE_H

#include <limits.h>
#include <stdbool.h>

#include "agent/object.h"

/* f is the object's own file. NULL when there is none; else to be freed with elf_free(), and ret_path is where it is. */
struct elf_file *debug_file_open(const struct object *o, const struct elf_file *f, char ret_path[PATH_MAX]);
/* Whether the file has lines. */
bool debug_file_has_lines(const struct elf_file *f);
/* Where the file is that says most about the object's code: its own, or the one beside it. -ENODATA when neither has more
 * than names for the loader. */
int debug_file_best(struct object *o, char ret_path[PATH_MAX]);

#endif
