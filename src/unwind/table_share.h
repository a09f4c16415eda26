/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An unwind table that another process made: the confined child that reads foreign files hands it over as a sealed
 * memory file (base/sealed.h), which is used in place. Layout, native byte order, each part aligned to 8 bytes:
 *
 *   0    u64 first page | u64 covered | u32 pages | u32 rows | u32 rules | u32 unknown rows
 *   32   pages | rows | rules | blocks     (rows.h)
 *
 * The sender is not trusted: every index and every invariant of rows.h is checked before the table is used.
 */
#ifndef UNWIND_TABLE_SHARE_H
#define UNWIND_TABLE_SHARE_H

#include "unwind/table.h"

/* The table as a sealed memory file; *ret is its descriptor, the caller's. */
int unwind_table_share(const struct unwind_table *t, int *ret);
/* The table in a sealed memory file, mapped read-only; to be freed with unwind_table_free(). fd may be closed
 * afterwards. -EBADMSG when it is malformed. */
int unwind_table_map(int fd, struct unwind_table **ret);
/* Checks bytes of that layout and points *ret into them; p is aligned to 8 bytes. -EBADMSG when they are malformed. */
int unwind_table_check(const void *p, size_t n, struct unwind_table *ret);

#endif
