/* SPDX-License-Identifier: Apache-2.0 */
/* `otlp` (also otlp_grpc) and `otlphttp` (also otlp_http): sends OTLP to a peer, over gRPC or HTTP. */
#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "net/http.h"
#include "pipeline/exporters/otlp_choice.h"
#include "pipeline/exporters/otlp_client.h"
#include "pipeline/graph/auth.h"
#include "pipeline/graph/host.h"

/* Below the 4 MiB that gRPC receivers accept by default, with a margin for peers that count differently. libdeflate's
 * level 1 makes requests some 6 % larger than Go's gzip does, in a fifth of its time. */
enum { GRPC_BODY_MAX = (4 << 20) - (64 << 10), HTTP_BODY_MAX = 16 << 20, GZIP_LEVEL = 1 };

struct compression_params {
    int64_t level;
};

struct otlp_exporter_config {
    const char *endpoint, *proxy_url;
    int compression, encoding, protocol;
    struct compression_params params;
    struct tls_config tls;
    struct option_map headers;
    struct auth_config auth;
    bool has_auth, has_keepalive, references;
    struct keepalive_config keepalive;
    int64_t timeout, max_request_bytes;
    struct retry_config retry;
    struct queue_config queue;
    const char *endpoints[SIGNALS]; /* HTTP: URLs of single signals */
};

struct otlp_exporter {
    struct instance instance;
    struct otlp_client *client, *other; /* other: the client for HTTP where the peer is asked */
    struct otlp_choice *choice;         /* NULL: the protocol is given */
    struct sender *sender;
    char path[1024];
};

static const char *const compressions[] = {"gzip", "zstd", "none", "", "deflate", "zlib", NULL};
static const char *const encodings[] = {"proto", "json", NULL};
enum { PROTOCOL_GRPC, PROTOCOL_AUTO };
static const char *const protocols[] = {"grpc", "auto", NULL};

static const struct option keepalive_options[] = {
    {"time", OPT_DURATION, offsetof(struct keepalive_config, time), "10s", "ping an idle connection after this time"},
    {"timeout", OPT_DURATION, offsetof(struct keepalive_config, timeout), "10s",
     "close the connection if no response arrives within this time"},
    {"permit_without_stream", OPT_BOOL, offsetof(struct keepalive_config, permit_without_stream), "false",
     "also ping while no request is in flight"},
    {0},
};

static const struct option params_options[] = {
    {"level", OPT_INT, offsetof(struct compression_params, level), "0",
     "compression level from 1 (fast) to 9 (small); 0: default"},
    {0},
};

#define COMMON                                                                                                           \
    {"endpoint", OPT_STRING, offsetof(struct otlp_exporter_config, endpoint), NULL, "host:port or URL of the peer"},     \
        {"compression",                                                                                                  \
         OPT_ENUM,                                                                                                       \
         offsetof(struct otlp_exporter_config, compression),                                                             \
         "gzip",                                                                                                         \
         "compression of requests",                                                                                      \
         .words = compressions},                                                                                         \
        {"compression_params",                                                                                           \
         OPT_TABLE,                                                                                                      \
         offsetof(struct otlp_exporter_config, params),                                                                  \
         NULL,                                                                                                           \
         "compression parameters",                                                                                       \
         .table = params_options},                                                                                       \
        {"tls",                                                                                                          \
         OPT_TABLE,                                                                                                      \
         offsetof(struct otlp_exporter_config, tls),                                                                     \
         NULL,                                                                                                           \
         "TLS settings; TLS is on unless insecure is set",                                                               \
         .table = tls_client_options},                                                                                   \
        {"headers",                                                                                                      \
         OPT_MAP,                                                                                                        \
         offsetof(struct otlp_exporter_config, headers),                                                                 \
         NULL,                                                                                                           \
         "headers sent with every request",                                                                              \
         .secret = true},                                                                                                \
        {"auth",                                                                                                         \
         OPT_TABLE,                                                                                                      \
         offsetof(struct otlp_exporter_config, auth),                                                                    \
         NULL,                                                                                                           \
         "authenticator extension",                                                                                      \
         .table = auth_options,                                                                                          \
         .present = offsetof(struct otlp_exporter_config, has_auth)},                                                    \
        {"attribute_references", OPT_BOOL, offsetof(struct otlp_exporter_config, references), "false",                   \
         "send resource attributes as references: smaller, but Collectors before 0.163 lose them"},                      \
        {"retry_on_failure",    OPT_TABLE, offsetof(struct otlp_exporter_config, retry), NULL, "retry settings",         \
         .table = retry_options},                                                                                        \
        {"sending_queue",       OPT_TABLE, offsetof(struct otlp_exporter_config, queue), NULL, "sending queue settings", \
         .table = queue_options},                                                                                        \
        {"max_request_bytes", OPT_SIZE, offsetof(struct otlp_exporter_config, max_request_bytes), "0",                   \
         "split larger requests; 0: below 4 MiB over gRPC, 16 MiB over HTTP"},                                           \
        {"read_buffer_size", OPT_IGNORED, 0, NULL, "buffer sizes are fixed"},                                            \
        {"write_buffer_size", OPT_IGNORED, 0, NULL, "buffer sizes are fixed"},                                           \
    {                                                                                                                    \
        "middlewares", OPT_IGNORED, 0, NULL, "no middleware is available"                                                \
    }

