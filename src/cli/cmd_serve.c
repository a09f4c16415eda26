/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick serve: store, OTLP, API in one process. Order of starting: store, then listeners; of stopping: listeners (requests
 * under way are answered), workers, store. A port that is taken does not stop the rest: the API takes the next one, OTLP
 * is off with a line that says so.
 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "host/agent_config.h"
#include "host/agent_feed.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/paths.h"
#include "serve/serve_intake.h"
#include "serve/serve_load.h"
#include "serve/serve_names.h"
#include "serve/serve_pipelines.h"
#include "serve/serve_rights.h"
#include "serve/serve_self.h"
#include "conf/yaml.h"
#include "net/address.h"
#include "net/tls.h"
#include "server/api.h"
#include "server/binary_store.h"
#include "server/front.h"
#include "server/pid_profiler.h"
#include "server/senders.h"
#include "server/serve_config.h"
#include "server/ui_info.h"
#include "store/store.h"

enum { PORT_TRIES = 20, QUEUE_MAX = 256 };
#define STOP_GRACE (1500 * NS_PER_MS)

static const struct arg serve_args[] = {
    {'c', "config", ARG_LIST, offsetof(struct serve_args, config), "FILE", "wick.yaml; repeatable, later wins"},
    {0, "set", ARG_LIST, offsetof(struct serve_args, set), "KEY=VALUE", "one more value, as in retention.keep=7d"},
    {0, "store", ARG_STRING, offsetof(struct serve_args, store), "DIR", "where profiles are kept; 'memory' keeps none"},
    {0, "http", ARG_STRING, offsetof(struct serve_args, http), "ADDR", "API and UI (default 127.0.0.1:4040)"},
    {0, "otlp-grpc", ARG_STRING, offsetof(struct serve_args, otlp_grpc), "ADDR",
     "OTLP/gRPC (default 127.0.0.1:4317; off)"},
    {0, "otlp-http", ARG_STRING, offsetof(struct serve_args, otlp_http), "ADDR",
     "OTLP/HTTP (default 127.0.0.1:4318; off)"},
    {0, "insecure", ARG_FLAG, offsetof(struct serve_args, insecure), NULL,
     "listen beyond loopback without TLS and a token"},
    {0, "no-agent", ARG_FLAG, offsetof(struct serve_args, no_agent), NULL,
     "do not sample this machine (or: WICK_NO_AGENT=1)"},
    {0, "check", ARG_FLAG, offsetof(struct serve_args, check), NULL, "check the configuration and exit"},
    {0, "print-reference", ARG_FLAG, offsetof(struct serve_args, reference), NULL, "print all options of wick.yaml"},
    {'h', "help", ARG_FLAG, offsetof(struct serve_args, help), NULL, "this text"},
    {0},
};

/* Everything that runs. Freed in the order of serve_stop(). */
struct serve {
    struct serve_args *args;
    struct serve_load first, *again; /* as it started; as it was read last, NULL if never again */
    struct serve_config config;      /* of first */
    struct flow *pipelines;
    struct agent_feed *agent; /* a child of ours with rights that we give up; NULL: none */
    struct serve_rights rights;
    char data_dir[PATH_SIZE], store_dir[PATH_SIZE];
    const char *token_file, *reached_store; /* as this process reaches them */
    struct arena paths;
    struct store *store;
    struct serve_names names;
    struct auth *auth;
    struct workers *workers;
    struct loop_group *loops;
    struct front *front;
    struct serve_intake *intake;
    struct senders *senders;
    struct ui_info ui;
    struct pid_profiler pids;
    char otlp_grpc[256], otlp_http[256], otlp_note[1100];
    struct tls_context *tls;
    struct http_server *api, *grpc, *http;
    const char **hosts;
};

/* --- configuration --- */

