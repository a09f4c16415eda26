/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP request, waited for: for commands, which have nothing else to do meanwhile. Makes a loop of its own; any thread
 * that is not a loop's. Redirects are reported, not followed.
 */
#ifndef NET_FETCH_H
#define NET_FETCH_H

#include <stdatomic.h>

#include "net/http.h"
#include "net/tls.h"

struct fetch_options {
    const char *url;                   /* http, https, unix:///path (then target is the path asked for) */
    const char *target;                /* NULL: what the URL says */
    const char *method;                /* NULL: GET, or POST with a body */
    const struct http_header *headers; /* names in lower case */
    size_t n_headers;
    struct str body;
    int64_t timeout_ns;                    /* of all; 0: none */
    size_t max_answer;                     /* 0: 64 MiB */
    const struct tls_ops *tls;             /* for https, &tls_openssl where it is linked */
    const struct tls_options *tls_options; /* NULL: the system's CAs */
    /* Called about ten times a second and for each piece: bytes so far, and in all (0: not known). False: give up. */
    bool (*progress)(void *arg, uint64_t done, uint64_t total);
    int (*on_data)(void *arg, struct str piece); /* instead of collecting; negative gives up with it */
    void *arg;
    const atomic_bool *cancel; /* looked at ten times a second; for signal handlers */
};

struct fetch_result {
    int status;
    struct http_headers headers;
    struct buf body;    /* as sent; see fetch_decode() */
    struct arena arena; /* of the headers */
};

/* 0 whatever the status is; negative when there is no answer: words in e. *ret is to be freed in either case. */
int fetch_url(const struct fetch_options *o, struct fetch_result *ret, struct err *e);
/* Inflates the body by its content-encoding, at most max bytes. */
int fetch_decode(struct fetch_result *r, size_t max, struct err *e);
void fetch_result_done(struct fetch_result *r);

#endif
