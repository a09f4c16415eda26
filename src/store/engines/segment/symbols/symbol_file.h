/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbol file of a tenant's epoch: blocks of packed definitions (symbol_pack.h), one per flush, appended.
 *
 *   block  4  magic 0x4d595357 ("WSYM")
 *          4  version (1)
 *          4  size
 *          4  CRC-32C of what follows
 *          4  CRC-32C of the preceding 16 bytes
 *          n  packed definitions
 *
 * Each block is stored twice, one copy after the other: every row needs the series, services and nodes that a block
 * defines, and damage to one copy must not hide them. A copy of the preceding block is not applied again.
 *
 * Only the length that the catalogue records is valid; anything after it is cut off before the next block is written.
 */
#ifndef SEGMENT_SYMBOL_FILE_H
#define SEGMENT_SYMBOL_FILE_H

#include "base/err.h"
#include "store/engines/segment/symbols/symbols.h"

/* Appends one block at `at` and syncs; *ret_end is the new length. The directory is synced when the file is new. */
int symbol_file_append(int dir, uint32_t epoch, uint64_t at, const struct buf *defs, uint64_t *ret_end, struct err *e);
struct symbol_file {
    int dir;
    uint32_t epoch;
    uint64_t bytes; /* its valid length; UINT64_MAX: as far as the blocks are good */
};
/* Reads the blocks into s (NULL: only checks them). Damaged blocks are reported and skipped. *ret_end: the end of the
 * last good block. */
int symbol_file_read(const struct symbol_file *f, struct symbols *s, uint64_t *ret_end,
                     void (*damage)(void *ctx, const char *what), void *ctx);
void symbol_file_name(char *out, size_t size, uint32_t epoch);

#endif
