/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The location of an object store, and the credentials for it:
 *
 *     s3://BUCKET[/PREFIX][?OPTION=VALUE[&...]]
 *
 *   endpoint=URL        the server, http:// or https:// (default: https://s3.REGION.amazonaws.com)
 *   region=NAME         (default us-east-1)
 *   credentials=FILE    lines "aws_access_key_id = ..." and "aws_secret_access_key = ...", as in ~/.aws/credentials (the
 *                       section [default], or the first one); otherwise the environment variables AWS_ACCESS_KEY_ID,
 *                       AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN
 *   ca=FILE             trusted CAs; insecure=true: the certificate is not verified
 *   timeout=SECONDS     for one request (default 60)
 *
 * Keys in the location itself are refused: locations appear in logs and process lists. Buckets are addressed by path.
 */
#ifndef OBJECTS_S3_PLACE_H
#define OBJECTS_S3_PLACE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct s3_place {
    const char *bucket, *prefix; /* prefix: without '/' at its ends, may be "" */
    const char *endpoint, *region, *credentials, *ca;
    bool insecure;
    int64_t timeout_ns;
    struct arena arena; /* all strings */
};

struct s3_credentials {
    const char *id, *secret, *token; /* token: NULL = none */
    struct arena arena;
};

bool s3_is_place(struct str place);
/* *ret must be freed in either case. */
int s3_place_parse(const char *place, struct s3_place *ret, struct err *e);
void s3_place_done(struct s3_place *p);
/* Reads the file or the environment. *ret must be freed in either case. */
int s3_credentials_read(const struct s3_place *p, struct s3_credentials *ret, struct err *e);
/* Reads the text of a file of credentials. */
int s3_credentials_parse(struct str text, struct s3_credentials *ret, struct err *e);
void s3_credentials_done(struct s3_credentials *c);

#endif
