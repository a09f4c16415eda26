/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that the kernel writes: to those of files that were removed or replaced it adds " (deleted)". */
#ifndef PROC_PROC_PATH_H
#define PROC_PROC_PATH_H

#include "base/str.h"

/* Cuts off " (deleted)". True if it was there. */
bool proc_path_cut_deleted(struct str *path);
/* The path of a running program: the text of a link such as /proc/PID/exe, without " (deleted)", NUL-terminated in buf. "" if it
 * cannot be read or is too long. */
struct str proc_path_of_exe(const char *link, char *buf, size_t size);

#endif
