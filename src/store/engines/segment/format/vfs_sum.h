/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums over what SQLite writes. Its log has sums of its own; a page of the database has room at its end for ours: CRC-32C
 * of the page before it, beginning with the page's number, and the same with every bit turned. SQLite is told to leave
 * PAGE_SUM bytes when a database is made (catalog.c), and says so in the header.
 */
#ifndef SEGMENT_VFS_SUM_H
#define SEGMENT_VFS_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { PAGE_MIN = 512, PAGE_MAX = 65536, PAGE_SUM = 8, PAGE_RESERVED = 20 }; /* the last: where the header says it */

void page_put_sum(unsigned char *p, size_t n, off_t off);
bool page_has_sum(const unsigned char *p, size_t n);
/* It has the right one, and lies where it belongs. */
bool page_is_sound(const unsigned char *p, size_t n, off_t off);

/* Reads a database whose log is empty. -EBADMSG with the place where a page is wrong; 0 also where it has no sums. */
int vfs_check_pages(const char *path, off_t *ret_at);
/* Reads a database's log. 0: sound as far as it goes, or not there; 1: its last transaction is not, which a crash may leave
 * behind as well; 2: damage, of which a crash is no reason. */
int vfs_check_wal(const char *path);
int vfs_wal_state(const unsigned char *p, size_t n);

#endif