static const struct option grpc_options[] = {
    COMMON,
    {"timeout", OPT_DURATION, offsetof(struct otlp_exporter_config, timeout), "5s", "timeout of one attempt"},
    {"protocol", OPT_ENUM, offsetof(struct otlp_exporter_config, protocol), "grpc",
     "auto: use OTLP/HTTP if the peer accepts it, else gRPC", .words = protocols},
    {"authority", OPT_IGNORED, 0, NULL, "the host name of the endpoint is sent"},
    {"keepalive", OPT_TABLE, offsetof(struct otlp_exporter_config, keepalive), NULL, "detect dead connections",
     .table = keepalive_options, .present = offsetof(struct otlp_exporter_config, has_keepalive)},
    {"balancer_name", OPT_IGNORED, 0, NULL, "one connection is made, to the first address that responds"},
    {"wait_for_ready", OPT_IGNORED, 0, NULL, "requests always wait for a connection until their timeout"},
    {0},
};

static const struct option http_options[] = {
    COMMON,
    {"timeout", OPT_DURATION, offsetof(struct otlp_exporter_config, timeout), "30s", "timeout of one attempt"},
    {"encoding", OPT_ENUM, offsetof(struct otlp_exporter_config, encoding), "proto", "encoding of requests",
     .words = encodings},
    {"profiles_endpoint", OPT_STRING, offsetof(struct otlp_exporter_config, endpoints[SIGNAL_PROFILES]), NULL,
     "full URL for profiles"},
    {"traces_endpoint", OPT_STRING, offsetof(struct otlp_exporter_config, endpoints[SIGNAL_TRACES]), NULL,
     "full URL for traces"},
    {"metrics_endpoint", OPT_STRING, offsetof(struct otlp_exporter_config, endpoints[SIGNAL_METRICS]), NULL,
     "full URL for metrics"},
    {"logs_endpoint", OPT_STRING, offsetof(struct otlp_exporter_config, endpoints[SIGNAL_LOGS]), NULL,
     "full URL for logs"},
    {"max_idle_conns", OPT_IGNORED, 0, NULL, "at most 8 connections are used"},
    {"max_idle_conns_per_host", OPT_IGNORED, 0, NULL, "at most 8 connections are used"},
    {"max_conns_per_host", OPT_IGNORED, 0, NULL, "at most 8 connections are used"},
    {"idle_conn_timeout", OPT_IGNORED, 0, NULL, "90 s"},
    {"disable_keep_alives", OPT_IGNORED, 0, NULL, "connections are always kept alive"},
    {"http2_read_idle_timeout", OPT_IGNORED, 0, NULL, "HTTP/1.1 is used"},
    {"http2_ping_timeout", OPT_IGNORED, 0, NULL, "HTTP/1.1 is used"},
    {"force_attempt_http2", OPT_IGNORED, 0, NULL, "HTTP/1.1 is used"},
    {"cookies", OPT_IGNORED, 0, NULL, "cookies are not stored"},
    {"proxy_url", OPT_STRING, offsetof(struct otlp_exporter_config, proxy_url), NULL, "not supported"},
    {0},
};

