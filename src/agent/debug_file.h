/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the separate debug file of an object in the places that distributions use: by build id, and by the name in
 * .gnu_debuglink, next to the file, in .debug there, or below /usr/lib/debug. A candidate is accepted only if it is of
 * the same build, judged by its build id, or by the checksum in the link if the object has no build id.
 */
#ifndef AGENT_DEBUG_FILE_H
#define AGENT_DEBUG_FILE_H

#include <limits.h>
#include <stdbool.h>

#include "agent/object.h"

/* f is the object's own file. NULL when there is none; else the result is freed with elf_free(), and ret_path is its
 * path. */
struct elf_file *debug_file_open(const struct object *o, const struct elf_file *f, char ret_path[PATH_MAX]);
/* Whether the file has line information. */
bool debug_file_has_lines(const struct elf_file *f);
/* The path of the file with the most symbols for the object's code: its own, or its debug file. -ENODATA when neither
 * has more than dynamic symbols. */
int debug_file_best(struct object *o, char ret_path[PATH_MAX]);

#endif