static int find_dirs(struct serve *s, struct err *e)
{
    int r = 0;

    if (s->config.store.dir)
        snprintf(s->store_dir, sizeof s->store_dir, "%s", s->config.store.dir);
    else
        r = path_store_dir(s->store_dir, e);
    if (r == 0)
        r = path_data_dir(s->data_dir, e);
    if (r < 0)
        return r;
    s->token_file = s->config.auth.tokens;
    if (!s->token_file)
        s->token_file = arena_printf(&s->paths, "%s/tokens", s->data_dir);
    return s->token_file ? 0 : -ENOMEM;
}

/* --- what is listened on --- */

static bool is_off(const char *address)
{
    return !address || !address[0] || strcmp(address, "off") == 0;
}

/* 1 when every address that the text stands for is reached from this machine alone. */
static int is_loopback(const char *text, struct err *e)
{
    struct address all[8];
    struct address_parts parts;
    int n, r = address_split(text, NULL, &parts, e);

    if (r < 0)
        return r;
    n = address_resolve(&parts, all, ARRAY_SIZE(all), e);
    for (int i = 0; i < n; i++)
        if (!address_is_loopback(&all[i]))
            return 0;
    return n < 0 ? n : 1;
}

/* Nothing listens beyond loopback unless it is encrypted and asks for a token, or somebody said --insecure. */
static int check_exposure(const struct serve *s, struct err *e)
{
    const char *const addresses[] = {s->config.listen.http, s->config.listen.otlp_grpc, s->config.listen.otlp_http};

    for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
        int r = is_off(addresses[i]) ? 1 : is_loopback(addresses[i], e);

        if (r < 0)
            return r;
        if (r || s->config.listen.insecure)
            continue;
        if (!s->config.listen.tls.present)
            return err_set(e, -EPERM, "%s is not a loopback address: set listen.tls, or say --insecure", addresses[i]);
        if (!auth_required(s->auth))
            return err_set(e, -EPERM,
                           "%s is not a loopback address: make a token with 'wick token create', or say --insecure",
                           addresses[i]);
    }
    return 0;
}

static int start_tls(struct serve *s, struct err *e)
{
    const struct serve_tls *t = &s->config.listen.tls;
    struct tls_options o = {.cert_file = t->cert_file,
                            .key_file = t->key_file,
                            .ca_file = t->client_ca_file,
                            .require_client_cert = t->client_ca_file != NULL,
                            .http2 = true,
                            .http1 = true};

    return t->present ? tls_openssl.context_new(&o, true, &s->tls, e) : 0;
}

static int new_server(struct serve *s, bool (*begin)(void *, struct http_request *),
                      void (*handle)(void *, struct http_request *), void *arg, struct http_server **ret, struct err *e)
{
    struct loop *loops[64];
    struct http_server_options o = {
        .loops = loops, .tls = s->tls, .arg = arg, .begin = begin, .handle = handle, .identify_peers = true};

    for (unsigned i = 0; i < loop_group_size(s->loops) && i < ARRAY_SIZE(loops); i++)
        loops[o.n_loops++] = loop_group_at(s->loops, i);
    o.max_body = (size_t) s->config.limits.request;
    return http_server_new(&o, ret, e);
}

/* The address with the port that was really taken: 0 asks for any. */
static const char *bound_address(const char *asked, int port, char *out, size_t size)
{
    const char *colon = strrchr(asked, ':');

    if (port > 0 && colon)
        snprintf(out, size, "%.*s:%d", (int) (colon - asked), asked, port);
    else
        snprintf(out, size, "%s", asked);
    return out;
}

