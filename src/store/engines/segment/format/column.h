/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A column of a chunk: bytes that are compressed separately, so that a reader can skip it and each column gets the
 * encoding that suits it.
 *
 *   varint  size raw << 2 | encoding: 0 raw, 1 zstd, 2 one repeated byte
 *   zstd: varint compressed size
 *   the bytes
 */
#ifndef SEGMENT_COLUMN_H
#define SEGMENT_COLUMN_H

#include <errno.h>
#include <zstd.h>

#include "base/arena.h"
#include "base/bytes.h"

enum { COLUMN_MAX = 1 << 28 };

/* Appends the bytes of a column, compressed with the given zstd level. An error of the column becomes that of out; errors
 * of out are sticky. */
void column_put(ZSTD_CCtx *z, struct buf *out, const struct buf *column, int level);
/* Returns the next column of r, decompressed; in the arena where necessary. Errors of r are sticky. */
struct cursor column_get(struct cursor *r, struct arena *a);
/* What a decoder returns instead of r: when there was no memory for a column, the column is not damaged. */
static inline int column_result(int r, const struct arena *a)
{
    return r == -EBADMSG && a->failed ? -ENOMEM : r;
}
/* Skips the next column. */
void column_skip(struct cursor *r);

/* The context of this thread, freed when the thread ends; NULL when memory runs out. */
ZSTD_DCtx *column_zstd(void);

#endif
