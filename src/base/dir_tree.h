/* SPDX-License-Identifier: Apache-2.0 */
/* Copies, moves and removes whole directories. Links are neither followed nor copied. */
#ifndef BASE_DIR_TREE_H
#define BASE_DIR_TREE_H

#include "base/err.h"

/* A path relative to an open directory, or to AT_FDCWD. */
struct dir_place {
    int at;
    const char *path;
};

/* Copies a file, or a directory with everything below it, to a name that must not exist; synced. What disappears meanwhile is
 * left out, and so are names that end with ".part". In each directory a file named "index" is copied last, so that it is never
 * older than what it lists. -ENOENT if there is nothing at `from`. */
int dir_copy(struct dir_place from, struct dir_place to, struct err *e);
/* Removes a file, or a directory with everything below it. */
int dir_remove(struct dir_place what);
/* Renames from; on another file system copies it, then removes it. */
int dir_move(struct dir_place from, struct dir_place to, struct err *e);

#endif
