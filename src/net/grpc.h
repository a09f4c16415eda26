/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unary gRPC over the HTTP of this folder.
 *
 * A message on the wire: 1 byte flag (1: compressed as grpc-encoding says), 4 bytes length big-endian, the bytes. A
 * status is sent in trailers: grpc-status, grpc-message (percent-encoded), grpc-status-details-bin (base64 of
 * google.rpc.Status, which holds RetryInfo).
 */
#ifndef NET_GRPC_H
#define NET_GRPC_H

#include "base/buf.h"
#include "base/compress.h"
#include "base/err.h"
#include "net/http.h"

struct http_request;

enum grpc_code {
    GRPC_OK = 0,
    GRPC_CANCELLED = 1,
    GRPC_UNKNOWN = 2,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_ALREADY_EXISTS = 6,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_FAILED_PRECONDITION = 9,
    GRPC_ABORTED = 10,
    GRPC_OUT_OF_RANGE = 11,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_DATA_LOSS = 15,
    GRPC_UNAUTHENTICATED = 16,
};

struct grpc_status {
    enum grpc_code code;
    int64_t retry_ns; /* > 0: RetryInfo.retry_delay; 0 with has_retry: at once */
    bool has_retry;   /* RetryInfo is present */
    char message[512];
};

void grpc_status_set(struct grpc_status *s, enum grpc_code code, const char *fmt, ...) _printf_(3, 4);
const char *grpc_code_name(enum grpc_code code); /* "InvalidArgument" */
/* The receiver's table: gRPC code to HTTP status, and back (for proxies that answer without gRPC). */
int grpc_code_to_http(enum grpc_code code);
enum grpc_code grpc_code_from_http(int status);

/* --- server --- */
bool grpc_is_request(const struct http_request *q); /* POST, content-type application/grpc or application/grpc+… */
/* The message of a unary request, decompressed: *ret points into the body or into *inflated, which the caller owns.
 * Negative: the status to answer with is in *ret_status. max limits the decompressed size. Any thread that holds the
 * request. */
int grpc_request_message(const struct http_request *q, size_t max, struct buf *inflated, struct str *ret,
                         struct grpc_status *ret_status);
/* Answers and finishes: the message (sent if the status is OK) and the status. Any thread. */
void grpc_reply(struct http_request *q, const struct grpc_status *s, struct str message);

/* --- client --- */
/* Appends a framed message, compressed with c (then the header grpc-encoding must name it). */
int grpc_frame(struct buf *b, struct str message, enum compression c, int level, struct err *e);
/* A response; a trailers-only response has everything in headers. */
struct grpc_response {
    int http_status; /* used if there is no gRPC status */
    const struct http_headers *headers, *trailers;
    struct str body;
};

/* Reads a response. *ret_message as above; empty unless OK. */
void grpc_answer(const struct grpc_response *p, size_t max, struct buf *inflated, struct str *ret_message,
                 struct grpc_status *ret_status);

/* --- parts, for tests and for HTTP bodies --- */
/* Takes one framed message off the front. 0; -ENODATA if it is truncated; -EMSGSIZE over max; -EBADMSG for flags other
 * than 0 and 1. */
int grpc_unframe(struct str *body, size_t max, struct str *ret, bool *ret_compressed);
/* google.rpc.Status {1 code, 2 message, 3 details[] Any{1 type_url, 2 value}} with RetryInfo {1 retry_delay{1 s, 2 ns}}
 * if has_retry. This is the body of OTLP/HTTP errors, and of grpc-status-details-bin. */
void grpc_status_encode(struct buf *b, const struct grpc_status *s);
int grpc_status_decode(struct str bytes, struct grpc_status *ret); /* -EBADMSG */
void grpc_percent_encode(struct buf *b, struct str s);             /* grpc-message: encodes all but %x20-%x7E without
                                                                    * % */
void grpc_base64_encode(struct buf *b, struct str s);              /* without padding, as gRPC recommends */
int grpc_base64_decode(struct buf *b, struct str s);               /* with or without padding */

#endif
