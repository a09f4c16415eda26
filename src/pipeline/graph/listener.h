/* SPDX-License-Identifier: Apache-2.0 */
/* An HTTP server on the host's loops, for receivers and extensions. */
#ifndef PIPELINE_LISTENER_H
#define PIPELINE_LISTENER_H

#include "base/err.h"
#include "net/server.h"

struct host;

struct listener_options {
    const char *id, *address;
    struct tls_context *tls; /* NULL: plain; must outlive the server */
    void (*handle)(void *arg, struct http_request *q);
    void *arg;
    size_t max_body;      /* 0: the server's default */
    unsigned max_streams; /* the same */
};

int listener_start(struct host *h, const struct listener_options *o, struct http_server **ret, struct err *e);
/* Lets requests in progress finish, then frees; accepts NULL. */
void listener_stop(struct http_server *s);

#endif
