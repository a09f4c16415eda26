/* SPDX-License-Identifier: Apache-2.0 */
/* What receivers and exporters ask of an authenticator extension (bearertokenauth, basicauth). */
#ifndef PIPELINE_AUTH_H
#define PIPELINE_AUTH_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct instance;

struct auth_api {
    /* Server: the value of the header that name() gives; false: not let in. Any thread. */
    bool (*check)(struct instance *x, struct str value);
    /* Client: appends the value of the header. */
    int (*value)(struct instance *x, struct buf *out, struct err *e);
    const char *(*name)(struct instance *x); /* of the header, lower case: "authorization" */
    /* Server: who sent a value that was let in, in the arena; empty when it does not say. NULL: it never does. */
    struct str (*user)(struct str value, struct arena *a);
};

/* x as an authenticator, or words that it is none. */
int auth_of(struct instance *x, const struct auth_api **ret, struct err *e);

#endif