/* The API: the next port when the one asked for is taken. */
static int listen_api(struct serve *s, char *ret_address, size_t size, struct err *e)
{
    const char *asked = s->config.listen.http, *colon = strrchr(asked, ':');
    struct err first = {0};
    uint64_t port;
    int r, got;

    snprintf(ret_address, size, "%s", asked);
    r = http_server_listen(s->api, asked, &got, &first);
    if (r == 0 || r != -EADDRINUSE || !colon || str_to_u64(str_from(colon + 1), 10, &port) < 0) {
        *e = first;
        if (r == 0)
            bound_address(asked, got, ret_address, size);
        return r;
    }
    for (int i = 1; r == -EADDRINUSE && i < PORT_TRIES; i++) {
        snprintf(ret_address, size, "%.*s:%u", (int) (colon - asked), asked, (unsigned) port + (unsigned) i);
        r = http_server_listen(s->api, ret_address, &got, e);
    }
    if (r == 0)
        log_warn("%s; the API takes %s", first.message, ret_address);
    return r;
}

/* OTLP: off, with a line, when its port is taken. */
static const char *listen_otlp(struct serve *s, struct http_server *server, const char *name, const char *address,
                               char *bound, size_t size)
{
    struct err e = {0};
    int port = 0;

    if (is_off(address))
        return NULL;
    if (http_server_listen(server, address, &port, &e) < 0) {
        log_warn("%s is off: %s", name, e.message);
        snprintf(s->otlp_note, sizeof s->otlp_note, "%s is off: %s", name, e.message);
        s->ui.otlp_note = s->otlp_note;
        return NULL;
    }
    log_info("%s on %s", name, bound_address(address, port, bound, size));
    return bound;
}

/* --- start and stop --- */

/* What is kept, for how long. The strings stay the configuration's. */
static void put_retention(const struct serve_retention *r, struct store_config *ret)
{
    const struct serve_retention_service *services = r->services.v;

    ret->keep = r->keep;
    ret->keep_detail = r->detail;
    ret->keep_bytes = (uint64_t) r->size;
    for (uint32_t i = 0; i < r->services.n && ret->n_services < STORE_SERVICE_RULES_MAX; i++) {
        ret->services[ret->n_services].service = services[i].service;
        ret->services[ret->n_services++].keep = services[i].keep;
    }
}

static void log_store(void *ctx, const char *line)
{
    (void) ctx;
    log_warn("store: %s", line);
}

static int start_store(struct serve *s, struct err *e)
{
    const struct serve_config *c = &s->config;
    const struct store_ops *engine = store_engine(str_from(c->store.engine));
    struct store_config sc = {
        .dir = s->reached_store,
        .async = c->store.async,
        .memory = (size_t) c->store.memory,
        .cache = (size_t) c->store.cache,
        .tell = log_store,
    };
    static const char *const stamps[] = {"ns", "us", "ms", "off"};

    if (!engine)
        return err_set(e, -EINVAL, "store.engine: '%s' is not segment or memory", c->store.engine);
    for (size_t i = 0; i < ARRAY_SIZE(stamps); i++)
        if (strcmp(c->store.timestamps, stamps[i]) == 0)
            sc.timestamps = (enum store_timestamps) i;
    put_retention(&c->retention, &sc);
    return store_open(engine, &sc, &s->store, e);
}

/* Files with symbols live in the store's directory; a store in memory keeps none unless a directory is named. */
static int start_names(struct serve *s, struct err *e)
{
    const struct serve_symbols *c = &s->config.symbols;
    char dir[PATH_SIZE + 64];

    snprintf(dir, sizeof dir, "%s/binaries", s->reached_store);
    if (c->dir)
        snprintf(dir, sizeof dir, "%s", c->dir);
    return serve_names_start(&s->names, c, c->dir || strcmp(s->config.store.engine, "memory") != 0 ? dir : NULL,
                             s->store, e);
}

/* The server's own routes, each list in a file of its own. */
static int (*const mounts[])(struct front *f) = {
    api_mount_query,     api_mount_status, api_mount_profile, api_mount_mcp, api_mount_openapi, api_mount_symbols,
    api_mount_pyroscope, api_mount_render, api_mount_views,   api_mount_pid, api_mount_ui,
};

