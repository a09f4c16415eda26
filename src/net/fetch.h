/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One blocking HTTP request, for commands that have nothing else to do. Creates a loop of its own; may be called on any
 * thread that does not run a loop. Redirects are reported, not followed.
 */
#ifndef NET_FETCH_H
#define NET_FETCH_H

#include <stdatomic.h>

#include "net/http.h"
#include "net/tls.h"

struct fetch_options {
    const char *url;                   /* http, https, unix:///path (then target is the requested path) */
    const char *target;                /* NULL: as in the URL */
    const char *method;                /* NULL: GET, or POST with a body */
    const struct http_header *headers; /* names in lower case */
    size_t n_headers;
    struct str body;
    int64_t timeout_ns;                    /* for the whole request; 0: none */
    size_t max_answer;                     /* 0: 64 MiB */
    const struct tls_ops *tls;             /* for https, &tls_openssl if it is linked */
    const struct tls_options *tls_options; /* NULL: the system's CAs */
    /* Called about ten times a second and for each piece: bytes so far, and in total (0: unknown). Returns false to
     * abort. */
    bool (*progress)(void *arg, uint64_t done, uint64_t total);
    int (*on_data)(void *arg, struct str piece); /* called instead of collecting the body; a negative result aborts with
                                                  * it */
    void *arg;
    bool (*allow)(const char *address); /* called for each address before connecting to it; NULL: all are allowed */
    const atomic_bool *cancel;          /* checked ten times a second; for signal handlers */
};

struct fetch_result {
    int status;
    struct http_headers headers;
    struct buf body;    /* as received; see fetch_decode() */
    struct arena arena; /* owns the headers */
};

/* Returns 0 whatever the status is; negative if there is no response, with an error message in e. *ret must be freed in
 * either case. */
int fetch_url(const struct fetch_options *o, struct fetch_result *ret, struct err *e);
/* Decodes the body by its content-encoding, to at most max bytes. */
int fetch_decode(struct fetch_result *r, size_t max, struct err *e);
void fetch_result_done(struct fetch_result *r);

#endif
