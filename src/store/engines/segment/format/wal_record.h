/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The payload of a log record: one request.
 *
 *   tenant's number, epoch, tenant's name (bytes)
 *   symbol definitions new to the log (bytes, symbols.h)
 *   dictionary definitions new to the log (bytes, blobs.h)
 *   n keys: key (16), time (zigzag)                       for deduplication
 *   n profs: series, header, time, duration, value (zigzag), group, flags (1 id, 2 gauge), [id 16], rows, extras,
 *            rows x (node << 1 | has extra, value zigzag),
 *            extras x (timestamp, attribute set, 0 | 1 + trace 16 + span 8)
 */
#ifndef SEGMENT_WAL_RECORD_H
#define SEGMENT_WAL_RECORD_H

#include "base/bytes.h"
#include "store/engines/segment/write/memtable.h"

void record_put_keys(struct buf *b, const struct dedup_entry *keys, uint32_t n);
void record_put_prof(struct buf *b, const struct stored_profile *p);

struct record {
    uint32_t tenant, epoch;
    struct str name, symbols, blobs;
    struct cursor keys, profs; /* after their counts */
    uint32_t n_keys, n_profs;
};
/* Parses a payload; profs are read one by one after the definitions were applied. */
int record_parse(const void *p, size_t n, struct record *ret);
int record_read_key(struct record *r, struct id128 *ret_key, int64_t *ret_time);
/* Adds the next prof to the part; -EBADMSG when it is invalid. */
int record_read_prof(struct record *r, struct mempart *part);

#endif
