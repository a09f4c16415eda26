/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of an object store with S3's protocol. Every call runs to its end on the caller's thread, from any thread; the
 * requests run on a thread of the client, which keeps connections open between them. Requests that the server did not
 * answer, or answered with 429 or 5xx, are repeated a few times. When the server refuses the credentials, they are read
 * again once.
 *
 * Errors: -ENOENT there is no such object; -EBADMSG the object is shorter than expected; -EACCES the credentials were
 * refused; -EREMOTEIO any other answer; otherwise the connection failed. Messages contain no credentials.
 */
#ifndef OBJECTS_OBJECTS_H
#define OBJECTS_OBJECTS_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct object_store;

/* A part of an object, and where it is to be put. */
struct object_part {
    uint64_t off;
    uint32_t len;
    char *into;
};

struct objects_stats {
    uint64_t rounds;   /* calls that waited for the server; requests of one call run in parallel */
    uint64_t requests; /* HTTP requests */
    uint64_t bytes_read, bytes_written;
};

/* place: see s3_place.h. Nothing is connected to yet, but the credentials must exist. */
int objects_open(const char *place, struct object_store **ret, struct err *e);
void objects_close(struct object_store *o); /* accepts NULL; no call may be running */
DEFINE_CLEANUP(struct object_store *, objects_close)
/* Running calls and all later ones fail with -ECANCELED. */
void objects_cancel(struct object_store *o);
/* Checks a location without opening it. */
int objects_check_place(const char *place, struct err *e);
/* Appends the path of an object, which is what the other functions take: "/BUCKET/PREFIX/NAME". Names consist of letters,
 * digits, '-', '_', '.' and '/'. */
void objects_path(const struct object_store *o, const char *name, struct buf *ret);

/* Reads parts of an object, in parallel. */
int objects_read(struct object_store *o, const char *path, const struct object_part *parts, uint32_t n, struct err *e);
/* Writes an object from the first `size` bytes of a file, replacing it if it exists. After a failure the object does not
 * exist or is the old one. */
int objects_write(struct object_store *o, const char *path, int fd, uint64_t size, struct err *e);
int objects_size(struct object_store *o, const char *path, uint64_t *ret, struct err *e);
/* Succeeds if there is no such object. */
int objects_remove(struct object_store *o, const char *path, struct err *e);
/* Calls fn with each object whose path begins with this one. */
int objects_list(struct object_store *o, const char *path, int (*fn)(void *ctx, const char *path, uint64_t size),
                 void *ctx, struct err *e);
void objects_stats(struct object_store *o, struct objects_stats *ret);

#endif
