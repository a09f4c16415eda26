/* SPDX-License-Identifier: Apache-2.0 */
/* Options that many components share: TLS of servers and clients, authentication. */
#ifndef PIPELINE_SETTINGS_H
#define PIPELINE_SETTINGS_H

#include "conf/option.h"
#include "net/loop.h"
#include "net/tls.h"

struct tls_config {
    bool insecure, insecure_skip_verify, system_ca;
    const char *ca_file, *cert_file, *key_file, *ca_pem, *cert_pem, *key_pem, *server_name, *client_ca_file;
    int min_version, max_version;
    int64_t reload_interval;
};

struct auth_config {
    const char *authenticator;
};

extern const struct option tls_server_options[], tls_client_options[], auth_options[];

/* Creates a context for a server (http2, http1: what ALPN may select). */
int settings_tls_server(const struct tls_config *c, bool http2, bool http1, struct tls_context **ret, struct err *e);
int settings_tls_client(const struct tls_config *c, bool http2, bool http1, struct tls_context **ret, struct err *e);

/* Reads certificates again every reload_interval. Embedded in the context's owner; ends with its loop, which must end
 * before the context is freed. */
struct tls_reload {
    struct loop_call call;
    struct loop_timer timer;
    struct loop *loop;
    struct tls_context *context;
    int64_t interval;
};

/* From any thread; a no-op without a context or an interval. */
void settings_tls_reload(struct tls_reload *x, const struct tls_config *c, struct tls_context *context, struct loop *l);

#endif
