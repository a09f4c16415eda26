/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the store of a running server, in the folder "snapshots" of the store's directory. They are the operator's to move or
 * to delete; only one that was not finished is removed, by the next start. */
#ifndef SERVE_SERVE_SNAPSHOT_H
#define SERVE_SERVE_SNAPSHOT_H

struct serve;
struct snapshots;

/* NULL: the store is not in a directory. Belongs to s. */
const struct snapshots *serve_snapshots(struct serve *s);

#endif