/* A path as this process reaches it once it has given up its rights. */
static int reach(struct serve *s, const char **path)
{
    char *to = arena_alloc(&s->paths, PATH_SIZE + 64);

    if (!*path)
        return 0;
    if (!to)
        return -ENOMEM;
    serve_rights_path(&s->rights, *path, to, PATH_SIZE + 64);
    *path = to;
    return 0;
}

static int reach_sources(struct serve *s, struct serve_config *c)
{
    struct serve_source *sources = c->source.v;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < c->source.n; i++)
        r = reach(s, &sources[i].dir);
    return r;
}

static struct ui_settings ui_settings(const struct serve_config *c)
{
    return (struct ui_settings){.sources = c->source.v,
                                .n_sources = c->source.n,
                                .price_per_core_hour = c->ui.price,
                                .currency = c->ui.currency,
                                .own_code = c->ui.own_code};
}

/* What the web UI is told besides data, and who is watched sending. */
static int start_ui(struct serve *s)
{
    int r;

    s->ui = (struct ui_info){.mode = "server", .settings = ui_settings(&s->config)};
    if (s->agent) {
        s->ui.agent_state = "running";
        s->ui.agent_ended = agent_feed_ended;
        s->ui.agent = s->agent;
    } else {
        s->ui.agent_state = "off";
        s->ui.agent_reason = "The server was started without the agent that watches this machine (--no-agent).";
        s->ui.agent_fix = "sudo wick serve";
    }
    r = senders_new(&s->store->sink, &s->senders);

    s->ui.senders = s->senders;
    return r;
}

/* One number of each listener. */
static void put_net(const struct serve *s, struct buf *out, const char *name, const char *kind, const char *help,
                    size_t offset)
{
    const struct {
        const char *name;
        struct http_server *server;
    } all[] = {{"http", s->api}, {"otlp_grpc", s->grpc}, {"otlp_http", s->http}};

    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        struct http_server_stats st;

        if (!all[i].server)
            continue;
        http_server_stats(all[i].server, &st);
        buf_printf(out, "%s{listener=\"%s\"} %llu\n", name, all[i].name,
                   (unsigned long long) *(const uint64_t *) ((const char *) &st + offset));
    }
}

#define NET(f) offsetof(struct http_server_stats, f)

static void put_metrics(void *ctx, struct buf *out)
{
    struct serve *s = ctx;

    put_net(s, out, "wick_net_connections", "gauge", "Open connections.", NET(connections));
    put_net(s, out, "wick_net_requests_total", "counter", "Requests.", NET(requests));
    put_net(s, out, "wick_net_bad_requests_total", "counter", "Bytes that were no request.", NET(bad_requests));
    put_net(s, out, "wick_net_timeouts_total", "counter", "Peers that were too slow.", NET(timeouts));
    put_net(s, out, "wick_net_refused_total", "counter", "Connections over the limit.", NET(refused));
    put_net(s, out, "wick_net_received_bytes_total", "counter", "Bytes received.", NET(bytes_in));
    put_net(s, out, "wick_net_sent_bytes_total", "counter", "Bytes sent.", NET(bytes_out));
    put_net(s, out, "wick_net_buffered_bytes", "gauge", "Requests in memory.", NET(buffered));
    if (s->names.files)
        buf_printf(out,
                   "# HELP wick_symbols_bytes Files with symbols.\n# TYPE wick_symbols_bytes gauge\n"
                   "wick_symbols_bytes %llu\n",
                   (unsigned long long) binary_store_bytes(s->names.files));

    serve_intake_metrics(s->intake, out);
    serve_pipelines_metrics(s->pipelines, out);
}

