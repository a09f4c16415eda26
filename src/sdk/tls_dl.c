/* SPDX-License-Identifier: Apache-2.0 */
/* TLS over OpenSSL's shared library (tls_dl.h). The few functions of OpenSSL that are used are declared here by their
 * ABI. */
#include "sdk/tls_dl.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

enum { VERIFY_PEER = 1, CTRL_SET_SNI = 55, ERROR_WANT_READ = 2, ERROR_WANT_WRITE = 3, ERROR_ZERO_RETURN = 6 };
/* X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT and the three that follow it. */
enum { NO_ISSUER_FIRST = 18, NO_ISSUER_LAST = 21 };

struct tls_functions {
    void *(*client_method)(void);
    void *(*ctx_new)(const void *);
    void (*ctx_free)(void *);
    int (*ctx_default_paths)(void *);
    int (*ctx_load)(void *, const char *, const char *);
    void (*ctx_verify)(void *, int, void *);
    int (*ctx_alpn)(void *, const unsigned char *, unsigned);
    void *(*ssl_new)(void *);
    void (*ssl_free)(void *);
    int (*set_fd)(void *, int);
    int (*set_host)(void *, const char *);
    long (*ctrl)(void *, int, long, void *);
    int (*connect)(void *);
    int (*read)(void *, void *, int);
    int (*write)(void *, const void *, int);
    int (*shutdown)(void *);
    int (*get_error)(const void *, int);
    long (*verify_result)(const void *);
    const char *(*verify_error_string)(long); /* libcrypto's */
};

static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
    {"TLS_client_method", offsetof(struct tls_functions, client_method)},
    {"SSL_CTX_new", offsetof(struct tls_functions, ctx_new)},
    {"SSL_CTX_free", offsetof(struct tls_functions, ctx_free)},
    {"SSL_CTX_set_default_verify_paths", offsetof(struct tls_functions, ctx_default_paths)},
    {"SSL_CTX_load_verify_locations", offsetof(struct tls_functions, ctx_load)},
    {"SSL_CTX_set_verify", offsetof(struct tls_functions, ctx_verify)},
    {"SSL_CTX_set_alpn_protos", offsetof(struct tls_functions, ctx_alpn)},
    {"SSL_new", offsetof(struct tls_functions, ssl_new)},
    {"SSL_free", offsetof(struct tls_functions, ssl_free)},
    {"SSL_set_fd", offsetof(struct tls_functions, set_fd)},
    {"SSL_set1_host", offsetof(struct tls_functions, set_host)},
    {"SSL_ctrl", offsetof(struct tls_functions, ctrl)},
    {"SSL_connect", offsetof(struct tls_functions, connect)},
    {"SSL_read", offsetof(struct tls_functions, read)},
    {"SSL_write", offsetof(struct tls_functions, write)},
    {"SSL_shutdown", offsetof(struct tls_functions, shutdown)},
    {"SSL_get_error", offsetof(struct tls_functions, get_error)},
    {"SSL_get_verify_result", offsetof(struct tls_functions, verify_result)},
    {"X509_verify_cert_error_string", offsetof(struct tls_functions, verify_error_string)},
};

static struct tls_functions ops;
static bool loaded;

static int load(struct err *e)
{
    static const char *const names[] = {"libssl.so.3", "libssl.so.1.1", "libssl.so"};
    void *lib = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(names) && !lib; i++)
        lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return err_set(e, -ENOTSUP,
                       "https requires OpenSSL (libssl.so.3), which is not installed; use http, or an agent");
    for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
        void *f = dlsym(lib, symbols[i].name); /* also searches the dependencies of libssl */

        if (!f)
            return err_set(e, -ENOTSUP, "this version of OpenSSL has no %s", symbols[i].name);
        memcpy((char *) &ops + symbols[i].offset, &f, sizeof f);
    }
    loaded = true;
    return 0;
}

/* Returns 0 if the operation is to be retried. */
static int wait_for(struct transport *t, int r)
{
    int error = ops.get_error(t->ssl, r);

    if (error == ERROR_WANT_READ)
        return transport_wait(t, POLLIN);
    if (error == ERROR_WANT_WRITE)
        return transport_wait(t, POLLOUT);
    return error == ERROR_ZERO_RETURN ? -ECONNRESET : -EPROTO;
}

static void *make_context(bool h2, const char *ca_file, struct err *e)
{
    static const unsigned char alpn_h2[] = "\x02h2", alpn_http[] = "\x08http/1.1";
    void *ctx = ops.ctx_new(ops.client_method());

    if (!ctx) {
        err_set(e, -ENOMEM, "cannot initialize OpenSSL");
        return NULL;
    }
    if (ca_file ? ops.ctx_load(ctx, ca_file, NULL) != 1 : ops.ctx_default_paths(ctx) != 1) {
        err_set(e, -EINVAL, "cannot read certificates from '%s'", ca_file ? ca_file : "the system's store");
        ops.ctx_free(ctx);
        return NULL;
    }
    ops.ctx_verify(ctx, VERIFY_PEER, NULL);
    ops.ctx_alpn(ctx, h2 ? alpn_h2 : alpn_http, h2 ? sizeof alpn_h2 - 1 : sizeof alpn_http - 1);
    return ctx;
}

int tls_open(struct transport *t, const char *host, bool h2, const char *ca_file, struct err *e)
{
    void *ctx;
    long verified;
    int r = loaded ? 0 : load(e);

    if (r < 0)
        return r;
    ctx = make_context(h2, ca_file, e);
    if (!ctx)
        return e ? e->code : -EINVAL;
    t->tls = &ops;
    t->ssl = ops.ssl_new(ctx);
    ops.ctx_free(ctx); /* the connection holds a reference */
    if (!t->ssl)
        return err_set(e, -ENOMEM, "cannot initialize OpenSSL");
    ops.set_fd(t->ssl, t->fd);
    ops.ctrl(t->ssl, CTRL_SET_SNI, 0, (void *) host);
    ops.set_host(t->ssl, host);
    while ((r = ops.connect(t->ssl)) != 1) {
        r = wait_for(t, r);
        if (r == 0)
            continue;
        verified = ops.verify_result(t->ssl);
        if (verified)
            return err_set(e, -EPROTO, "TLS with %s: %s%s", host, ops.verify_error_string(verified),
                           verified >= NO_ISSUER_FIRST && verified <= NO_ISSUER_LAST
                               ? "; if its CA is private, name its file in OTEL_EXPORTER_OTLP_CERTIFICATE"
                               : "");
        return err_set(e, r, "TLS with %s failed: %m", host);
    }
    return 0;
}

void tls_close(struct transport *t)
{
    ops.shutdown(t->ssl);
    ops.ssl_free(t->ssl);
    t->ssl = NULL;
}

ssize_t tls_write(struct transport *t, const void *p, size_t n)
{
    for (;;) {
        int r = ops.write(t->ssl, p, (int) MIN(n, (size_t) 1 << 20));

        if (r > 0)
            return r;
        r = wait_for(t, r);
        if (r < 0)
            return r;
    }
}

ssize_t tls_read(struct transport *t, void *p, size_t n)
{
    for (;;) {
        int r = ops.read(t->ssl, p, (int) MIN(n, (size_t) 1 << 20));

        if (r > 0)
            return r;
        r = wait_for(t, r);
        if (r == -ECONNRESET)
            return 0;
        if (r < 0)
            return r;
    }
}
