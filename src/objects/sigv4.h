/* SPDX-License-Identifier: Apache-2.0 */
/* AWS Signature Version 4: the authorization header of requests to S3 and compatible servers. */
#ifndef OBJECTS_SIGV4_H
#define OBJECTS_SIGV4_H

#include "base/buf.h"
#include "base/sha256.h"
#include "net/http.h"

enum { SIGV4_DATE_SIZE = 17 }; /* "20130524T000000Z" with a NUL */

struct sigv4_keys {
    const char *id, *secret;
};

struct sigv4_request {
    const char *method;
    struct str path, query;            /* percent-encoded; the parameters sorted by name, each with '=' */
    const struct http_header *headers; /* to be signed: lower case, sorted by name, values trimmed */
    size_t n_headers;
    const char *payload;          /* SHA-256 of the body, in hex */
    const char *region, *service; /* "us-east-1", "s3" */
    const char *date;             /* as in the header x-amz-date */
};

/* Formats a time as x-amz-date has it. */
void sigv4_date(int64_t wall_ns, char ret[SIGV4_DATE_SIZE]);
void sigv4_hex(const uint8_t hash[SHA256_SIZE], char ret[2 * SHA256_SIZE + 1]);
/* HMAC-SHA-256. */
void sigv4_hmac(struct str key, struct str text, uint8_t ret[SHA256_SIZE]);
/* Appends the value of the header authorization. */
void sigv4_sign(const struct sigv4_keys *keys, const struct sigv4_request *r, struct buf *ret);

#endif
