/* SPDX-License-Identifier: Apache-2.0 */
/* `otlp`: OTLP over gRPC and HTTP, one server each on the shared loops. */
#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "pipeline/graph/auth.h"
#include "pipeline/graph/component.h"
#include "pipeline/graph/host.h"
#include "pipeline/graph/listener.h"
#include "pipeline/graph/settings.h"
#include "pipeline/receivers/otlp_service.h"

struct grpc_config {
    const char *endpoint;
    int64_t max_recv_msg_size_mib, max_concurrent_streams;
    struct tls_config tls;
    bool has_tls, has_auth, include_metadata;
    struct auth_config auth;
};

struct cors_config {
    struct option_strings allowed_origins, allowed_headers;
    int64_t max_age;
};

struct http_config {
    const char *endpoint;
    int64_t max_request_body_size;
    const char *traces_url_path, *metrics_url_path, *logs_url_path;
    struct tls_config tls;
    bool has_tls, has_auth, include_metadata;
    struct auth_config auth;
    struct cors_config cors;
};

struct protocols_config {
    char first; /* keeps offset 0 free, which means "no presence flag" */
    bool has_grpc, has_http;
    struct grpc_config grpc;
    struct http_config http;
};

struct otlp_receiver_config {
    struct protocols_config protocols;
    bool keep_empty_profile_ids;
};

struct otlp_receiver {
    struct instance instance;
    const struct otlp_receiver_config *config;
    struct host *host;
    struct otlp_service grpc, http;
    struct http_server *grpc_server, *http_server;
    struct tls_context *grpc_tls, *http_tls;
    struct tls_reload grpc_reload, http_reload;
};

static const struct option grpc_options[] = {
    {"endpoint", OPT_STRING, offsetof(struct grpc_config, endpoint), "localhost:4317", "address to listen on"},
    {"max_recv_msg_size_mib", OPT_INT, offsetof(struct grpc_config, max_recv_msg_size_mib), "4",
     "maximum size of a request after decompression, in MiB"},
    {"max_concurrent_streams", OPT_INT, offsetof(struct grpc_config, max_concurrent_streams), "0",
     "maximum number of concurrent requests per connection; 0: 100"},
    {"tls", OPT_TABLE, offsetof(struct grpc_config, tls), NULL, "encryption", .table = tls_server_options,
     .present = offsetof(struct grpc_config, has_tls)},
    {"auth", OPT_TABLE, offsetof(struct grpc_config, auth), NULL, "authenticator extension", .table = auth_options,
     .present = offsetof(struct grpc_config, has_auth)},
    {"include_metadata", OPT_BOOL, offsetof(struct grpc_config, include_metadata), "false",
     "pass request metadata to processors"},
    {"transport", OPT_IGNORED, 0, NULL, "tcp; for a unix socket use endpoint: unix:/path"},
    {"read_buffer_size", OPT_IGNORED, 0, NULL, "buffer sizes are fixed"},
    {"write_buffer_size", OPT_IGNORED, 0, NULL, "buffer sizes are fixed"},
    {"keepalive", OPT_IGNORED, 0, NULL,
     "idle connections are closed after 10 minutes, and those that flood pings at once"},
    {"middlewares", OPT_IGNORED, 0, NULL, "no middleware is available"},
    {0},
};

static const struct option cors_options[] = {
    {"allowed_origins", OPT_STRINGS, offsetof(struct cors_config, allowed_origins), NULL,
     "origins that may send from a browser; * is a wildcard"},
    {"allowed_headers", OPT_STRINGS, offsetof(struct cors_config, allowed_headers), NULL, "allowed request headers"},
    {"exposed_headers", OPT_IGNORED, 0, NULL, "responses have no headers to expose"},
    {"max_age", OPT_INT, offsetof(struct cors_config, max_age), "0",
     "seconds that browsers may cache preflight responses"},
    {0},
};

