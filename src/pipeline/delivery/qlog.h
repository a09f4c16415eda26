/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a persistent sending queue. One thread appends, one reads; both may run at once. What qlog_commit() returned
 * for survives the death of the process (and of the machine, with fsync). Reading is in order; what the reader released
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
 *    16  4  kind: 0 protobuf, 1 JSON
 *    20  4  CRC-32C of bytes 4..19 and the payload
 *    24  n  payload
 *   cursor
 *     0  8  seq below which all is released
 *     8  4  CRC-32C of bytes 0..7
 *
 * A torn tail of the last segment is cut off when opening. A damaged record elsewhere is skipped and counted.
 */
#ifndef PIPELINE_QLOG_H
#define PIPELINE_QLOG_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

enum { QLOG_RECORD_MAX = 128 << 20 };

struct qlog_options {
    bool fsync;
    uint64_t max_bytes;   /* of all segments; 0: no limit */
    size_t segment_bytes; /* 0: 16 MiB */
};

struct qlog;

/* Opens or makes the directory; refuses one that another process holds. */
int qlog_open(const char *dir, const struct qlog_options *o, struct qlog **ret, struct err *e);
void qlog_close(struct qlog *q);
DEFINE_CLEANUP(struct qlog *, qlog_close)

/* --- the writer's --- */
/* Collects a record in memory. -ENOSPC over max_bytes, -E2BIG for a monster. */
int qlog_put(struct qlog *q, uint32_t kind, const void *p, size_t n);
/* Writes (and syncs) what was put. On failure nothing of it counts and the log takes no more: a failed sync is final. */
int qlog_commit(struct qlog *q, struct err *e);
size_t qlog_uncommitted(const struct qlog *q);

/* --- the reader's --- */
/* The next record: 1 and its seq, kind and bytes (b is emptied first), 0 when there is none yet, or a negative errno. */
int qlog_read(struct qlog *q, uint64_t *ret_seq, uint32_t *ret_kind, struct buf *b, struct err *e);
/* All below seq is done. Removes segments that are. */
void qlog_release(struct qlog *q, uint64_t seq);
uint64_t qlog_read_seq(const struct qlog *q); /* seq that qlog_read() will give next */

/* --- any thread --- */
uint64_t qlog_waiting(struct qlog *q); /* records that are not released */
uint64_t qlog_bytes(struct qlog *q);
uint64_t qlog_damaged(struct qlog *q); /* records skipped */

#endif
