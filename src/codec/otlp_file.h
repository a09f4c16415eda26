/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OTLP profiles in files: one request as sent on the wire, or the output of the Collector's file exporter.
 *
 *   PROTOBUF  one ExportProfilesServiceRequest, nothing around it
 *   JSON      one or more consecutive requests as JSON; the file exporter writes one per line
 *   FRAMED    repeated: 4 bytes length, big-endian, then that many bytes: a request as protobuf, or either form
 *             compressed (the exporter's `format: proto` and `compression: zstd`)
 *
 * The file as a whole may be compressed too: inflate it first (base/compress.h).
 */
#ifndef CODEC_OTLP_FILE_H
#define CODEC_OTLP_FILE_H

#include "codec/otlp.h"

enum otlp_file_form { OTLP_FILE_NONE, OTLP_FILE_PROTOBUF, OTLP_FILE_JSON, OTLP_FILE_FRAMED };

/* Detects the form by content. A pprof, which begins like a request, is recognised by its string table. */
enum otlp_file_form otlp_file_detect(const void *p, size_t n);

/* Decodes all requests of the file into one batch: equal resources are joined, profiles stay separate. On success in is
 * empty. -EINVAL also if the content has none of the forms. */
int otlp_file_decode(struct buf *in, const struct otlp_limits *limits, struct batch **ret, struct err *e);
/* Appends b as one more request of this form. */
int otlp_file_encode(enum otlp_file_form form, const struct batch *b, struct buf *out, struct err *e);

#endif
