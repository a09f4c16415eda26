/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQLite's file access over base/fd, so that tests can record, fail and replay the catalogue's calls like all others.
 * Only one process uses the store (flock) and only one thread the database, in exclusive locking mode: locks and shared
 * memory are not needed and not provided. A file that was created is not durable before its directory is synced; the
 * first sync of such a file does both.
 */
#ifndef SEGMENT_VFS_H
#define SEGMENT_VFS_H

/* Registers the VFS once; returns its name, or NULL when memory runs out. */
const char *vfs_register(void);

#endif
