/* SPDX-License-Identifier: Apache-2.0 */
/* Finds whole records in a segment of the queue's log, also after damaged bytes. Part of qlog; the format is in
 * qlog.h. */
#ifndef BASE_QLOG_SCAN_H
#define BASE_QLOG_SCAN_H

#include <stdbool.h>

#include "base/buf.h"

enum { QLOG_HEADER = 16, QLOG_RECORD = 24 };

struct qlog_segment {
    uint64_t first; /* seq */
    int fd;
    uint64_t size; /* committed */
    bool damaged;  /* to be moved to lost/ instead of being removed */
};

/* Where the next record is expected. */
struct qlog_place {
    uint64_t off, seq;
};

struct qlog_found {
    uint64_t seq;
    uint32_t kind, n;
    uint64_t skipped; /* damaged bytes before it, or before the end */
    bool read_failed; /* some of these could not be read */
};

/*
 * Searches for the next record at or after *p whose seq is below end_seq, and moves *p past it. Within a segment seqs
 * count up by one; anything else is damage. Returns 1 with the payload in b, 0 at the end of the segment, or -ENOMEM or
 * a read error with *p unchanged. With `salvage`, a read error counts as damage, and the search continues after it.
 */
int qlog_scan(const struct qlog_segment *s, uint64_t end_seq, bool salvage, struct qlog_place *p, struct buf *b,
              struct qlog_found *ret);

/* Writes the head of a record into out. */
void qlog_record_head(char out[QLOG_RECORD], uint64_t seq, uint32_t kind, const void *p, size_t n);

#endif
