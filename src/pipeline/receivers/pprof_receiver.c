/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pprof`: continuously scrapes /debug/pprof of many targets (scrape_target.h, scrape_discovery.h), and accepts
 * profiles that are posted to /v1/pprof. Scraping has a loop of its own; discovery, which may block, has a separate
 * thread.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "codec/input.h"
#include "model/batch.h"
#include "model/sink.h"
#include "net/encoding.h"
#include "net/loop.h"
#include "pipeline/graph/component.h"
#include "pipeline/graph/host.h"
#include "pipeline/graph/listener.h"
#include "pipeline/graph/settings.h"
#include "pipeline/receivers/received.h"
#include "pipeline/receivers/scrape_discovery.h"

struct endpoint_config {
    const char *endpoint;
};

struct pprof_receiver_config {
    char first; /* keeps offset 0 free, which means "no presence flag" */
    bool has_server, has_remote;
    struct scrape_config scrape;
    struct discovery_config discovery;
    int64_t refresh_interval, max_body;
    struct tls_config tls;
    struct endpoint_config server, remote;
};

struct pprof_receiver {
    struct instance instance;
    const struct pprof_receiver_config *config;
    struct host *host;
    struct sink *next;
    struct scrape_env env;
    struct http_server *server;
    struct tls_context *tls;
    struct loop_group *group;
    pthread_t thread;
    bool discovering;
    int stop_fd;
    struct scrape_target *targets[SCRAPE_TARGETS_MAX];
    uint32_t n;
};

#define TYPE(type, on, path_, seconds_, interval_)                                                                 \
    static const struct option type##_options[] = {                                                                \
        {"enabled", OPT_BOOL, offsetof(struct scrape_type_config, enabled), on, "whether to scrape this profile"}, \
        {"path", OPT_STRING, offsetof(struct scrape_type_config, path), path_, "URL path"},                        \
        {"seconds", OPT_DURATION, offsetof(struct scrape_type_config, seconds), seconds_, "duration to sample"},   \
        {"interval", OPT_DURATION, offsetof(struct scrape_type_config, interval), interval_,                       \
         "scrape interval; 0: that of the receiver"},                                                              \
        {0},                                                                                                       \
    }
TYPE(cpu, "true", "/debug/pprof/profile", "10s", "0s");
TYPE(heap, "true", "/debug/pprof/heap", "0s", "0s");
TYPE(allocs, "false", "/debug/pprof/allocs", "0s", "0s");
TYPE(mutex, "true", "/debug/pprof/mutex", "0s", "0s");
TYPE(block, "true", "/debug/pprof/block", "0s", "0s");
TYPE(goroutine, "true", "/debug/pprof/goroutine", "0s", "0s");

#define TYPE_OPTION(name, index, help)                                                                      \
    {                                                                                                       \
#name, OPT_TABLE, offsetof(struct scrape_config, types[index]), NULL, help, .table = name##_options \
    }

static const struct option profile_options[] = {
    TYPE_OPTION(cpu, SCRAPE_CPU, "CPU, sampled continuously"),
    TYPE_OPTION(heap, SCRAPE_HEAP, "memory in use, and allocations since the last scrape"),
    TYPE_OPTION(allocs, SCRAPE_ALLOCS, "allocations since the last scrape (also part of heap)"),
    TYPE_OPTION(mutex, SCRAPE_MUTEX, "lock contention since the last scrape"),
    TYPE_OPTION(block, SCRAPE_BLOCK, "blocking since the last scrape"),
    TYPE_OPTION(goroutine, SCRAPE_GOROUTINE, "current goroutines"),
    {0},
};

static const struct option target_options[] = {
    {"endpoint", OPT_STRING, offsetof(struct static_target_config, endpoint), NULL, "host:port or URL",
     .required = true},
    {"labels", OPT_MAP, offsetof(struct static_target_config, labels), NULL, "resource attributes"},
    {0},
};

static const struct option kubernetes_options[] = {
    {"api_server", OPT_STRING, offsetof(struct kubernetes_config, api.server), NULL,
     "URL; in-cluster: that of the cluster that wick runs in", .required = true},
    {"token_file", OPT_STRING, offsetof(struct kubernetes_config, api.token_file), NULL, "file with a bearer token"},
    {"ca_file", OPT_STRING, offsetof(struct kubernetes_config, api.ca_file), NULL, "file with CA certificates"},
    {"namespace", OPT_STRING, offsetof(struct kubernetes_config, api.namespace_name), NULL,
     "only pods in this namespace"},
    {"annotation_prefix", OPT_STRING, offsetof(struct kubernetes_config, annotation_prefix), NULL,
     "annotations are PREFIX/scrape, PREFIX/port, PREFIX/cpu.scrape ...; default: wick.dev and profiles.grafana.com"},
    {"node_from_env_var", OPT_STRING, offsetof(struct kubernetes_config, node_from_env_var), NULL,
     "environment variable with the name of the node whose pods are scraped"},
    {0},
};

static const struct option endpoint_options[] = {
    {"endpoint", OPT_STRING, offsetof(struct endpoint_config, endpoint), NULL, "address or URL", .required = true},
    {0},
};

static const struct option options[] = {
    {"targets", OPT_TABLES, offsetof(struct pprof_receiver_config, discovery.targets), NULL, "targets to scrape",
     .table = target_options, .size = sizeof(struct static_target_config)},
    {"files", OPT_STRINGS, offsetof(struct pprof_receiver_config, discovery.files), NULL,
     "files with [{targets, labels}], reread periodically; may contain wildcards"},
    {"kubernetes", OPT_TABLE, offsetof(struct pprof_receiver_config, discovery.kubernetes), NULL,
     "pods selected by annotations", .table = kubernetes_options,
     .present = offsetof(struct pprof_receiver_config, discovery.has_kubernetes)},
    {"refresh_interval", OPT_DURATION, offsetof(struct pprof_receiver_config, refresh_interval), "30s",
     "interval for refreshing the targets"},
    {"profiles", OPT_TABLE, offsetof(struct pprof_receiver_config, scrape), NULL, "profiles to scrape",
     .table = profile_options},
    {"interval", OPT_DURATION, offsetof(struct pprof_receiver_config, scrape.interval), "10s", "scrape interval"},
    {"collection_interval", OPT_DURATION, offsetof(struct pprof_receiver_config, scrape.interval), "10s",
     "same as interval"},
    {"initial_delay", OPT_DURATION, offsetof(struct pprof_receiver_config, scrape.initial_delay), "1s",
     "delay before the first scrape"},
    {"timeout", OPT_DURATION, offsetof(struct pprof_receiver_config, scrape.timeout), "10s",
     "timeout of a scrape, in addition to its seconds"},
    {"allow_link_local", OPT_BOOL, offsetof(struct pprof_receiver_config, scrape.allow_link_local), "false",
     "also scrape 169.254.0.0/16 and fe80::/10"},
    {"name_from_program", OPT_BOOL, offsetof(struct pprof_receiver_config, scrape.name_from_program), "false",
     "take service.name from /debug/pprof/cmdline unless the labels have one; skip profiles that a target lacks"},
    {"bearer_token", OPT_STRING, offsetof(struct pprof_receiver_config, scrape.token), NULL,
     "headers sent to every target", .secret = true},
    {"tls", OPT_TABLE, offsetof(struct pprof_receiver_config, tls), NULL, "TLS settings for https targets",
     .table = tls_client_options},
    {"max_body", OPT_SIZE, offsetof(struct pprof_receiver_config, max_body), "64MiB",
     "maximum size of a profile after decompression"},
    {"remote", OPT_TABLE, offsetof(struct pprof_receiver_config, remote), NULL, "one URL, requested unchanged",
     .table = endpoint_options, .present = offsetof(struct pprof_receiver_config, has_remote)},
    {"server", OPT_TABLE, offsetof(struct pprof_receiver_config, server), NULL, "receive profiles by POST /v1/pprof",
     .table = endpoint_options, .present = offsetof(struct pprof_receiver_config, has_server)},
    {0},
};

/* --- the loop: adding and removing targets --- */

struct update {
    struct loop_call call;
    struct pprof_receiver *p;
    struct scrape_list *list;
};

static bool dump_there(const struct scrape_target *t, const struct scrape_list *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (scrape_target_is(t, &l->v[i]))
            return true;
    return false;
}

static bool known(const struct pprof_receiver *p, const struct scrape_spec *s)
{
    for (uint32_t i = 0; i < p->n; i++)
        if (scrape_target_is(p->targets[i], s))
            return true;
    return false;
}

static void apply_update(struct loop_call *call)
{
    struct update *u = container_of(call, struct update, call);
    struct pprof_receiver *p = u->p;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < p->n; i++) {
        if (dump_there(p->targets[i], u->list))
            p->targets[kept++] = p->targets[i];
        else
            scrape_target_free(p->targets[i]);
    }
    p->n = kept;
    for (uint32_t i = 0; i < u->list->n && p->n < SCRAPE_TARGETS_MAX; i++) {
        struct err e = {0};

        if (known(p, &u->list->v[i]))
            continue;
        if (scrape_target_new(&p->env, &u->list->v[i], &p->targets[p->n], &e) < 0)
            log_warn("%s: %s", p->instance.id, e.message);
        else
            p->n++;
    }
    scrape_list_free(u->list);
    mem_free(u);
}

static void free_targets(struct loop_call *call)
{
    struct update *u = container_of(call, struct update, call);

    for (uint32_t i = 0; i < u->p->n; i++)
        scrape_target_free(u->p->targets[i]);
    u->p->n = 0;
    mem_free(u);
}

static void post(struct pprof_receiver *p, struct scrape_list *list, void (*run)(struct loop_call *c))
{
    struct update *u = mem_zalloc(sizeof *u);

    if (u)
        *u = (struct update){{.run = run}, p, list};
    if (!u || loop_post(p->env.loop, &u->call) < 0) {
        scrape_list_free(list);
        mem_free(u);
    }
}

/* --- discovery --- */

static void warn(void *arg, const char *message)
{
    struct pprof_receiver *p = arg;

    log_warn("%s: %s", p->instance.id, message);
}

static void *discover(void *arg)
{
    struct pprof_receiver *p = arg;
    const struct pprof_receiver_config *c = p->config;
    bool changing = c->discovery.files.n || c->discovery.has_kubernetes;
    struct pollfd pfd = {.fd = p->stop_fd, .events = POLLIN};

    for (;;) {
        struct scrape_list *l = NULL;

        if (scrape_discover(&c->discovery, c->has_remote ? c->remote.endpoint : NULL, &l, warn, p) == 0)
            post(p, l, apply_update);
        if (poll(&pfd, 1, changing ? (int) (c->refresh_interval / NS_PER_MS) : -1) > 0)
            return NULL;
    }
}

/* --- POST /v1/pprof --- */

struct posted {
    struct ack ack;
    struct http_request *q;
};

static void posted_done(struct ack *a, const struct ack_result *r)
{
    struct posted *x = container_of(a, struct posted, ack);

    if (r->status == SINK_OK)
        http_reply(x->q, 204, NULL, (struct str){0});
    else
        http_reply_text(x->q, sink_status_retryable(r) ? 503 : 400, "%s\n", r->message);
}

static int take_posted(struct pprof_receiver *p, struct http_request *q, struct batch **ret, struct err *e)
{
    _cleanup_(buf_done) struct buf inflated = BUF_INIT;
    struct input_limits limits = {.inflated = (size_t) p->config->max_body};
    struct received meta = {.time_ns = clock_wall()};
    struct batch *b = NULL;
    struct str body;
    int r = http_decode_body(q, (size_t) p->config->max_body, &inflated, &body, e);

    if (r == 0 && !inflated.n)
        buf_put_str(&inflated, body);
    if (r == 0)
        r = buf_error(&inflated) ? buf_error(&inflated) : input_decode(&inflated, INPUT_AUTO, &limits, &b, NULL, e);
    return r < 0 ? r : received_finish(b, &meta, ret, e);
}

static void handle(void *arg, struct http_request *q)
{
    struct pprof_receiver *p = arg;
    struct posted *x = arena_zalloc(&q->arena, sizeof *x);
    struct sink_context ctx = {.tenant = "", .peer = q->peer, .received_ns = clock_wall()};
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    struct err e = {0};
    int r;

    if (!str_is(q->path, "/v1/pprof")) {
        http_reply_text(q, 404, "404 page not found\n");
        return;
    }
    if (!str_is(q->method, "POST") || !x) {
        http_reply_text(q, x ? 405 : 503, "POST a profile here\n");
        return;
    }
    r = take_posted(p, q, &b, &e);
    if (r < 0) {
        http_reply_text(q, r == -EFBIG ? 413 : 400, "%s\n", err_message(&e, r));
        return;
    }
    *x = (struct posted){{posted_done}, q};
    metric_add(p->env.scraped, b->n_samples);
    sink_consume(p->next, b, &ctx, &x->ack);
}

/* --- life --- */

static int start_scraping(struct pprof_receiver *p, struct err *e)
{
    int r = settings_tls_client(&p->config->tls, false, true, &p->tls, e);

    if (r == 0)
        r = loop_group_new(1, "scrape", &p->group, e);
    if (r < 0)
        return r;
    p->env.loop = loop_group_at(p->group, 0);
    p->env.tls = p->tls;
    p->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (p->stop_fd < 0)
        return err_set(e, -errno, "cannot create an eventfd: %m");
    r = thread_start(&p->thread, "discover", discover, p, e);
    p->discovering = r == 0;
    return r;
}

static bool has_targets(const struct pprof_receiver_config *c)
{
    return c->discovery.targets.n || c->discovery.files.n || c->discovery.has_kubernetes || c->has_remote;
}

static int start(struct instance *i, struct err *e)
{
    struct pprof_receiver *p = container_of(i, struct pprof_receiver, instance);
    struct listener_options o = {i->id, p->config->server.endpoint, NULL, handle, p, (size_t) p->config->max_body, 0};
    int r = 0;

    if (p->config->has_server)
        r = listener_start(p->host, &o, &p->server, e);
    if (r == 0 && has_targets(p->config))
        r = start_scraping(p, e);
    return r;
}

static void stop(struct instance *i)
{
    struct pprof_receiver *p = container_of(i, struct pprof_receiver, instance);
    uint64_t one = 1;

    listener_stop(TAKE(p->server));
    if (p->discovering) {
        if (write(p->stop_fd, &one, sizeof one) < 0)
            log_warn("%s: cannot stop the discovery thread", i->id);
        pthread_join(p->thread, NULL);
        p->discovering = false;
    }
    if (p->group) {
        post(p, NULL, free_targets);
        loop_group_free(TAKE(p->group));
    }
}

static void free_instance(struct instance *i)
{
    struct pprof_receiver *p = container_of(i, struct pprof_receiver, instance);

    stop(i);
    fd_close(p->stop_fd);
    tls_context_free(p->tls);
    mem_free(p);
}

static int create(const struct component_args *args, struct instance **ret, struct err *e)
{
    struct pprof_receiver *p = mem_zalloc(sizeof *p);
    struct metrics *m = args->host->metrics;

    (void) e;
    if (!p)
        return -ENOMEM;
    p->config = args->config;
    p->host = args->host;
    p->next = args->next[SIGNAL_PROFILES];
    p->stop_fd = -1;
    p->env = (struct scrape_env){.config = &p->config->scrape, .sink = args->next[SIGNAL_PROFILES], .id = args->id};
    p->env.scraped = metrics_add(m, METRIC_COUNTER, "otelcol_scraper_scraped_profile_records", "Samples scraped",
                                 "receiver=\"%s\"", args->id);
    p->env.failed = metrics_add(m, METRIC_COUNTER, "otelcol_scraper_errored_profile_records", "Scrapes that failed",
                                "receiver=\"%s\"", args->id);
    p->instance = (struct instance){.id = args->id, .start = start, .stop = stop, .free = free_instance};
    *ret = &p->instance;
    return 0;
}

static int check(const void *config, const struct conf_node *node, struct err *e)
{
    struct pprof_receiver_config *c =
        (struct pprof_receiver_config *) config; /* sets defaults that depend on other options */

    if (!has_targets(c) && !c->has_server)
        return conf_error(node, -EINVAL, e, "one of targets, files, kubernetes, remote, server is required");
    if (c->scrape.interval <= 0 || c->refresh_interval <= 0)
        return conf_error(node, -EINVAL, e, "intervals must be greater than zero");
    c->scrape.max_inflated = (size_t) c->max_body;
    c->discovery.allow_link_local = c->scrape.allow_link_local;
    return 0;
}

const struct component component_pprof_receiver = {
    .kind = COMPONENT_RECEIVER,
    .name = "pprof",
    .help = "scrapes /debug/pprof of many targets; receives POST /v1/pprof",
    .signals = ONLY_PROFILES,
    .options = options,
    .config_size = sizeof(struct pprof_receiver_config),
    .check = check,
    .create = create,
};
