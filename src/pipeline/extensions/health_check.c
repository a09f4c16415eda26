/* SPDX-License-Identifier: Apache-2.0 */
/* `health_check`: responds with 200 while the collector is running. */
#include <errno.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "pipeline/graph/component.h"
#include "pipeline/graph/host.h"
#include "pipeline/graph/listener.h"
#include "pipeline/graph/settings.h"

struct health_config {
    const char *endpoint, *path;
    struct tls_config tls;
    bool has_tls;
};

struct health {
    struct instance instance;
    const struct health_config *config;
    struct host *host;
    struct http_server *server;
    struct tls_context *tls;
    int64_t since;
};

static const struct option options[] = {
    {"endpoint", OPT_STRING, offsetof(struct health_config, endpoint), "localhost:13133", "address to listen on"},
    {"path", OPT_STRING, offsetof(struct health_config, path), "/", "path to respond to"},
    {"tls", OPT_TABLE, offsetof(struct health_config, tls), NULL, "encryption", .table = tls_server_options,
     .present = offsetof(struct health_config, has_tls)},
    {"response_body", OPT_IGNORED, 0, NULL, "the response body is fixed"},
    {"check_collector_pipeline", OPT_IGNORED, 0, NULL, "also deprecated in the Collector"},
    {0},
};

static void handle(void *arg, struct http_request *q)
{
    struct health *h = arg;
    int64_t up = clock_wall() - h->since;

    if (!str_is(q->path, h->config->path)) {
        http_reply_text(q, 404, "404 page not found\n");
        return;
    }
    buf_puts(&q->answer, "{\"status\":\"Server available\",\"upSince\":\"");
    clock_format(&q->answer, h->since);
    buf_printf(&q->answer, "\",\"uptime\":\"%.3fs\"}", (double) up / 1e9);
    http_add_header(q, "content-type", STR("application/json"));
    http_finish(q);
}

static int start(struct instance *i, struct err *e)
{
    struct health *h = container_of(i, struct health, instance);
    struct listener_options o = {i->id, h->config->endpoint, NULL, handle, h, 4096, 0};
    int r = 0;

    if (h->config->has_tls)
        r = settings_tls_server(&h->config->tls, true, true, &h->tls, e);
    o.tls = h->tls;
    h->since = clock_wall();
    return r < 0 ? r : listener_start(h->host, &o, &h->server, e);
}

static void stop(struct instance *i)
{
    listener_stop(TAKE(container_of(i, struct health, instance)->server));
}

static void free_instance(struct instance *i)
{
    struct health *h = container_of(i, struct health, instance);

    stop(i);
    tls_context_free(h->tls);
    mem_free(h);
}

static int create(const struct component_args *args, struct instance **ret, struct err *e)
{
    struct health *h = mem_zalloc(sizeof *h);

    (void) e;
    if (!h)
        return -ENOMEM;
    h->config = args->config;
    h->host = args->host;
    h->instance = (struct instance){.id = args->id, .start = start, .stop = stop, .free = free_instance};
    *ret = &h->instance;
    return 0;
}

const struct component component_health_check_extension = {
    .kind = COMPONENT_EXTENSION,
    .name = "health_check",
    .help = "responds with 200 while the collector is running",
    .options = options,
    .config_size = sizeof(struct health_config),
    .create = create,
};
