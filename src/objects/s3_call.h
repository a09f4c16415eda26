/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to S3: signing, sending in parallel, and repeating. Shared by s3_call.c and objects.c. */
#ifndef OBJECTS_S3_CALL_H
#define OBJECTS_S3_CALL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/sha256.h"
#include "net/client.h"
#include "objects/objects.h"
#include "objects/s3_place.h"

struct object_store {
    struct s3_place place;
    char name[640];      /* of the place, for messages */
    char authority[272]; /* the header host */
    struct tls_context *tls;
    struct loop_group *loops; /* one loop */
    struct client *client;    /* of the loop's thread; NULL: cancelled */
    atomic_bool cancelled;
    pthread_mutex_t lock; /* of what follows */
    struct s3_credentials credentials;
    uint64_t generation; /* of the credentials */
    struct objects_stats stats;
};

struct s3_call {
    /* the request */
    const char *method;
    const char *path; /* "/BUCKET/KEY" */
    struct str query; /* sorted, percent-encoded; empty: none */
    struct str body;
    const struct object_part *part; /* with GET: the range, which is written there; NULL: the whole object as text */
    /* the answer */
    int error; /* 0: status is set */
    int status;
    struct err err;
    struct buf text; /* the body of any answer that is not a part */
    uint64_t size;   /* content-length */
    char etag[128];
    /* private */
    struct client_request request;
    struct http_header headers[8];
    struct arena arena; /* what the headers and the target point to */
    uint32_t got;
    bool done;
    struct s3_batch *batch;
};

/* Runs all calls, repeating those that fail temporarily. The error is that of the first call that failed. */
int s3_run(struct object_store *o, struct s3_call *calls, uint32_t n, struct err *e);
void s3_call_done(struct s3_call *c);

#endif
