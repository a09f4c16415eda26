/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS by OpenSSL, see tls.h. The SSL_CTX is replaced as a whole on reload, under a lock that is held only to copy the
 * pointer; SSL objects keep a reference to theirs. Partial writes are enabled and the write buffer may move, because
 * the stream's output grows while a write waits.
 */
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>

#include "base/macros.h"
#include "base/mem.h"
#include "net/tls.h"

struct context {
    struct tls_context head;
    pthread_mutex_t lock; /* protects ctx, held only to copy it */
    SSL_CTX *ctx;
    bool server;
    struct tls_options o; /* owns its strings */
    unsigned char alpn[16];
    unsigned alpn_n;
};

struct tls_session {
    SSL *ssl;
    bool wants_write;
    bool failed;
};

static int fail(struct err *e, int code, const char *what, const char *name)
{
    char why[160] = "unknown reason";
    unsigned long n = ERR_peek_error();
    const char *reason = n ? ERR_reason_error_string(n) : NULL;

    if (reason)
        snprintf(why, sizeof why, "%s", reason);
    else if (n && ERR_SYSTEM_ERROR(n))
        snprintf(why, sizeof why, "%s", strerror(ERR_GET_REASON(n)));
    ERR_clear_error();
    return err_set(e, code, "%s%s%s%s: %s", what, name ? " '" : "", name ? name : "", name ? "'" : "", why);
}

/* --- the context --- */
static int add_ca_pem(SSL_CTX *ctx, const char *pem, struct err *e)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    int n = 0;

    for (X509 *x; bio && (x = PEM_read_bio_X509(bio, NULL, NULL, NULL)); X509_free(x), n++)
        X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), x);
    BIO_free(bio);
    if (!n)
        return fail(e, -EINVAL, "no CA certificate in ca_pem", NULL);
    ERR_clear_error(); /* OpenSSL reports the end of the text as an error */
    return 0;
}

/* The system's list of CAs: where OpenSSL was built to look for it, or, on a system that keeps it elsewhere, the first of these. */
static void trust_system(SSL_CTX *ctx)
{
    static const char *const bundles[] = {
        "/etc/ssl/certs/ca-certificates.crt", /* Debian, Ubuntu, Alpine, Arch */
        "/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora, RHEL, Amazon Linux */
        "/etc/ssl/ca-bundle.pem",             /* SUSE */
        "/etc/ssl/cert.pem",
    };

    SSL_CTX_set_default_verify_paths(ctx);
    if (getenv(X509_get_default_cert_file_env()) || getenv(X509_get_default_cert_dir_env()) ||
        access(X509_get_default_cert_file(), R_OK) == 0 || access(X509_get_default_cert_dir(), X_OK) == 0)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(bundles); i++)
        if (access(bundles[i], R_OK) == 0 && SSL_CTX_load_verify_locations(ctx, bundles[i], NULL) == 1)
            return;
    ERR_clear_error();
}

static int load_trust(struct context *c, SSL_CTX *ctx, struct err *e)
{
    const struct tls_options *o = &c->o;

    if (o->ca_pem) {
        if (add_ca_pem(ctx, o->ca_pem, e) < 0)
            return -EINVAL;
    } else if (o->ca_file && SSL_CTX_load_verify_locations(ctx, o->ca_file, NULL) != 1) {
        return fail(e, -EINVAL, "cannot read CA certificates from", o->ca_file);
    }
    if (o->system_ca || (!c->server && !o->ca_file && !o->ca_pem))
        trust_system(ctx);
    if (c->server && o->require_client_cert) {
        if (!o->ca_file && !o->ca_pem)
            return err_set(e, -EINVAL, "client certificates are required, but no CA to verify them is configured");
        if (o->ca_file && !o->ca_pem)
            SSL_CTX_set_client_CA_list(ctx, SSL_load_client_CA_file(o->ca_file));
    }
    return 0;
}