static int start_front(struct serve *s, struct err *e)
{
    const struct serve_config *c = &s->config;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned n = c->limits.query_workers > 0 ? (unsigned) MIN(c->limits.query_workers, 256) : (unsigned) MAX(cpus, 2);
    struct front_options o = {.store = s->names.store,
                              .names = s->names.source,
                              .auth = s->auth,
                              .call_limit_ns = c->limits.query_time,
                              .memory_limit = (size_t) c->limits.query_memory,
                              .tenant_calls = c->limits.tenant_queries,
                              .version = WICK_VERSION};
    int r;

    s->hosts = mem_zalloc_array((size_t) c->listen.hosts.n + 1, sizeof *s->hosts);
    if (!s->hosts)
        return -ENOMEM;
    for (uint32_t i = 0; i < c->listen.hosts.n; i++)
        s->hosts[i] = c->listen.hosts.v[i];
    o.hosts = s->hosts;
    o.metrics = put_metrics;
    o.ui = &s->ui;
    s->pids = (struct pid_profiler){agent_feed_profile, s->agent};
    o.pids = s->agent ? &s->pids : NULL;
    r = start_ui(s);
    if (r == 0)
        r = serve_intake_new(senders_sink(s->senders), s->auth, s->hosts, &c->limits, &s->intake, e);
    if (r < 0)
        return r;
    o.metrics_ctx = s;
    r = workers_new(n, QUEUE_MAX, &s->workers, e);
    o.workers = s->workers;
    if (r == 0)
        r = front_new(&o, &s->front, e);
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(mounts); i++)
        r = mounts[i](s->front);
    if (r == 0)
        r = serve_intake_mount(s->intake, s->front);
    if (r == 0)
        r = serve_self_mount(s->front);
    if (r == 0)
        r = loop_group_new((unsigned) MIN(MAX(cpus, 1), 8), "net", &s->loops, e);
    return r;
}

static int start_listeners(struct serve *s, char *address, size_t size, struct err *e)
{
    const struct serve_listen *l = &s->config.listen;
    int r;

    r = new_server(s, front_begin, front_handle, s->front, &s->api, e);
    if (r == 0)
        r = new_server(s, serve_intake_begin, serve_intake_grpc, s->intake, &s->grpc, e);
    if (r == 0)
        r = new_server(s, serve_intake_begin, serve_intake_http, s->intake, &s->http, e);
    if (r < 0)
        return r;
    s->ui.otlp_grpc = listen_otlp(s, s->grpc, "OTLP/gRPC", l->otlp_grpc, s->otlp_grpc, sizeof s->otlp_grpc);
    s->ui.otlp_http = listen_otlp(s, s->http, "OTLP/HTTP", l->otlp_http, s->otlp_http, sizeof s->otlp_http);
    return listen_api(s, address, size, e); /* last: what it tells about the others is known */
}

static void stop_server(struct http_server *h)
{
    if (!h)
        return;
    http_server_stop_wait(h, STOP_GRACE / 3);
    http_server_free(h);
}

static void serve_stop(struct serve *s)
{
    serve_pipelines_stop(s->pipelines);
    stop_server(s->grpc);
    stop_server(s->http);
    stop_server(s->api);
    front_stop(s->front);
    agent_feed_free(s->agent); /* the UI asks it how it is until here */
    workers_free(s->workers);
    serve_names_stop(&s->names);
    store_close(s->store);
    loop_group_free(s->loops);
    serve_intake_free(s->intake);
    senders_free(s->senders);
    front_free(s->front);
    if (s->tls)
        s->tls->ops->context_free(s->tls);
    auth_free(s->auth);
    mem_free(s->hosts);
    if (s->again)
        serve_load_done(s->again);
    mem_free(s->again);
    serve_load_done(&s->first);
    arena_done(&s->paths);
}

