/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to the collector: TCP, or TLS with an OpenSSL that is loaded when the first https endpoint is used.
 * Calls block, with a deadline; while waiting they call pump(), so that the background thread keeps draining the rings.
 */
#ifndef SDK_TRANSPORT_H
#define SDK_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct tls_functions; /* tls_dl.h */

struct transport {
    int fd;
    void *ssl; /* NULL for TCP */
    const struct tls_functions *tls;
    int64_t deadline; /* CLOCK_MONOTONIC ns */
    void (*pump)(void);
};

struct transport_target {
    struct str host;
    uint16_t port;
    bool tls, h2; /* h2: offered by ALPN */
    const char *ca_file;
};

int transport_open(struct transport *t, const struct transport_target *to, struct err *e);
void transport_close(struct transport *t);
int transport_write(struct transport *t, const void *p, size_t n, struct err *e); /* writes all n bytes */
/* Returns at least one byte; 0 at the end; -ETIMEDOUT at the deadline. */
ptrdiff_t transport_read(struct transport *t, void *p, size_t n, struct err *e);
/* Waits for the socket; 0 or -ETIMEDOUT. For tls_dl.c. */
int transport_wait(struct transport *t, short events);

#endif
