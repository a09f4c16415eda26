/* SPDX-License-Identifier: Apache-2.0 */
/* The option tables of shared settings, and the TLS contexts made from them. See settings.h. */
#include "pipeline/graph/settings.h"

#include "base/clock.h"
#include "base/log.h"

static const char *const versions[] = {"", "1.0", "1.1", "1.2", "1.3", NULL};

#define COMMON_TLS                                                                                                   \
    {"ca_file", OPT_STRING, offsetof(struct tls_config, ca_file), NULL, "file with trusted CA certificates"},        \
        {"ca_pem", OPT_STRING, offsetof(struct tls_config, ca_pem), NULL, "the same as PEM text"},                   \
        {"include_system_ca_certs_pool", OPT_BOOL, offsetof(struct tls_config, system_ca), "false",                  \
         "also trust the system's CA certificates"},                                                                 \
        {"cert_file", OPT_STRING, offsetof(struct tls_config, cert_file), NULL, "certificate file"},                 \
        {"cert_pem", OPT_STRING, offsetof(struct tls_config, cert_pem), NULL, "the same as PEM text"},               \
        {"key_file", OPT_STRING, offsetof(struct tls_config, key_file), NULL, "private key file"},                   \
        {"key_pem", OPT_STRING, offsetof(struct tls_config, key_pem), NULL, "the same as PEM text", .secret = true}, \
        {"min_version",                                                                                              \
         OPT_ENUM,                                                                                                   \
         offsetof(struct tls_config, min_version),                                                                   \
         "'1.2'",                                                                                                    \
         "minimum TLS version; at least 1.2",                                                                        \
         .words = versions},                                                                                         \
        {"max_version",         OPT_ENUM,         offsetof(struct tls_config, max_version), "''",                    \
         "maximum TLS version", .words = versions},                                                                  \
        {"cipher_suites", OPT_REFUSED, 0, NULL, "the ciphers are those of OpenSSL's configuration"},                 \
        {"curve_preferences", OPT_REFUSED, 0, NULL, "the curves are those of OpenSSL's configuration"},              \
    {                                                                                                                \
        "reload_interval", OPT_DURATION, offsetof(struct tls_config, reload_interval), "0s",                         \
            "interval for rereading the files; 0: never"                                                             \
    }

const struct option tls_server_options[] = {
    COMMON_TLS,
    {"client_ca_file", OPT_STRING, offsetof(struct tls_config, client_ca_file), NULL,
     "require client certificates signed by this CA"},
    {"client_ca_file_reload", OPT_IGNORED, 0, NULL, "see reload_interval"},
    {0},
};

const struct option tls_client_options[] = {
    COMMON_TLS,
    {"insecure", OPT_BOOL, offsetof(struct tls_config, insecure), "false", "do not use TLS"},
    {"insecure_skip_verify", OPT_BOOL, offsetof(struct tls_config, insecure_skip_verify), "false",
     "do not verify the certificate of the server"},
    {"server_name_override", OPT_STRING, offsetof(struct tls_config, server_name), NULL,
     "server name to verify instead of the host name"},
    {0},
};

const struct option auth_options[] = {
    {"authenticator", OPT_STRING, offsetof(struct auth_config, authenticator), NULL, "an authenticator extension",
     .required = true},
    {"request_params", OPT_IGNORED, 0, NULL, "only headers are checked"},
    {0},
};

static struct tls_options base_options(const struct tls_config *c, bool http2, bool http1)
{
    return (struct tls_options){
        .ca_file = c->ca_file,
        .ca_pem = c->ca_pem,
        .system_ca = c->system_ca,
        .cert_file = c->cert_file,
        .cert_pem = c->cert_pem,
        .key_file = c->key_file,
        .key_pem = c->key_pem,
        .min_version = c->min_version == 4 ? TLS_VERSION_1_3 : TLS_VERSION_1_2,
        .max_version = c->max_version == 4   ? TLS_VERSION_1_3
                       : c->max_version == 3 ? TLS_VERSION_1_2
                                             : TLS_VERSION_DEFAULT,
        .http2 = http2,
        .http1 = http1,
    };
}

int settings_tls_server(const struct tls_config *c, bool http2, bool http1, struct tls_context **ret, struct err *e)
{
    struct tls_options o = base_options(c, http2, http1);

    if (c->client_ca_file) {
        o.ca_file = c->client_ca_file;
        o.ca_pem = NULL;
        o.require_client_cert = true;
    }
    return tls_openssl.context_new(&o, true, ret, e);
}

int settings_tls_client(const struct tls_config *c, bool http2, bool http1, struct tls_context **ret, struct err *e)
{
    struct tls_options o = base_options(c, http2, http1);

    o.insecure_skip_verify = c->insecure_skip_verify;
    o.server_name = c->server_name;
    return tls_openssl.context_new(&o, false, ret, e);
}

static void reload_set(struct tls_reload *x)
{
    loop_timer_set(x->loop, &x->timer, clock_mono() + x->interval);
}

static void reload_fire(struct loop_timer *t)
{
    struct tls_reload *x = container_of(t, struct tls_reload, timer);
    struct err e = {0};

    if (x->context->ops->context_reload(x->context, &e) < 0)
        log_warn("cannot reload certificates, keeping the previous ones: %s", e.message);
    reload_set(x);
}

static void reload_start(struct loop_call *c)
{
    reload_set(container_of(c, struct tls_reload, call));
}

void settings_tls_reload(struct tls_reload *x, const struct tls_config *c, struct tls_context *context, struct loop *l)
{
    if (!context || c->reload_interval <= 0)
        return;
    *x = (struct tls_reload){{.run = reload_start}, {.fire = reload_fire}, l, context, c->reload_interval};
    loop_post(l, &x->call);
}