static enum compression compression_of(const struct otlp_exporter_config *c)
{
    static const enum compression by_word[] = {COMPRESS_GZIP, COMPRESS_ZSTD, COMPRESS_NONE,
                                               COMPRESS_NONE, COMPRESS_ZLIB, COMPRESS_ZLIB};

    return by_word[c->compression];
}

static int start(struct instance *i, struct err *e)
{
    return sender_start(container_of(i, struct otlp_exporter, instance)->sender, e);
}

static void stop(struct instance *i)
{
    sender_stop(container_of(i, struct otlp_exporter, instance)->sender);
}

static void free_instance(struct instance *i)
{
    struct otlp_exporter *x = container_of(i, struct otlp_exporter, instance);

    sender_free(x->sender);
    otlp_choice_free(x->choice);
    otlp_client_free(x->client);
    otlp_client_free(x->other);
    mem_free(x);
}

/* HTTP: a URL for the signal is used as it is; to the common one the signal's path is appended unless it has it. */
static int http_target(struct otlp_exporter *x, const struct otlp_exporter_config *c, enum signal signal,
                       struct otlp_client_options *o, struct err *e)
{
    static const char *const paths[SIGNALS] = {"/v1development/profiles", "/v1/traces", "/v1/metrics", "/v1/logs"};
    struct http_url url;
    bool full;
    size_t n;
    int r;

    o->endpoint = c->endpoints[signal] ? c->endpoints[signal] : c->endpoint;
    r = o->endpoint ? http_url_parse(o->endpoint, &url, e) : err_set(e, -EINVAL, "'endpoint' is required");
    if (r < 0)
        return r;
    n = strlen(url.target);
    full = c->endpoints[signal] || str_ends(str_from(url.target), str_from(paths[signal]));
    if (!full && n && url.target[n - 1] == '/')
        n--;
    if (n + 40 > sizeof x->path)
        return err_set(e, -E2BIG, "endpoint is too long");
    snprintf(x->path, sizeof x->path, "%.*s%s", (int) n, url.target, full ? "" : paths[signal]);
    o->path = x->path;
    return 0;
}

static int make_sender(struct otlp_exporter *x, const struct component_args *args, bool grpc, struct err *e)
{
    const struct otlp_exporter_config *c = args->config;
    struct sender_args a = {
        .component = args,
        .retry = &c->retry,
        .queue = &c->queue,
        .timeout = c->timeout,
        .max_body = c->max_request_bytes ? (size_t) c->max_request_bytes
                    : grpc               ? GRPC_BODY_MAX
                                         : HTTP_BODY_MAX,
        .json = !grpc && c->encoding == 1,
        .ops = x->choice ? &otlp_choice_ops : &otlp_client_ops,
        .arg = x->choice ? (void *) x->choice : x->client,
    };

    return sender_new(&a, &x->sender, e);
}

/* The client for HTTP beside the one for gRPC, and what chooses between them. */
static int make_choice(struct otlp_exporter *x, const struct otlp_exporter_config *c, struct otlp_client_options *o,
                       struct err *e)
{
    int r;

    o->grpc = false;
    r = http_target(x, c, o->signal, o, e);
    if (r == 0)
        r = otlp_client_new(o, &x->other, e);
    return r < 0 ? r : otlp_choice_new(x->other, x->client, o->id, &x->choice);
}

static int create(const struct component_args *args, bool grpc, struct instance **ret, struct err *e)
{
    const struct otlp_exporter_config *c = args->config;
    struct otlp_exporter *x = mem_zalloc(sizeof *x);
    struct otlp_client_options o = {
        .id = args->id,
        .signal = args->signal,
        .grpc = grpc,
        .json = !grpc && c->encoding == 1,
        .endpoint = c->endpoint,
        .compression = compression_of(c),
        .level = c->params.level                      ? (int) c->params.level
                 : compression_of(c) == COMPRESS_ZSTD ? 1
                                                      : GZIP_LEVEL,
        .references = c->references,
        .headers = &c->headers,
        .tls = &c->tls,
        .keepalive = c->has_keepalive ? &c->keepalive : NULL,
    };
    int r = 0;

    if (!x)
        return -ENOMEM;
    x->instance = (struct instance){.id = args->id, .start = start, .stop = stop, .free = free_instance};
    if (c->has_auth) {
        r = host_extension(args->host, c->auth.authenticator, "authenticator", &o.auth, e);
        if (r == 0)
            r = auth_of(o.auth, &o.auth_api, e);
    }
    if (r == 0 && !grpc)
        r = http_target(x, c, args->signal, &o, e);
    if (r == 0)
        r = otlp_client_new(&o, &x->client, e);
    if (r == 0 && grpc && c->protocol == PROTOCOL_AUTO)
        r = make_choice(x, c, &o, e);
    if (r == 0)
        r = make_sender(x, args, grpc, e);
    if (r < 0) {
        free_instance(&x->instance);
        return r;
    }
    x->instance.sink = sender_sink(x->sender);
    *ret = &x->instance;
    return 0;
}

