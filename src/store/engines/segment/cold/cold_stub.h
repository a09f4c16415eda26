/* SPDX-License-Identifier: Apache-2.0 */
/*
 * N.cold: what remains on disk of a segment whose file is an object in an object store. It has the parts that planning a
 * query needs (directories, dictionary, footer), so that a query fetches chunks only.
 *
 *   offset  size    what
 *   0       8       magic "WICKCLD1"
 *   8       4       size of this header, with its checksum
 *   12      4       CRC-32C of the whole object
 *   16      8       size of the object
 *   24      4       n extents
 *   28      4       length of the path
 *   32      16 * n  extents of the object that follow: u64 offset, u64 length; ascending, not overlapping
 *                   path of the object: "/BUCKET/KEY"
 *           4       CRC-32C of the header up to here
 *                   the bytes of the extents
 */
#ifndef SEGMENT_COLD_STUB_H
#define SEGMENT_COLD_STUB_H

#include "base/buf.h"
#include "base/err.h"

enum { STUB_EXTENTS_MAX = 4, STUB_PATH_MAX = 1200, STUB_HEADER_MAX = 32 + 16 * STUB_EXTENTS_MAX + STUB_PATH_MAX + 4 };

struct cold_stub {
    uint32_t header, crc;
    uint64_t size;
    struct cold_extent {
        uint64_t off, len;
    } v[STUB_EXTENTS_MAX];
    uint32_t n;
    char path[STUB_PATH_MAX + 1];
};

/* Parses a header. file_size: of N.cold. Returns -EBADMSG when it is invalid. */
int cold_stub_parse(const void *p, size_t n, uint64_t file_size, struct cold_stub *ret);
/* Reads the header of an open file. */
int cold_stub_read(int fd, struct cold_stub *ret);
/* Where the bytes [off, off + n) of the object are in N.cold; negative: not in one of its extents. */
int64_t cold_stub_find(const struct cold_stub *s, uint64_t off, uint64_t n);
/* Writes N.cold from the complete file, synced, and syncs the directory. */
struct cold_stub_place {
    int dir;
    const char *name;
};
int cold_stub_write(struct cold_stub_place to, int full, struct cold_stub *s, struct err *e);

#endif