/* The configuration is read again: what can change while running does, the rest is named. */
static int reload_config(struct serve *s, struct err *e)
{
    _cleanup_(buf_done) struct buf now = BUF_INIT, later = BUF_INIT;
    struct store_config sc = {0};
    struct ui_settings ui;
    struct serve_load *l = mem_zalloc(sizeof *l);
    int r = l ? serve_load(s->args, l, e) : -ENOMEM;

    if (r == 0)
        r = reach_sources(s, &l->config);
    if (r < 0) {
        if (l)
            serve_load_done(l);
        mem_free(l);
        return r;
    }
    log_setup((enum log_level) l->config.log.level, (enum log_format) l->config.log.format);
    serve_intake_limits(s->intake, &l->config.limits);
    front_set_limits(s->front, l->config.limits.query_time, l->config.limits.tenant_queries);
    put_retention(&l->config.retention, &sc);
    if (s->store->ops->set_retention)
        s->store->ops->set_retention(s->store, &sc);
    ui = ui_settings(&l->config);
    ui_info_change(&s->ui, &ui);
    serve_load_changes(s->again ? s->again : &s->first, l, &now, NULL);
    serve_load_changes(&s->first, l, NULL, &later);
    if (later.n)
        log_warn("reload: a restart is needed for %s", buf_cstr(&later));
    log_info("reloaded: %s; certificates; tokens are read as they change",
             now.n ? buf_cstr(&now) : "no option changed");
    if (s->again)
        serve_load_done(s->again);
    mem_free(s->again);
    s->again = l;
    return 0;
}

static void reload(struct serve *s)
{
    struct err e = {0};
    int r = s->tls ? s->tls->ops->context_reload(s->tls, &e) : 0;

    if (r < 0)
        log_error("reload: %s; the old certificates stay", err_message(&e, r));
    r = reload_config(s, &e);
    if (r < 0)
        log_error("reload: %s; the old configuration stays", err_message(&e, r));
}

/* Until SIGTERM or SIGINT. */
static void wait_for_end(struct serve *s, const sigset_t *set)
{
    static const struct timespec minute = {.tv_sec = 60};

    for (;;) {
        int sig = sigtimedwait(set, NULL, &minute);

        if (sig == SIGTERM || sig == SIGINT) {
            log_info("stopping");
            return;
        }
        if (sig == SIGHUP)
            reload(s);
        else if (sig < 0 && errno == EAGAIN)
            malloc_trim(0); /* what a large answer took is given back */
    }
}

static void announce(const struct serve *s, const char *address)
{
    const struct serve_retention *k = &s->config.retention;
    bool memory = strcmp(s->config.store.engine, "memory") == 0;

    if (memory)
        log_info("the store is memory: nothing is kept");
    else
        log_info("store in %s, keeps %lld days (detail %lld) and %lld MiB", s->store_dir,
                 (long long) (k->keep / (86400 * NS_PER_S)), (long long) (k->detail / (86400 * NS_PER_S)),
                 (long long) (k->size >> 20));
    serve_rights_log(&s->rights);
    printf("wick serve is ready: %s://%s\n", s->tls ? "https" : "http", address);
    fflush(stdout);
}

/* Ports below 1024 need a capability. */
static bool has_low_port(const struct serve_config *c)
{
    const char *const addresses[] = {c->listen.http, c->listen.otlp_grpc, c->listen.otlp_http};

    for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
        const char *colon = is_off(addresses[i]) ? NULL : strrchr(addresses[i], ':');
        uint64_t port;

        if (colon && str_to_u64(str_from(colon + 1), 10, &port) >= 0 && port && port < 1024)
            return true;
    }
    return false;
}

static void add_dir(struct serve *s, const char *path, enum serve_dir_kind kind, const char *file)
{
    if (s->rights.n_dirs < SERVE_DIRS_MAX)
        s->rights.dirs[s->rights.n_dirs++] = (struct serve_dir){.path = path, .kind = kind, .file = file, .fd = -1};
}

/* The directory that a file is in. */
static int add_dir_of(struct serve *s, const char *file, enum serve_dir_kind kind)
{
    const char *slash = file ? strrchr(file, '/') : NULL;
    char *dir;

    if (!slash)
        return 0;
    dir = arena_printf(&s->paths, "%.*s", (int) MAX(slash - file, 1), file);
    if (dir)
        add_dir(s, dir, kind, slash + 1);
    return dir ? 0 : -ENOMEM;
}