static int create_grpc(const struct component_args *args, struct instance **ret, struct err *e)
{
    return create(args, true, ret, e);
}

static int create_http(const struct component_args *args, struct instance **ret, struct err *e)
{
    return create(args, false, ret, e);
}

static bool is_persistent(const void *config)
{
    const struct otlp_exporter_config *c = config;

    return c->queue.enabled && c->queue.storage;
}

static int check_common(const struct otlp_exporter_config *c, const struct conf_node *node, struct err *e)
{
    if (c->timeout < 0)
        return conf_error(node, -EINVAL, e, "'timeout' must not be negative");
    if (c->max_request_bytes && c->max_request_bytes < 4096)
        return conf_error(node, -EINVAL, e, "'max_request_bytes' must be at least 4096");
    if (c->params.level < 0 || c->params.level > 12)
        return conf_error(node, -EINVAL, e, "compression_params: 'level' must be between 0 and 12");
    return sender_check(&c->retry, &c->queue, node, e);
}

static int check_grpc(const void *config, const struct conf_node *node, struct err *e)
{
    const struct otlp_exporter_config *c = config;
    struct err sub = {0};
    int r = otlp_endpoint_check(c->endpoint, true, &sub);

    if (r < 0)
        return conf_error(node, r, e, "%s", sub.message);
    if (c->protocol == PROTOCOL_AUTO && strncmp(c->endpoint, "http://", 7) != 0 &&
        strncmp(c->endpoint, "https://", 8) != 0)
        return conf_error(node, -EINVAL, e, "protocol: auto: the endpoint must begin with http:// or https://");
    return check_common(c, node, e);
}

static int check_http(const void *config, const struct conf_node *node, struct err *e)
{
    const struct otlp_exporter_config *c = config;
    bool any = c->endpoint != NULL;

    for (int i = 0; i < SIGNALS; i++)
        any |= c->endpoints[i] != NULL;
    if (!any)
        return conf_error(node, -EINVAL, e, "at least one endpoint must be specified");
    for (int i = -1; i < SIGNALS; i++) {
        const char *url = i < 0 ? c->endpoint : c->endpoints[i];

        if (url && strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
            return conf_error(node, -EINVAL, e, "endpoint '%s' must begin with http:// or https://", url);
    }
    if (c->proxy_url)
        return conf_error(node, -EOPNOTSUPP, e, "'proxy_url' is not supported");
    return check_common(c, node, e);
}

static const char *const grpc_aliases[] = {"otlp_grpc", NULL}, *const http_aliases[] = {"otlp_http", NULL};

const struct component component_otlp_exporter = {
    .kind = COMPONENT_EXPORTER,
    .name = "otlp",
    .aliases = grpc_aliases,
    .help = "OTLP over gRPC; with protocol: auto over HTTP if the peer accepts it",
    .signals = ALL_SIGNALS,
    .options = grpc_options,
    .config_size = sizeof(struct otlp_exporter_config),
    .check = check_grpc,
    .is_persistent = is_persistent,
    .create = create_grpc,
};

const struct component component_otlphttp_exporter = {
    .kind = COMPONENT_EXPORTER,
    .name = "otlphttp",
    .aliases = http_aliases,
    .help = "OTLP over HTTP, protobuf or JSON",
    .signals = ALL_SIGNALS,
    .options = http_options,
    .config_size = sizeof(struct otlp_exporter_config),
    .check = check_http,
    .is_persistent = is_persistent,
    .create = create_http,
};
