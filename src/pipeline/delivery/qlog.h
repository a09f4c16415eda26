/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a persistent sending queue. One thread appends, one reads; both may run at once. What qlog_commit() returned
 * 0 for survives the death of the process (and of the machine, with fsync). Reading is in order; what the reader released
 * is never read again after a restart, all else is (at least once).
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
 *   lost/                              segments with damage, once all that was readable of them is released
 *
 * Nothing is ever cut off or removed because it looks wrong. Reading goes on at the next whole record after damaged bytes;
 * seqs have no gaps, so the number of lost records is known. Every damaged place is reported through on_damage, and its
 * segment is moved to lost/ (which keeps the newest 16) when it would have been removed.
 */
#ifndef PIPELINE_QLOG_H
#define PIPELINE_QLOG_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

enum { QLOG_RECORD_MAX = 128 << 20, QLOG_ITEMS_MAX = (1 << 24) - 1, QLOG_LOST_FILES = 16 };

struct qlog_options {
    bool fsync;
    uint64_t max_bytes;   /* of all segments; 0: no limit */
    size_t segment_bytes; /* 0: 16 MiB */
    /* Called for each damaged place, from qlog_open() and qlog_read(); may be NULL. records: how many were lost there. */
    void (*on_damage)(void *arg, uint64_t records, const char *message);
    void *arg;
};

struct qlog;

/* Opens or makes the directory; refuses one that another process holds. */
int qlog_open(const char *dir, const struct qlog_options *o, struct qlog **ret, struct err *e);
void qlog_close(struct qlog *q);
DEFINE_CLEANUP(struct qlog *, qlog_close)

/* --- the writer's --- */
/* Collects a record in memory. -ENOSPC over max_bytes, -E2BIG over QLOG_RECORD_MAX, -ENOMEM; on failure what was put before
 * is unchanged. kind: see above; items are clamped to QLOG_ITEMS_MAX. */
int qlog_put(struct qlog *q, bool json, uint32_t items, const void *p, size_t n);
/* Writes (and syncs) what was put. On failure none of it counts, and a later commit starts anew: behind what was
 * committed, or in a new segment when the state of this one on disk is not known. */
int qlog_commit(struct qlog *q, struct err *e);
size_t qlog_uncommitted(const struct qlog *q);

/* --- the reader's --- */
struct qlog_entry {
    uint64_t seq;
    uint32_t items; /* 0: not known */
    bool json;
};

/* The next record: 1 and its bytes (b is emptied first), 0 when there is none yet, or a negative errno: nothing is
 * skipped then, so call again later. A place that cannot be read three times in a row counts as damaged. */
int qlog_read(struct qlog *q, struct qlog_entry *ret, struct buf *b, struct err *e);
/* All below seq is done. Removes segments that are. */
void qlog_release(struct qlog *q, uint64_t seq);
uint64_t qlog_read_seq(const struct qlog *q); /* seq that qlog_read() will give next */

/* --- any thread --- */
uint64_t qlog_waiting(struct qlog *q);   /* records that are not released */
uint64_t qlog_committed(struct qlog *q); /* seq of the next record that is committed */
uint64_t qlog_bytes(struct qlog *q);
uint64_t qlog_lost(struct qlog *q); /* records that damage has cost since the log was opened */

#endif
