/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks: what files of the span index consist of. A block holds the spans of one request and everything that is needed
 * to read them, so that a file can be cut off after any block, and a reader keeps nothing between blocks. Numbers are
 * little-endian.
 *
 *     header    0 magic "WSB1"          4 CRC-32C of all that follows     8 bytes after the header
 *              12 number of rows       16 number of strings              20 number of senders
 *              24 first start          32 last start                     40 time of receipt (all Unix ns)
 *              48 reserved, 16 bytes
 *     strings   u32 length, bytes; each
 *     senders   u32 service, u32 version, u32 instance: numbers of strings; each
 *     rows      0 trace ID   16 span ID   24 parent's span ID   32 start   40 duration (ns)
 *              48 u32 name   52 u32 sender   56 u8 kind   57 u8 status   58 reserved, 6 bytes; each
 */
#ifndef SPAN_SPAN_BLOCK_H
#define SPAN_SPAN_BLOCK_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/map.h"
#include "model/batch.h"

#define SPAN_BLOCK_MAGIC "WSB1"

enum {
    SPAN_BLOCK_HEADER = 64,
    SPAN_BLOCK_ROW = 64,
    SPAN_BLOCK_FULL = 256 << 10, /* a block is ended when it has this many bytes */
    SPAN_BLOCK_MAX = 1 << 20,    /* no block is longer */
    SPAN_STRING_MAX = 1024,      /* longer names are cut off */
};

enum span_kind { SPAN_UNSPECIFIED, SPAN_INTERNAL, SPAN_SERVER, SPAN_CLIENT, SPAN_PRODUCER, SPAN_CONSUMER, SPAN_KINDS };
enum span_status { SPAN_UNSET, SPAN_OK, SPAN_ERROR, SPAN_STATUSES };

/* One span. Strings belong to the block that is read, or to the request that is decoded. */
struct span_row {
    struct link link;
    uint8_t parent[8]; /* zero: none */
    int64_t start, duration;
    struct str name, service, version, instance;
    uint8_t kind, status;
};

extern const char *const span_kind_names[SPAN_KINDS + 1];      /* "unspecified", "internal", "server" …; NULL at the end */
extern const char *const span_status_names[SPAN_STATUSES + 1]; /* "unset", "ok", "error"; NULL at the end */

/* A request: a server or consumer span, or one without a parent. */
bool span_is_request(const struct span_row *s);

/* --- writing --- */

struct span_sender {
    uint32_t string[3];
};

struct span_string {
    size_t at; /* in the strings of the block */
    uint32_t n;
};

struct span_writer {
    struct buf out; /* complete blocks */
    int64_t received;
    uint32_t n; /* rows of all blocks */
    /* the block being written */
    struct buf strings, rows;
    struct span_string *names;
    struct span_sender *senders;
    uint32_t n_names, n_senders, n_rows;
    size_t cap_names, cap_senders;
    struct map name_map;
    int64_t first, last;
    int err;
};

void span_writer_init(struct span_writer *w, int64_t received, size_t limit);
void span_writer_done(struct span_writer *w);
/* Errors are kept until span_writer_end(). */
void span_writer_add(struct span_writer *w, const struct span_row *s);
/* Ends the last block. Returns 0, -ENOMEM, or -E2BIG over the limit. */
int span_writer_end(struct span_writer *w);

/* --- reading --- */

struct span_head {
    uint32_t crc, payload, n_rows, n_strings, n_senders;
    int64_t first, last, received;
};

/* Reads the 64 bytes of a header; -EBADMSG if they are not one. */
int span_head_read(const void *p, struct span_head *ret);

struct span_block {
    struct span_head head;
    struct str *strings; /* point into the block */
    const uint8_t *senders, *rows;
    /* private */
    size_t cap;
};

/* Reads header and payload, p and what follows it, n bytes in total. Call it again for the next block: memory is used
 * again. -EBADMSG for a wrong checksum or wrong numbers, -ENOMEM. The block points into p. */
int span_block_read(struct span_block *b, const void *p, size_t n);
void span_block_done(struct span_block *b);
/* Row i < head.n_rows. */
void span_block_row(const struct span_block *b, uint32_t i, struct span_row *ret);

/* What a row needs not be unpacked for. */
static inline const uint8_t *span_block_raw(const struct span_block *b, uint32_t i)
{
    return b->rows + (size_t) i * SPAN_BLOCK_ROW;
}

#endif
