/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directories of the server, opened and given to its user by root. Somebody else may own a directory on the way, and
 * the service itself may have been taken over earlier: nothing here follows a link that is not root's, and files with
 * several names are given away only from a tree that nobody but root could write to.
 */
#ifndef SERVE_SERVE_DIRS_H
#define SERVE_SERVE_DIRS_H

#include "serve/serve_rights.h"

/* Opens d->path as d->fd, creating it with mode 0700 if it is absent. */
int serve_dir_open(struct serve_dir *d, struct err *e);
/* Makes the user its owner: a new or empty directory, and a store with everything in it. -EACCES for another one. */
int serve_dir_hand_over(struct serve_dir *d, uid_t uid, gid_t gid, const char *name, struct err *e);

#endif
