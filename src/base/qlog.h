/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a persistent sending queue. One thread appends, one reads; both may run at the same time. Records for
 * which qlog_commit() returned 0 survive a crash of the process (and of the machine, with fsync). Reading is in order;
 * records that the reader released are never read again after a restart, all others are (at least once).
 *
 * Format, a directory of segments and a cursor, all numbers little-endian:
 *
 *   <first seq, 16 hex digits>.log     header, then records
 *     0  8  "WICKQLG1"
 *     8  8  first seq
 *   record
 *     0  4  0x31525157 "WQR1"
 *     4  4  n, bytes of the payload
 *     8  8  seq, counting up by one
 *    16  4  kind in the low byte: 0 protobuf, 1 JSON; above it the number of items, 0: not known
 *    20  4  CRC-32C of bytes 4..19 and the payload
 *    24  n  payload
 *   cursor
 *     0  8  seq below which all is released
 *     8  4  CRC-32C of bytes 0..7
 *    12  8  seq below which all was committed when the cursor was written
 *    20  4  CRC-32C of bytes 12..19
 *   lost/                              damaged segments, after everything readable in them was released
 *
 * Nothing is ever truncated or removed because it looks wrong. After damaged bytes, reading continues at the next whole
 * record; seqs have no gaps, so the number of lost records is known. All damage is reported through on_damage, and the
 * damaged segment is moved to lost/ (which keeps the newest 16) instead of being removed.
 */
#ifndef BASE_QLOG_H
#define BASE_QLOG_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

enum { QLOG_RECORD_MAX = 128 << 20, QLOG_ITEMS_MAX = (1 << 24) - 1, QLOG_LOST_FILES = 16 };

struct qlog_options {
    bool fsync;
    uint64_t max_bytes;   /* of all segments; 0: no limit */
    size_t segment_bytes; /* 0: 16 MiB */
    /* Called for each damaged range, from qlog_open() and qlog_read(); may be NULL. records: how many were lost
     * there. */
    void (*on_damage)(void *arg, uint64_t records, const char *message);
    void *arg;
};

struct qlog;

/* Opens or creates the directory; fails if another process has it open. */
int qlog_open(const char *dir, const struct qlog_options *o, struct qlog **ret, struct err *e);
void qlog_close(struct qlog *q);
DEFINE_CLEANUP(struct qlog *, qlog_close)

/* --- for the writer --- */
/* Collects a record in memory. -ENOSPC over max_bytes, -E2BIG over QLOG_RECORD_MAX, -ENOMEM; on failure what was put
 * before is unchanged. kind: see above; items are limited to QLOG_ITEMS_MAX. */
int qlog_put(struct qlog *q, bool json, uint32_t items, const void *p, size_t n);
/* Writes (and syncs) what was put. On failure none of it counts, and a later commit starts again: after what was
 * committed, or in a new segment if the state of this one on disk is unknown. */
int qlog_commit(struct qlog *q, struct err *e);
size_t qlog_uncommitted(const struct qlog *q);

/* --- for the reader --- */
struct qlog_entry {
    uint64_t seq;
    uint32_t items; /* 0: not known */
    bool json;
};

/* Reads the next record: returns 1 and its bytes (b is emptied first), 0 if there is none yet, or a negative errno:
 * then nothing is skipped, and the call can be repeated later. A position that cannot be read three times in a row
 * counts as damaged. */
int qlog_read(struct qlog *q, struct qlog_entry *ret, struct buf *b, struct err *e);
/* Marks everything below seq as done. Removes segments that are completely done. */
void qlog_release(struct qlog *q, uint64_t seq);
uint64_t qlog_read_seq(const struct qlog *q); /* the seq that qlog_read() returns next */

/* --- any thread --- */
uint64_t qlog_waiting(struct qlog *q);   /* records that are not released */
uint64_t qlog_committed(struct qlog *q); /* seq of the next record to be committed */
uint64_t qlog_bytes(struct qlog *q);
uint64_t qlog_lost(struct qlog *q); /* records lost to damage since the log was opened; for tests */

#endif