static int use_cert_pem(SSL_CTX *ctx, const char *pem, struct err *e)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *x = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    int good = x && SSL_CTX_use_certificate(ctx, x) == 1;

    X509_free(x);
    while (good && (x = PEM_read_bio_X509(bio, NULL, NULL, NULL)))
        if (SSL_CTX_add0_chain_cert(ctx, x) != 1) {
            X509_free(x);
            good = 0;
        }
    BIO_free(bio);
    if (!good)
        return fail(e, -EINVAL, "cannot use the certificate in cert_pem", NULL);
    ERR_clear_error();
    return 0;
}

static int use_key_pem(SSL_CTX *ctx, const char *pem, struct err *e)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    int good = key && SSL_CTX_use_PrivateKey(ctx, key) == 1;

    EVP_PKEY_free(key);
    BIO_free(bio);
    return good ? 0 : fail(e, -EINVAL, "cannot use the private key in key_pem", NULL);
}

static int load_own(struct context *c, SSL_CTX *ctx, struct err *e)
{
    const struct tls_options *o = &c->o;
    bool cert = o->cert_file || o->cert_pem, key = o->key_file || o->key_pem;

    if (!cert && !key && !c->server)
        return 0;
    if (!cert || !key)
        return err_set(e, -EINVAL, "TLS needs both a certificate and its private key");
    if (o->cert_pem) {
        if (use_cert_pem(ctx, o->cert_pem, e) < 0)
            return -EINVAL;
    } else if (SSL_CTX_use_certificate_chain_file(ctx, o->cert_file) != 1) {
        return fail(e, -EINVAL, "cannot read the certificate from", o->cert_file);
    }
    if (o->key_pem) {
        if (use_key_pem(ctx, o->key_pem, e) < 0)
            return -EINVAL;
    } else if (SSL_CTX_use_PrivateKey_file(ctx, o->key_file, SSL_FILETYPE_PEM) != 1) {
        return fail(e, -EINVAL, "cannot read the private key from", o->key_file);
    }
    if (SSL_CTX_check_private_key(ctx) != 1)
        return fail(e, -EINVAL, "the private key does not match the certificate", NULL);
    return 0;
}

/* The server's choice: h2 before http/1.1 among what it serves and the client offers; if there is no overlap, the
 * handshake fails. */
