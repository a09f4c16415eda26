/* SPDX-License-Identifier: Apache-2.0 */
/* Default locations of wick's files, and the files that a user names. */
#ifndef CONF_PATHS_H
#define CONF_PATHS_H

#include "base/err.h"

enum { PATH_SIZE = 4096 };

/* The data directory: /var/lib/wick for root, else $XDG_DATA_HOME/wick or ~/.local/share/wick. */
int path_data_dir(char ret[PATH_SIZE], struct err *e);
/* The default store inside it. */
int path_store_dir(char ret[PATH_SIZE], struct err *e);

/* Checks that a file can be written, before the work is done whose result goes there. option: how the user named it.
 * "-" is standard output. What exists is not changed, and nothing is left behind. */
int path_check_output(const char *option, const char *path, struct err *e);

#endif
