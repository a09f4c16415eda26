/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checksums of what SQLite writes. SQLite's log has its own checksums; each page of the database reserves space at its
 * end for ours: the CRC-32C of the page number and the page up to there, and the same value with every bit inverted.
 * SQLite reserves PAGE_SUM bytes per page from the creation of a database (catalog.c), and records that in the header.
 */
#ifndef SEGMENT_VFS_SUM_H
#define SEGMENT_VFS_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { PAGE_MIN = 512, PAGE_MAX = 65536, PAGE_SUM = 8, PAGE_RESERVED = 20 }; /* the last: a header offset */

void page_put_sum(unsigned char *p, size_t n, off_t off);
bool page_has_sum(const unsigned char *p, size_t n);
/* Whether the page has the right checksum for its contents and position. */
bool page_is_sound(const unsigned char *p, size_t n, off_t off);

/* Reads a database whose log is empty. Returns -EBADMSG and the offset when a page is wrong; 0 also when it has no
 * checksums. */
int vfs_check_pages(const char *path, off_t *ret_at);
/* Checks a database's log. Returns 0 when it is sound or missing; 1 when its last transaction is not sound, which a
 * crash can also cause; 2 for damage that a crash does not explain. */
int vfs_check_wal(const char *path);
int vfs_wal_state(const unsigned char *p, size_t n);

#endif
