/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gzip, zlib ("deflate" in HTTP), raw deflate and zstd, both ways, over whole buffers. Inflated size is always capped:
 * a decompression bomb costs at most `limit` bytes of memory and fails with -EFBIG.
 *
 * No state is kept between calls; the functions may be called from any thread.
 */
#ifndef BASE_COMPRESS_H
#define BASE_COMPRESS_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum compression { COMPRESS_NONE, COMPRESS_GZIP, COMPRESS_ZLIB, COMPRESS_DEFLATE, COMPRESS_ZSTD };

/* The names used in HTTP and gRPC: "" and "identity" (NONE), gzip, x-gzip, deflate and zlib (ZLIB), zstd. -EINVAL for
 * others. */
int compress_by_name(struct str name, enum compression *ret);
const char *compress_name(enum compression c);

/* Detects the compression by the first bytes: gzip and zstd have a magic number; zlib has a header with a checksum that
 * text and protobuf rarely match by chance, and is only accepted if the first block type is valid too. Raw deflate is
 * not recognised. */
enum compression compress_detect(const void *p, size_t n);

/* Appends the inflated bytes to out, at most limit of them (-EFBIG beyond). Several consecutive gzip members or zstd
 * frames are one stream; other bytes after the end are an error. COMPRESS_ZLIB also accepts raw deflate, which some
 * HTTP senders mean by "deflate". On failure out is unchanged. */
int compress_inflate(enum compression c, const void *p, size_t n, size_t limit, struct buf *out, struct err *e);

/* Appends the compressed bytes to out. level 0 = the default: 6 for gzip and zlib (libdeflate), 1 for zstd. */
int compress_deflate(enum compression c, int level, const void *p, size_t n, struct buf *out, struct err *e);

/* Inflates by detection, or leaves the bytes as they are: afterwards *in holds uncompressed bytes. */
int compress_inflate_detect(struct buf *in, size_t limit, struct err *e);

#endif
