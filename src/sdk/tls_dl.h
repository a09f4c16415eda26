/* SPDX-License-Identifier: Apache-2.0 */
/* TLS with the system's OpenSSL 3 (or 1.1), loaded with dlopen() when first needed: libwick itself does not depend on
 * it. */
#ifndef SDK_TLS_DL_H
#define SDK_TLS_DL_H

#include <sys/types.h>

#include "sdk/transport.h"

/* Performs the handshake on t->fd; the certificate must be valid for host. -ENOTSUP if OpenSSL is not installed. */
int tls_open(struct transport *t, const char *host, bool h2, const char *ca_file, struct err *e);
void tls_close(struct transport *t);
ssize_t tls_write(struct transport *t, const void *p, size_t n);
ssize_t tls_read(struct transport *t, void *p, size_t n);

#endif
