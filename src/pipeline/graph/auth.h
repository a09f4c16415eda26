/* SPDX-License-Identifier: Apache-2.0 */
/* The interface of an authenticator extension (bearertokenauth, basicauth) for receivers and exporters. */
#ifndef PIPELINE_AUTH_H
#define PIPELINE_AUTH_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct instance;

struct auth_api {
    /* Server: checks the value of the header that name() returns; false: access denied. Any thread. */
    bool (*check)(struct instance *x, struct str value);
    /* Client: appends the value of the header. */
    int (*value)(struct instance *x, struct buf *out, struct err *e);
    const char *(*name)(struct instance *x); /* name of the header, lower case: "authorization" */
    /* Server: the user of a value that was accepted, in the arena; empty if it names none. NULL: never known. */
    struct str (*user)(struct str value, struct arena *a);
};

/* Returns x as an authenticator, or an error message if it is not one. */
int auth_of(struct instance *x, const struct auth_api **ret, struct err *e);

#endif
