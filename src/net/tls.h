/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS as a table of functions, so that only programs that link tls_openssl.c depend on OpenSSL: `wick` does, libwick
 * loads it if needed. A context holds certificates and rules and is shared by many connections and threads; a session
 * belongs to one connection.
 */
#ifndef NET_TLS_H
#define NET_TLS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

enum tls_version { TLS_VERSION_DEFAULT, TLS_VERSION_1_2, TLS_VERSION_1_3 };

/* Every string may be NULL. The *_pem forms hold the text itself and take precedence over the files. */
struct tls_options {
    const char *ca_file, *ca_pem;     /* trusted CAs; a client with neither trusts the system's list */
    bool system_ca;                   /* the system's list as well as ca_* */
    const char *cert_file, *cert_pem; /* own certificate chain: required on a server */
    const char *key_file, *key_pem;   /* its private key */
    bool require_client_cert;         /* server: mutual TLS, against ca_* */
    bool insecure_skip_verify;        /* client: encrypt without verifying the peer */
    const char *server_name;          /* client: the name to request and to verify instead of the host connected to */
    enum tls_version min_version;     /* default 1.2 */
    enum tls_version max_version;     /* default: the newest */
    bool http2, http1;                /* ALPN protocols to offer or accept, h2 before http/1.1; neither: no ALPN */
};

struct tls_ops;

/* The first member of an implementation's context: gives access to its functions. */
struct tls_context {
    const struct tls_ops *ops;
};

struct tls_session;

struct tls_ops {
    /* Reads the certificates now; the error message names the file that is wrong. */
    int (*context_new)(const struct tls_options *o, bool server, struct tls_context **ret, struct err *e);
    void (*context_free)(struct tls_context *c);
    /* Reads the files again; connections made from then on use them. On failure nothing changes. Any thread. */
    int (*context_reload)(struct tls_context *c, struct err *e);
    /* host is what a client connects to; NULL on a server. The caller keeps ownership of fd. */
    int (*session_new)(struct tls_context *c, int fd, const char *host, struct tls_session **ret, struct err *e);
    void (*session_free)(struct tls_session *s);
    /* These return -EAGAIN if the socket must become readable or writable first: see wants_write. */
    int (*handshake)(struct tls_session *s, struct err *e);
    ssize_t (*read)(struct tls_session *s, void *p, size_t n); /* 0 at the end of the stream */
    ssize_t (*write)(struct tls_session *s, const void *p, size_t n);
    void (*shutdown)(struct tls_session *s);    /* sends close_notify, without waiting */
    bool (*wants_write)(struct tls_session *s); /* what the last -EAGAIN waits for */
    bool (*has_pending)(struct tls_session *s); /* bytes are decrypted already, so the socket may not become readable */
    struct str (*alpn)(struct tls_session *s);  /* the protocol agreed on, empty if there is none */
    /* Subject of the peer's verified certificate, empty without one. */
    void (*peer_subject)(struct tls_session *s, char *out, size_t n);
};

extern const struct tls_ops tls_openssl; /* tls_openssl.c */

static inline void tls_context_free(struct tls_context *c)
{
    if (c)
        c->ops->context_free(c);
}

#endif
