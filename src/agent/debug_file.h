/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the separate debug file of an object in the places that distributions use: by build id, and by the name in
 * .gnu_debuglink, next to the file, in .debug there, or below /usr/lib/debug; and in the cache of debuginfod's clients, if
 * one was set. A candidate is accepted only if it is of
 * the same build, judged by its build id, or by the checksum in the link if the object has no build id. The process
 * that reads binaries judges; this one only opens the candidates.
 */
#ifndef AGENT_DEBUG_FILE_H
#define AGENT_DEBUG_FILE_H

#include <limits.h>
#include <stdbool.h>

#include "agent/object.h"

struct debug_file {
    char path[PATH_MAX];
    bool has_lines;
};

/* The open debug file, to be closed by the caller; negative when there is none. ret may be NULL. */
int debug_file_open(const struct object *o, struct debug_file *ret);
/* The path of the file with the most symbols for the object's code: its own, or its debug file. -ENODATA when neither
 * has more than dynamic symbols. */
int debug_file_best(const struct object *o, char ret_path[PATH_MAX]);
/* The same for the next sampled object, each one once; false when there is none at the moment. */
bool debug_file_next(struct objects *s, char ret_path[PATH_MAX]);
/* A folder with files FOLDER/ID/debuginfo. */
void debug_file_set_cache(const char *folder);
/* The next sampled file, from number *at on, that has no more than dynamic symbols and no debug file; NULL when there are
 * no more. */
struct object *debug_file_next_missing(struct objects *s, size_t *at);

#endif
