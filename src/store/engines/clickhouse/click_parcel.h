/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A parcel: the encoded blocks of one group of requests, on its way to ClickHouse. It is made once, and sent as it is until it
 * is stored. With a spool (click_insert.c) it is a record on disk:
 *
 *   0  4  "WCP1"
 *   4  4  n keys
 *      25 * n  u8 kind (0 profile, 1 place), u64 high, u64 low, u64 time received: see click_block.dedup and .places
 *      per table, in the order of insertion: u8 table, u64 length, the block in ClickHouse's format Native
 */
#ifndef CLICKHOUSE_CLICK_PARCEL_H
#define CLICKHOUSE_CLICK_PARCEL_H

#include "store/engines/clickhouse/click_block.h"

/* Appends a parcel with the rows and keys of a block. */
int click_parcel_encode(const struct click_block *b, struct buf *out);

struct click_parcel_reader {
    struct cursor in;
};
/* Returns -EBADMSG when it is not a parcel. keys (may be NULL) gets its keys. */
int click_parcel_open(struct str parcel, struct click_block *keys, struct click_parcel_reader *ret);
/* The next table: 1, 0 at the end, or -EBADMSG. */
int click_parcel_next(struct click_parcel_reader *r, enum click_table *ret, struct str *ret_block);

#endif
