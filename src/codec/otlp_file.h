/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OTLP profiles in files: one request as it travels, or what the Collector's file exporter writes.
 *
 *   PROTOBUF  one ExportProfilesServiceRequest, nothing around it
 *   JSON      one or more requests as JSON behind one another; the file exporter writes one a line
 *   FRAMED    repeated: 4 bytes length, big-endian, then that many bytes: a request as protobuf, or either form
 *             compressed (the exporter's `format: proto` and `compression: zstd`)
 *
 * The file as a whole may be compressed too: inflate it first (base/compress.h).
 */
#ifndef CODEC_OTLP_FILE_H
#define CODEC_OTLP_FILE_H

#include "codec/otlp.h"

enum otlp_file_form { OTLP_FILE_NONE, OTLP_FILE_PROTOBUF, OTLP_FILE_JSON, OTLP_FILE_FRAMED };

/* By content. A pprof, which begins like a request, is told apart by its string table. */
enum otlp_file_form otlp_file_detect(const void *p, size_t n);

/* All requests of the file as one batch: equal resources are joined, profiles stay apart. On success in is empty.
 * -EINVAL also when the content is none of the forms. */
int otlp_file_decode(struct buf *in, const struct otlp_limits *limits, struct batch **ret, struct err *e);
/* Appends b as one more request of this form. */
int otlp_file_encode(enum otlp_file_form form, const struct batch *b, struct buf *out, struct err *e);

#endif
