/* SPDX-License-Identifier: Apache-2.0 */
/* content-encoding of requests and responses: gzip, zstd, deflate, with a limit on the decompressed size of a body. */
#ifndef NET_ENCODING_H
#define NET_ENCODING_H

#include "base/compress.h"
#include "base/err.h"
#include "net/http.h"

struct http_request;

/* The decoded body of a request: *ret points into q->body if it is not encoded, else into *inflated, owned by the
 * caller.
 * -EFBIG over max (answer 413), -EOPNOTSUPP for an unknown coding (400, like the Collector), -EINVAL for bad bytes. Any
 * thread that holds the request; decompressing large bodies takes time, so not on a loop's thread. */
int http_decode_body(const struct http_request *q, size_t max, struct buf *inflated, struct str *ret, struct err *e);
/* The best of our codings that the client accepts, COMPRESS_NONE if there is none. q-values of 0 are respected. */
enum compression http_accepted_coding(const struct http_headers *h);
/* True if the client accepts gzip (the only coding that assets are stored in). */
bool http_accepts_gzip(const struct http_headers *h);
/* Compresses a body in place if the client accepts it and it is large enough to gain; returns its coding. Then
 * http_add_coding() adds content-encoding and vary. */
enum compression http_encode_body(const struct http_request *q, struct buf *body);
int http_add_coding(struct http_request *q, enum compression c);
/* Does both for q->answer, unless that was done: compresses q->answer in place if the client accepts it and it is large enough to gain; sets content-encoding and
 * vary. Call it before http_finish(), on a thread that may spend the time. */
void http_encode_answer(struct http_request *q);

#endif