/* Where files are that a reload reads again, and the socket. */
static int add_reached(struct serve *s)
{
    const struct serve_config *c = &s->config;
    const struct serve_source *sources = c->source.v;
    const char *const files[] = {c->listen.tls.cert_file, c->listen.tls.key_file, c->listen.tls.client_ca_file,
                                 strncmp(c->listen.http, "unix:", 5) == 0 ? c->listen.http + 5 : NULL};
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(files); i++)
        r = add_dir_of(s, files[i], SERVE_DIR_REACH);
    for (size_t i = 0; r == 0 && i < s->args->config.n; i++)
        r = add_dir_of(s, s->args->config.v[i], SERVE_DIR_REACH);
    for (uint32_t i = 0; r == 0 && i < c->source.n; i++)
        if (sources[i].dir)
            add_dir(s, sources[i].dir, SERVE_DIR_REACH, NULL);
    return r;
}

static int reach_all(struct serve *s)
{
    struct serve_tls *t = &s->config.listen.tls;
    const char **const paths[] = {&s->token_file, &s->reached_store, &s->config.symbols.dir,
                                  &t->cert_file,  &t->key_file,      &t->client_ca_file};
    const char *http = s->config.listen.http;
    int r = 0;

    s->reached_store = s->store_dir;
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(paths); i++)
        r = reach(s, paths[i]);
    for (size_t i = 0; r == 0 && i < s->args->config.n; i++)
        r = reach(s, &s->args->config.v[i]);
    if (r == 0 && strncmp(http, "unix:", 5) == 0) {
        http += 5;
        r = reach(s, &http);
        if (r == 0)
            s->config.listen.http = arena_printf(&s->paths, "unix:%s", http);
    }
    if (r == 0)
        r = reach_sources(s, &s->config);
    return r == 0 && s->config.listen.http ? 0 : -ENOMEM;
}

static int drop_rights(struct serve *s, struct err *e)
{
    const struct serve_config *c = &s->config;
    int r = 0;

    if (!c->auth.tokens)
        add_dir(s, s->data_dir, SERVE_DIR_DATA, "tokens");
    else
        r = add_dir_of(s, s->token_file, SERVE_DIR_FILE);
    if (strcmp(c->store.engine, "memory") != 0)
        add_dir(s, s->store_dir, SERVE_DIR_STORE, NULL);
    if (c->symbols.dir)
        add_dir(s, c->symbols.dir, SERVE_DIR_OTHER, NULL);
    if (r == 0)
        r = add_reached(s);
    s->rights.user = c->user;
    s->rights.low_port = has_low_port(c);
    if (r == 0)
        r = serve_rights_drop(&s->rights, e);
    return r < 0 ? r : reach_all(s);
}

static int open_auth(struct serve *s, struct err *e)
{
    int r = auth_open(s->token_file, &s->auth, e);

    for (unsigned i = 0; r == 0 && i < s->rights.n_trusted; i++)
        auth_trust(s->auth, s->rights.trusted[i]);
    return r;
}

/* Nothing was ever kept here: somebody looks at wick for the first time, and sees more sooner. */
static bool is_new_install(const struct serve *s)
{
    char path[PATH_SIZE + 16];

    snprintf(path, sizeof path, "%s/FORMAT", s->store_dir);
    return strcmp(s->config.store.engine, "memory") == 0 || access(path, F_OK) < 0;
}

static int start_agent(struct serve *s, struct err *e)
{
    static char begin[] = "--begin-rate=99";
    struct arena a;
    char **args = NULL;
    size_t n = 0;
    int r;

    arena_init(&a, 1 << 20);
    r = agent_config_args(&s->config.agent, false, &a, &args, e);
    while (r == 0 && args[n])
        n++;
    if (r == 0 && n < AGENT_CONFIG_ARGS_MAX && !s->config.agent.rate && is_new_install(s))
        args[n] = begin;
    if (r == 0)
        r = agent_feed_start(args, &s->agent, e);
    arena_done(&a);
    return r;
}

