/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directories of the server, which root opens and gives to the server's user. Another user may own a directory on
 * the path, and the service itself may have been compromised earlier: this code follows only links made by root, and
 * changes the owner of files with several hard links only in a tree that no one but root could write to.
 */
#ifndef SERVE_SERVE_DIRS_H
#define SERVE_SERVE_DIRS_H

#include "serve/serve_rights.h"

/* Opens d->path as d->fd, creating it with mode 0700 if it is absent. */
int serve_dir_open(struct serve_dir *d, struct err *e);
/* Makes the user the owner of a new or empty directory, or of a store with everything in it. -EACCES for any other. */
int serve_dir_hand_over(struct serve_dir *d, uid_t uid, gid_t gid, const char *name, struct err *e);

#endif