static const struct option http_options[] = {
    {"endpoint", OPT_STRING, offsetof(struct http_config, endpoint), "localhost:4318", "address to listen on"},
    {"max_request_body_size", OPT_SIZE, offsetof(struct http_config, max_request_body_size), "20MiB",
     "maximum size of a request after decompression"},
    {"traces_url_path", OPT_STRING, offsetof(struct http_config, traces_url_path), "/v1/traces", "URL path for traces"},
    {"metrics_url_path", OPT_STRING, offsetof(struct http_config, metrics_url_path), "/v1/metrics",
     "URL path for metrics"},
    {"logs_url_path", OPT_STRING, offsetof(struct http_config, logs_url_path), "/v1/logs", "URL path for logs"},
    {"tls", OPT_TABLE, offsetof(struct http_config, tls), NULL, "encryption", .table = tls_server_options,
     .present = offsetof(struct http_config, has_tls)},
    {"auth", OPT_TABLE, offsetof(struct http_config, auth), NULL, "authenticator extension", .table = auth_options,
     .present = offsetof(struct http_config, has_auth)},
    {"cors", OPT_TABLE, offsetof(struct http_config, cors), NULL, "CORS settings for browsers", .table = cors_options},
    {"include_metadata", OPT_BOOL, offsetof(struct http_config, include_metadata), "false",
     "pass request headers to processors"},
    {"compression_algorithms", OPT_IGNORED, 0, NULL, "gzip, zstd, deflate and none are always accepted"},
    {"response_headers", OPT_IGNORED, 0, NULL, "no headers are added"},
    {"read_timeout", OPT_IGNORED, 0, NULL, "the limit is 30 s plus the time the body takes at 16 KiB/s"},
    {"read_header_timeout", OPT_IGNORED, 0, NULL, "10 s"},
    {"write_timeout", OPT_IGNORED, 0, NULL, "60 s"},
    {"idle_timeout", OPT_IGNORED, 0, NULL, "10 minutes"},
    {"keep_alives_enabled", OPT_IGNORED, 0, NULL, "always"},
    {"transport", OPT_IGNORED, 0, NULL, "tcp; for a unix socket use endpoint: unix:/path"},
    {"middlewares", OPT_IGNORED, 0, NULL, "no middleware is available"},
    {0},
};

static const struct option protocol_options[] = {
    {"grpc", OPT_TABLE, offsetof(struct protocols_config, grpc), NULL, "OTLP/gRPC", .table = grpc_options,
     .present = offsetof(struct protocols_config, has_grpc)},
    {"http", OPT_TABLE, offsetof(struct protocols_config, http), NULL, "OTLP/HTTP, protobuf and JSON",
     .table = http_options, .present = offsetof(struct protocols_config, has_http)},
    {0},
};

static const struct option options[] = {
    {"protocols", OPT_TABLE, offsetof(struct otlp_receiver_config, protocols), NULL, "protocols to receive",
     .table = protocol_options, .required = true},
    {"keep_empty_profile_ids", OPT_BOOL, offsetof(struct otlp_receiver_config, keep_empty_profile_ids), "false",
     "do not add an id to profiles without one"},
    {0},
};

static void handle_grpc(void *arg, struct http_request *q)
{
    otlp_service_grpc(&((struct otlp_receiver *) arg)->grpc, q);
}

/* "*" in a pattern matches anything. */
static bool origin_matches(struct str pattern, struct str origin)
{
    ptrdiff_t star = str_find_char(pattern, '*');

    if (star < 0)
        return str_eq(pattern, origin);
    return origin.n + 1 >= pattern.n && str_starts(origin, str_slice(pattern, 0, (size_t) star)) &&
           str_ends(origin, str_slice(pattern, (size_t) star + 1, pattern.n));
}

/* Adds CORS headers if the origin is allowed; true if the request was a preflight and has been answered. */
static bool cors(const struct cors_config *c, struct http_request *q)
{
    struct str origin = http_headers_get(&q->headers, "origin");
    char age[24];
    bool allowed = false;

    for (uint32_t i = 0; i < c->allowed_origins.n && origin.n; i++)
        allowed |= origin_matches(str_from(c->allowed_origins.v[i]), origin);
    if (!allowed)
        return false;
    http_add_header(q, "access-control-allow-origin", origin);
    http_add_header(q, "vary", STR("Origin"));
    if (!str_is(q->method, "OPTIONS") || !http_headers_has(&q->headers, "access-control-request-method"))
        return false;
    http_add_header(q, "access-control-allow-methods", STR("POST"));
    http_add_header(q, "access-control-allow-headers", STR("content-type, content-encoding"));
    for (uint32_t i = 0; i < c->allowed_headers.n; i++)
        http_add_header(q, "access-control-allow-headers", str_from(c->allowed_headers.v[i]));
    if (c->max_age > 0) {
        snprintf(age, sizeof age, "%lld", (long long) c->max_age);
        http_add_header(q, "access-control-max-age", str_from(age));
    }
    http_reply(q, 204, NULL, (struct str){0});
    return true;
}

static void handle_http(void *arg, struct http_request *q)
{
    struct otlp_receiver *o = arg;

    if (!cors(&o->config->protocols.http.cors, q))
        otlp_service_http(&o->http, q);
}

