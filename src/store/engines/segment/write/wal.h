/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The write-ahead log, which makes acknowledged data durable. One file at a time receives the records of all tenants
 * and services; when its memtable is sealed, the next file begins, and when its memtable is in segments, the file is
 * removed.
 *
 *   offset  size  what
 *   0       8     magic "WICKLOG1"
 *   8       4     version (1)
 *   12      8     number of the file
 *   20      4     CRC-32C of the preceding bytes
 *   24            records
 *
 *   record  4     magic 0x52474c57 ("WLGR")
 *           4     size of the payload
 *           8     LSN: increases by one per record, across files
 *           4     CRC-32C of the payload
 *           4     CRC-32C of the preceding 20 bytes
 *           n     payload: one request (see wal_record.h)
 *
 * An incomplete or wrong record at the end of the last file is a torn tail: it was never acknowledged, and is cut off.
 * A wrong record with valid ones after it is damage: it is reported and skipped, and the rest is read.
 */
#ifndef SEGMENT_WAL_H
#define SEGMENT_WAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

enum { LOG_HEADER = 24, LOG_RECORD = 24, LOG_VERSION = 1 };

struct log {
    int fd;
    uint64_t number;
    off_t end; /* offset of the next record */
};

void log_name(char *out, size_t size, uint64_t number);
/* Creates a new file with its header, synced with its directory. */
int log_create(int dir, uint64_t number, struct log *ret, struct err *e);
void log_close(struct log *l);
/* Fills in the header of the record whose payload starts at `at` in b, before which LOG_RECORD bytes were reserved. */
void log_frame(struct buf *b, size_t at, uint64_t lsn);
/* Writes records; on failure the file is restored as far as possible. */
int log_write(struct log *l, const void *p, size_t n);
int log_sync(struct log *l);

/* Reads all records of a file. damage is called for each wrong position, and whether it is the torn tail; *ret_end is
 * the end of the last good record. */
struct log_reader {
    int (*record)(void *ctx, uint64_t lsn, const void *payload, size_t n);
    void (*damage)(void *ctx, bool tail, const char *what);
    void *ctx;
};
int log_read(int dir, uint64_t number, const struct log_reader *r, off_t *ret_end, struct err *e);

#endif