static int serve(struct serve *s, struct err *e)
{
    char address[256];
    sigset_t set;
    int r;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    thread_let_through(SIGPROF); /* /debug/pprof/ samples these threads; nobody sends it otherwise */
    signal(SIGPROF, SIG_IGN);
    fd_raise_limit();
    mallopt(M_MMAP_THRESHOLD, 32 << 20); /* requests come and go: their memory stays in the heap between them, */
    mallopt(M_TRIM_THRESHOLD, 8 << 20);  /* within reason */
    log_setup((enum log_level) s->config.log.level, (enum log_format) s->config.log.format);
    r = find_dirs(s, e);
    if (r == 0 && s->config.agent.enabled && !s->args->no_agent && !getenv("WICK_NO_AGENT"))
        r = start_agent(s, e);
    if (r == 0)
        r = start_tls(s, e); /* before: the key may be readable to root alone */
    if (r == 0)
        r = drop_rights(s, e);
    if (r == 0)
        r = open_auth(s, e);
    if (r == 0)
        r = check_exposure(s, e);
    if (r == 0)
        r = start_store(s, e);
    if (r == 0)
        r = start_names(s, e);
    if (r == 0)
        r = start_front(s, e);
    if (r == 0)
        r = serve_pipelines_start(&s->first.conf, serve_intake_sink(s->intake), false, &s->pipelines, e);
    if (r == 0 && s->agent)
        r = agent_feed_run(s->agent, serve_intake_sink(s->intake), e);
    if (r == 0)
        r = start_listeners(s, address, sizeof address, e);
    if (r < 0)
        return r;
    announce(s, address);
    wait_for_end(s, &set);
    return 0;
}

static void serve_help(FILE *out)
{
    fputs(
        "usage: wick serve [--config wick.yaml] [options]\n\n"
        "Takes OTLP profiles, keeps them, and answers: API on 4040, OTLP on 4317 (gRPC) and 4318 (HTTP), all on loopback\n"
        "unless told otherwise. SIGHUP reads configuration and certificates again, SIGTERM stops.\n\n",
        out);
    args_help(serve_args, out);
}

static int check_config(struct serve *s, struct err *e)
{
    struct arena a;
    char **args;
    int r;

    arena_init(&a, 1 << 20);
    r = agent_config_args(&s->config.agent, true, &a, &args, e);
    arena_done(&a);
    return r < 0 ? r : serve_pipelines_start(&s->first.conf, NULL, true, &s->pipelines, e);
}

static int print_reference(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    serve_config_reference(&b);
    return fd_write_file("-", b.p, b.n, NULL) < 0 ? EXIT_FAILED : EXIT_DONE;
}

static int serve_run(int argc, char **argv)
{
    struct serve_args a = {0};
    struct serve s = {0};
    struct err e = {0};
    int n, r = args_parse(serve_args, &a, argc - 1, argv + 1, false, &n, &e);

    if (a.help) {
        serve_help(stdout);
        return EXIT_DONE;
    }
    if (r < 0 || n) {
        log_error("serve: %s", r < 0 ? e.message : "takes no arguments, only options: --help lists them");
        return EXIT_USAGE;
    }
    if (a.reference)
        return print_reference();
    s.args = &a;
    arena_init(&s.paths, 1 << 20);
    r = serve_load(&a, &s.first, &e);
    s.config = s.first.config;
    if (r == 0 && a.check)
        r = check_config(&s, &e);
    else if (r == 0)
        r = serve(&s, &e);
    serve_stop(&s);
    if (r < 0)
        log_error("serve: %s", err_message(&e, r));
    return r < 0 ? EXIT_FAILED : EXIT_DONE;
}

const struct command command_serve = {"serve", "take profiles, keep them, answer questions", serve_run};
