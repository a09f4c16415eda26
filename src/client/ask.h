/* SPDX-License-Identifier: Apache-2.0 */
/* Queries a server or a store's directory, depending on the options; shared by query, mcp and pgo. */
#ifndef CLIENT_ASK_H
#define CLIENT_ASK_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct question;

struct ask_target {
    const char *store;  /* directory; NULL: query a server */
    const char *server; /* NULL: $WICK_SERVER, then http://localhost:4040 */
    const char *token;  /* NULL: $WICK_TOKEN */
    const char *tenant; /* with store */
};

typedef struct str (*ask_param_fn)(void *ctx, const char *name);

/* Writes the JSON of the answer to out. */
int ask_question(const struct ask_target *t, const struct question *what, ask_param_fn param, void *ctx,
                 struct buf *out, struct err *e);
struct ask_request {
    const char *method;   /* NULL: GET */
    const char *path;     /* including its query string */
    const char *encoding; /* content-encoding of body, or NULL */
    struct str body;
    int expect; /* a status besides 200 that is not an error, such as 409; 0: none */
    int64_t timeout_ns; /* 0: a minute */
};
/* Sends any request to the server; the response body goes to out, its status to *ret_status (may be NULL). */
int ask_send(const struct ask_target *t, const struct ask_request *q, struct buf *out, int *ret_status, struct err *e);
/* GET of a path on the server ("/api/v1/profile?…"); the response body goes to out. */
int ask_server(const struct ask_target *t, const char *path, struct buf *out, struct err *e);

#endif
