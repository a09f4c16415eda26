/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: what an acknowledgement depends on. One file at a time takes the records of all tenants and services; when
 * its memtable is sealed the next file begins, and when that memtable is in segments the file goes.
 *
 *   offset  size  what
 *   0       8     magic "WICKLOG1"
 *   8       4     version (1)
 *   12      8     number of the file
 *   20      4     CRC-32C of the bytes before
 *   24            records
 *
 *   record  4     magic 0x52474c57 ("WLGR")
 *           4     size of the payload
 *           8     LSN: one more with every record, over all files
 *           4     CRC-32C of the payload
 *           4     CRC-32C of the 20 bytes before
 *           n     payload: one request (see wal_record.h)
 *
 * A record that is cut short or wrong at the end of the last file is a torn tail: never acknowledged, cut off. One that
 * is wrong with valid ones behind it is damage: reported, skipped, the rest is read.
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
    off_t end; /* where the next record goes */
};

void log_name(char *out, size_t size, uint64_t number);
/* A new file with its header, synced with its directory. */
int log_create(int dir, uint64_t number, struct log *ret, struct err *e);
void log_close(struct log *l);
/* Puts a record's frame in front of the payload that starts at `at` in b, where LOG_RECORD bytes were left. */
void log_frame(struct buf *b, size_t at, uint64_t lsn);
/* Writes records; on failure the file is as before, as far as can be. */
int log_write(struct log *l, const void *p, size_t n);
int log_sync(struct log *l);

/* Reads all records of a file. damage is told of each wrong place, with whether it is the torn tail; *ret_end is where
 * the last good record ends. */
struct log_reader {
    int (*record)(void *ctx, uint64_t lsn, const void *payload, size_t n);
    void (*damage)(void *ctx, bool tail, const char *what);
    void *ctx;
};
int log_read(int dir, uint64_t number, const struct log_reader *r, off_t *ret_end, struct err *e);

#endif
