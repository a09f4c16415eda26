/* SPDX-License-Identifier: Apache-2.0 */
/* `pyroscope`: listens for Pyroscope's clients (pyroscope_service.h). */
#include <errno.h>

#include "base/mem.h"
#include "pipeline/graph/component.h"
#include "pipeline/graph/host.h"
#include "pipeline/graph/listener.h"
#include "pipeline/graph/settings.h"
#include "pipeline/receivers/pyroscope_service.h"

struct pyroscope_http {
    const char *endpoint;
    int64_t max_request_body_size;
    struct tls_config tls;
    bool has_tls;
};

struct pyroscope_protocols {
    struct pyroscope_http http;
};

struct pyroscope_config {
    struct pyroscope_protocols protocols;
};

struct pyroscope_receiver {
    struct instance instance;
    const struct pyroscope_config *config;
    struct host *host;
    struct pyroscope_service service;
    struct http_server *server;
    struct tls_context *tls;
};

static const struct option http_options[] = {
    {"endpoint", OPT_STRING, offsetof(struct pyroscope_http, endpoint), "localhost:4040", "address to listen on"},
    {"max_request_body_size", OPT_SIZE, offsetof(struct pyroscope_http, max_request_body_size), "64MiB",
     "maximum size of a request after decompression"},
    {"tls", OPT_TABLE, offsetof(struct pyroscope_http, tls), NULL, "encryption", .table = tls_server_options,
     .present = offsetof(struct pyroscope_http, has_tls)},
    {0},
};

static const struct option protocol_options[] = {
    {"http", OPT_TABLE, offsetof(struct pyroscope_protocols, http), NULL, "/ingest and push.v1", .table = http_options},
    {0},
};

static const struct option options[] = {
    {"protocols", OPT_TABLE, offsetof(struct pyroscope_config, protocols), NULL, "protocols to receive",
     .table = protocol_options},
    {0},
};

static void handle(void *arg, struct http_request *q)
{
    pyroscope_service_handle(&((struct pyroscope_receiver *) arg)->service, q);
}

static int start(struct instance *i, struct err *e)
{
    struct pyroscope_receiver *p = container_of(i, struct pyroscope_receiver, instance);
    const struct pyroscope_http *c = &p->config->protocols.http;
    struct listener_options o = {i->id, c->endpoint, NULL, handle, p, (size_t) c->max_request_body_size, 0};
    int r = 0;

    if (c->has_tls)
        r = settings_tls_server(&c->tls, true, true, &p->tls, e);
    o.tls = p->tls;
    return r < 0 ? r : listener_start(p->host, &o, &p->server, e);
}

static void stop(struct instance *i)
{
    listener_stop(TAKE(container_of(i, struct pyroscope_receiver, instance)->server));
}

static void free_instance(struct instance *i)
{
    struct pyroscope_receiver *p = container_of(i, struct pyroscope_receiver, instance);

    stop(i);
    tls_context_free(p->tls);
    mem_free(p);
}

static int create(const struct component_args *args, struct instance **ret, struct err *e)
{
    struct pyroscope_receiver *p = mem_zalloc(sizeof *p);
    struct metrics *m = args->host->metrics;

    (void) e;
    if (!p)
        return -ENOMEM;
    p->config = args->config;
    p->host = args->host;
    p->service.sink = args->next[SIGNAL_PROFILES];
    p->service.max_inflated = (size_t) p->config->protocols.http.max_request_body_size;
    p->service.accepted = metrics_add(m, METRIC_COUNTER, "otelcol_receiver_accepted_profile_samples", "Items received",
                                      "receiver=\"%s\",transport=\"http\"", args->id);
    p->service.refused = metrics_add(m, METRIC_COUNTER, "otelcol_receiver_refused_profile_samples",
                                     "Items refused by the pipeline", "receiver=\"%s\",transport=\"http\"", args->id);
    p->instance = (struct instance){.id = args->id, .start = start, .stop = stop, .free = free_instance};
    *ret = &p->instance;
    return 0;
}

const struct component component_pyroscope_receiver = {
    .kind = COMPONENT_RECEIVER,
    .name = "pyroscope",
    .help = "receives from Pyroscope's clients: /ingest and push.v1",
    .signals = ONLY_PROFILES,
    .options = options,
    .config_size = sizeof(struct pyroscope_config),
    .create = create,
};