static int select_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_n, const unsigned char *in, unsigned n,
                       void *arg)
{
    struct context *c = arg;
    unsigned char *chosen;

    if (SSL_select_next_proto(&chosen, out_n, c->alpn, c->alpn_n, in, n) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static int version_number(enum tls_version v, int fallback)
{
    return v == TLS_VERSION_1_2 ? TLS1_2_VERSION : v == TLS_VERSION_1_3 ? TLS1_3_VERSION : fallback;
}

static int build(struct context *c, SSL_CTX **ret, struct err *e)
{
    SSL_CTX *ctx = SSL_CTX_new(c->server ? TLS_server_method() : TLS_client_method());
    int r;

    if (!ctx)
        return fail(e, -ENOMEM, "cannot set up TLS", NULL);
    SSL_CTX_set_min_proto_version(ctx, version_number(c->o.min_version, TLS1_2_VERSION));
    SSL_CTX_set_max_proto_version(ctx, version_number(c->o.max_version, 0));
    SSL_CTX_set_mode(ctx,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                 SSL_OP_IGNORE_UNEXPECTED_EOF);
    if (c->server && c->o.require_client_cert)
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    else if (!c->server)
        SSL_CTX_set_verify(ctx, c->o.insecure_skip_verify ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    if (c->server)
        SSL_CTX_set_session_id_context(ctx, (const unsigned char *) "wick", 4);
    if (c->alpn_n && c->server)
        SSL_CTX_set_alpn_select_cb(ctx, select_alpn, c);
    else if (c->alpn_n)
        SSL_CTX_set_alpn_protos(ctx, c->alpn, c->alpn_n);
    r = load_trust(c, ctx, e);
    if (r == 0)
        r = load_own(c, ctx, e);
    if (r < 0) {
        SSL_CTX_free(ctx);
        return r;
    }
    *ret = ctx;
    return 0;
}

static int copy_string(const char **p)
{
    if (*p && !(*p = mem_strdup(*p)))
        return -ENOMEM;
    return 0;
}

static const char **strings_of(struct tls_options *o, unsigned i)
{
    const char **all[] = {&o->ca_file,  &o->ca_pem,  &o->cert_file,  &o->cert_pem,
                          &o->key_file, &o->key_pem, &o->server_name};

    return i < ARRAY_SIZE(all) ? all[i] : NULL;
}

static void context_free(struct tls_context *head)
{
    struct context *c = (struct context *) head;

    if (!c)
        return;
    SSL_CTX_free(c->ctx);
    for (unsigned i = 0; strings_of(&c->o, i); i++)
        mem_free((void *) *strings_of(&c->o, i));
    pthread_mutex_destroy(&c->lock);
    mem_free(c);
}

static int context_new(const struct tls_options *o, bool server, struct tls_context **ret, struct err *e)
{
    struct context *c = mem_zalloc(sizeof *c);
    int r = 0;

    if (!c)
        return -ENOMEM;
    c->head.ops = &tls_openssl;
    pthread_mutex_init(&c->lock, NULL);
    c->server = server;
    c->o = *o;
    for (unsigned i = 0; strings_of(&c->o, i); i++)
        if (copy_string(strings_of(&c->o, i)) < 0)
            r = -ENOMEM; /* go on, so that no later string still points to the caller's */
    if (o->http2) {
        memcpy(c->alpn, "\x02h2", 3);
        c->alpn_n = 3;
    }
    if (o->http1) {
        memcpy(c->alpn + c->alpn_n, "\x08http/1.1", 9);
        c->alpn_n += 9;
    }
    if (r == 0)
        r = build(c, &c->ctx, e);
    if (r < 0) {
        context_free(&c->head);
        return r;
    }
    *ret = &c->head;
    return 0;
}

static int context_reload(struct tls_context *head, struct err *e)
{
    struct context *c = (struct context *) head;
    SSL_CTX *fresh, *old;
    int r = build(c, &fresh, e);

    if (r < 0)
        return r;
    pthread_mutex_lock(&c->lock);
    old = c->ctx;
    c->ctx = fresh;
    pthread_mutex_unlock(&c->lock);
    SSL_CTX_free(old);
    return 0;
}

/* --- a session --- */
static int expect_host(SSL *ssl, const char *host)
{
    unsigned char ip[16];

    if (inet_pton(AF_INET, host, ip) == 1 || inet_pton(AF_INET6, host, ip) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host);
    SSL_set_tlsext_host_name(ssl, host); /* SNI holds names only */
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, host);
}

static void session_free(struct tls_session *s)
{
    if (!s)
        return;
    SSL_free(s->ssl);
    mem_free(s);
}

static int session_new(struct tls_context *head, int fd, const char *host, struct tls_session **ret, struct err *e)
{
    struct context *c = (struct context *) head;
    struct tls_session *s = mem_zalloc(sizeof *s);

    if (!s)
        return -ENOMEM;
    pthread_mutex_lock(&c->lock);
    s->ssl = SSL_new(c->ctx);
    pthread_mutex_unlock(&c->lock);
    if (c->o.server_name)
        host = c->o.server_name;
    if (!s->ssl || SSL_set_fd(s->ssl, fd) != 1 || (!c->server && host && expect_host(s->ssl, host) != 1)) {
        session_free(s);
        return fail(e, -ENOMEM, "cannot set up TLS", NULL);
    }
    if (c->server)
        SSL_set_accept_state(s->ssl);
    else
        SSL_set_connect_state(s->ssl);
    *ret = s;
    return 0;
}

/* Converts the result of an SSL_* call to a negative errno or 0. */
static int result_of(struct tls_session *s, int r)
{
    switch (SSL_get_error(s->ssl, r)) {
    case SSL_ERROR_WANT_READ:
        s->wants_write = false;
        return -EAGAIN;
    case SSL_ERROR_WANT_WRITE:
        s->wants_write = true;
        return -EAGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_SYSCALL:
        s->failed = true;
        return errno ? -errno : -ECONNRESET;
    default:
        s->failed = true;
        return -EPROTO;
    }
}

static bool is_unknown_ca(long verify)
{
    return verify == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT || verify == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY ||
           verify == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN || verify == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT ||
           verify == X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE;
}

static int handshake(struct tls_session *s, struct err *e)
{
    int r, code;
    long verify;

    ERR_clear_error();
    errno = 0;
    r = SSL_do_handshake(s->ssl);
    if (r == 1)
        return 0;
    code = result_of(s, r);
    if (code == -EAGAIN)
        return code;
    verify = SSL_get_verify_result(s->ssl);
    if (verify != X509_V_OK && code == -EPROTO)
        return err_set(e, -EPROTO, "TLS: the peer's certificate was rejected: %s%s",
                       X509_verify_cert_error_string(verify),
                       is_unknown_ca(verify)
                           ? "; if its CA is private, name its file in SSL_CERT_FILE (ca_file in a configuration)"
                           : "");
    if (code == 0 || (code == -ECONNRESET && !ERR_peek_error()))
        return err_set(e, -ECONNRESET, "TLS: the peer closed the connection during the handshake");
    return fail(e, code, "TLS handshake failed", NULL);
}

static ssize_t session_read(struct tls_session *s, void *p, size_t n)
{
    size_t done = 0;

    while (done < n) { /* a record holds at most 16 KiB: fill the caller's buffer */
        int r;

        ERR_clear_error();
        errno = 0;
        r = SSL_read(s->ssl, (char *) p + done, (int) MIN(n - done, 1 << 30));
        if (r > 0) {
            done += (size_t) r;
            continue;
        }
        r = result_of(s, r);
        return done ? (ssize_t) done : r;
    }
    return (ssize_t) done;
}

static ssize_t session_write(struct tls_session *s, const void *p, size_t n)
{
    int r;

    ERR_clear_error();
    errno = 0;
    r = SSL_write(s->ssl, p, (int) MIN(n, 1 << 30));
    if (r > 0)
        return r;
    r = result_of(s, r);
    return r == 0 ? -EPIPE : r;
}

static void session_shutdown(struct tls_session *s)
{
    if (!s->failed && SSL_is_init_finished(s->ssl)) {
        ERR_clear_error();
        SSL_shutdown(s->ssl);
        ERR_clear_error();
    }
}

static bool wants_write(struct tls_session *s)
{
    return s->wants_write;
}

static bool has_pending(struct tls_session *s)
{
    return SSL_pending(s->ssl) > 0;
}

static struct str alpn(struct tls_session *s)
{
    const unsigned char *p;
    unsigned n;

    SSL_get0_alpn_selected(s->ssl, &p, &n);
    return (struct str){(const char *) p, n};
}

static void peer_subject(struct tls_session *s, char *out, size_t n)
{
    X509 *x = SSL_get_verify_result(s->ssl) == X509_V_OK ? SSL_get1_peer_certificate(s->ssl) : NULL;

    out[0] = 0;
    if (x)
        X509_NAME_oneline(X509_get_subject_name(x), out, (int) n);
    X509_free(x);
}

const struct tls_ops tls_openssl = {
    .context_new = context_new,
    .context_free = context_free,
    .context_reload = context_reload,
    .session_new = session_new,
    .session_free = session_free,
    .handshake = handshake,
    .read = session_read,
    .write = session_write,
    .shutdown = session_shutdown,
    .wants_write = wants_write,
    .has_pending = has_pending,
    .alpn = alpn,
    .peer_subject = peer_subject,
};