static int start(struct instance *i, struct err *e)
{
    struct otlp_receiver *o = container_of(i, struct otlp_receiver, instance);
    const struct protocols_config *c = &o->config->protocols;
    int r = 0;

    if (c->has_grpc && c->grpc.has_tls)
        r = settings_tls_server(&c->grpc.tls, true, false, &o->grpc_tls, e);
    if (r == 0 && c->has_http && c->http.has_tls)
        r = settings_tls_server(&c->http.tls, true, true, &o->http_tls, e);
    settings_tls_reload(&o->grpc_reload, &c->grpc.tls, o->grpc_tls, loop_group_at(o->host->loops, 0));
    settings_tls_reload(&o->http_reload, &c->http.tls, o->http_tls, loop_group_at(o->host->loops, 0));
    if (r == 0 && c->has_grpc) { /* the transport's limit is higher, so that gRPC can report the error */
        struct listener_options lo = {i->id,
                                      c->grpc.endpoint,
                                      o->grpc_tls,
                                      handle_grpc,
                                      o,
                                      MAX(o->grpc.max_message * 2, (size_t) 64 << 20),
                                      (unsigned) c->grpc.max_concurrent_streams};

        r = listener_start(o->host, &lo, &o->grpc_server, e);
    }
    if (r == 0 && c->has_http) {
        struct listener_options lo = {i->id, c->http.endpoint, o->http_tls, handle_http, o, o->http.max_message, 0};

        r = listener_start(o->host, &lo, &o->http_server, e);
    }
    return r;
}

static void stop(struct instance *i)
{
    struct otlp_receiver *o = container_of(i, struct otlp_receiver, instance);

    listener_stop(TAKE(o->grpc_server));
    listener_stop(TAKE(o->http_server));
}

static void free_instance(struct instance *i)
{
    struct otlp_receiver *o = container_of(i, struct otlp_receiver, instance);

    stop(i);
    tls_context_free(o->grpc_tls);
    tls_context_free(o->http_tls);
    mem_free(o);
}

static int set_auth(struct otlp_receiver *o, struct otlp_service *s, bool has, const struct auth_config *c,
                    struct err *e)
{
    int r;

    if (!has)
        return 0;
    r = host_extension(o->host, c->authenticator, "authenticator", &s->auth, e);
    return r < 0 ? r : auth_of(s->auth, &s->auth_api, e);
}

static int create(const struct component_args *args, struct instance **ret, struct err *e)
{
    const struct otlp_receiver_config *c = args->config;
    const struct protocols_config *p = &c->protocols;
    struct otlp_receiver *o = mem_zalloc(sizeof *o);
    int r;

    if (!o)
        return -ENOMEM;
    o->config = c;
    o->host = args->host;
    memcpy(o->grpc.next, args->next, sizeof o->grpc.next);
    o->grpc.keep_empty_ids = c->keep_empty_profile_ids;
    o->http = o->grpc;
    o->grpc.max_message = (size_t) p->grpc.max_recv_msg_size_mib << 20;
    o->grpc.include_metadata = p->grpc.include_metadata;
    o->http.max_message = (size_t) p->http.max_request_body_size;
    o->http.include_metadata = p->http.include_metadata;
    o->http.http_paths[SIGNAL_TRACES] = p->http.traces_url_path;
    o->http.http_paths[SIGNAL_METRICS] = p->http.metrics_url_path;
    o->http.http_paths[SIGNAL_LOGS] = p->http.logs_url_path;
    otlp_service_metrics(&o->grpc, args->host->metrics, args->id, "grpc");
    otlp_service_metrics(&o->http, args->host->metrics, args->id, "http");
    o->instance = (struct instance){.id = args->id, .start = start, .stop = stop, .free = free_instance};
    r = set_auth(o, &o->grpc, p->grpc.has_auth, &p->grpc.auth, e);
    if (r == 0)
        r = set_auth(o, &o->http, p->http.has_auth, &p->http.auth, e);
    if (r < 0) {
        free_instance(&o->instance);
        return r;
    }
    *ret = &o->instance;
    return 0;
}

static int check(const void *config, const struct conf_node *node, struct err *e)
{
    const struct protocols_config *p = &((const struct otlp_receiver_config *) config)->protocols;

    if (!p->has_grpc && !p->has_http)
        return conf_error(node, -EINVAL, e, "'protocols' requires grpc, http or both");
    if (p->grpc.max_recv_msg_size_mib <= 0 || p->grpc.max_recv_msg_size_mib > 1024)
        return conf_error(node, -EINVAL, e, "'max_recv_msg_size_mib' must be between 1 and 1024");
    if (p->http.max_request_body_size <= 0)
        return conf_error(node, -EINVAL, e, "'max_request_body_size' must be positive");
    return 0;
}

const struct component component_otlp_receiver = {
    .kind = COMPONENT_RECEIVER,
    .name = "otlp",
    .help = "OTLP over gRPC and HTTP",
    .signals = ALL_SIGNALS,
    .options = options,
    .config_size = sizeof(struct otlp_receiver_config),
    .check = check,
    .create = create,
};
