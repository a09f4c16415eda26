/* SPDX-License-Identifier: Apache-2.0 */
/* content-encoding of requests and answers: gzip, zstd, deflate, with a cap on what a body may inflate to. */
#ifndef NET_ENCODING_H
#define NET_ENCODING_H

#include "base/compress.h"
#include "base/err.h"
#include "net/http.h"

struct http_request;

/* The plain body of a request: *ret points into q->body when nothing is coded, else into *inflated, the caller's.
 * -EFBIG over max (answer 413), -EOPNOTSUPP for an unknown coding (400, as the Collector does), -EINVAL for bad bytes.
 * Any thread that holds the request; inflating is work, so not the loop's for large ones. */
int http_decode_body(const struct http_request *q, size_t max, struct buf *inflated, struct str *ret, struct err *e);
/* The best coding that the client takes of those we have, COMPRESS_NONE if none. q-values of 0 are respected. */
enum compression http_accepted_coding(const struct http_headers *h);
/* True when the client takes gzip (the one coding that assets are stored in). */
bool http_accepts_gzip(const struct http_headers *h);
/* Compresses q->answer in place when the client takes it and it is large enough to gain; sets content-encoding and
 * vary. Call before http_finish(), where the work may be done. */
void http_encode_answer(struct http_request *q);

#endif
