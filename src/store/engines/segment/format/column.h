/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A column of a chunk: bytes that are packed by themselves, so that a reader may skip it and each gets the code that
 * suits it.
 *
 *   varint  size raw << 2 | how: 0 as they are, 1 zstd, 2 one byte that is repeated
 *   zstd: varint size packed
 *   the bytes
 */
#ifndef SEGMENT_COLUMN_H
#define SEGMENT_COLUMN_H

#include <zstd.h>

#include "base/arena.h"
#include "store/engines/segment/format/coding.h"

enum { COLUMN_MAX = 1 << 28 };

/* Appends the bytes, packed, with zstd's level. Errors stick to out. */
void column_put(ZSTD_CCtx *z, struct buf *out, const void *p, size_t n, int level);
/* The next column of r unpacked, in the arena where it has to be. Errors stick to r. */
struct reader column_get(struct reader *r, struct arena *a);
/* Past it. */
void column_skip(struct reader *r);

/* The thread's own context, freed with the thread; NULL without memory. */
ZSTD_DCtx *column_zstd(void);

#endif
