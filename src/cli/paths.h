/* SPDX-License-Identifier: Apache-2.0 */
/* Default locations of wick's files. */
#ifndef CLI_PATHS_H
#define CLI_PATHS_H

#include "base/err.h"

enum { PATH_SIZE = 4096 };

/* The data directory: /var/lib/wick for root, else $XDG_DATA_HOME/wick or ~/.local/share/wick. */
int path_data_dir(char ret[PATH_SIZE], struct err *e);
/* The default store inside it. */
int path_store_dir(char ret[PATH_SIZE], struct err *e);

#endif
