/* SPDX-License-Identifier: Apache-2.0 */
/* Starts, reloads and stops the server and all of its parts, in the right order. See serve_run.h. */
#include "serve/serve_run.h"
#include "serve/local_owner.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alert/alert.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/meminfo.h"
#include "base/thread.h"
#include "conf/yaml.h"
#include "demo/demo_run.h"
#include "demo/demo_source.h"
#include "host/agent_feed.h"
#include "host/agent_run.h"
#include "net/tls.h"
#include "pipeline/graph/flow.h"
#include "serve/agent_config.h"
#include "serve/senders.h"
#include "serve/serve_code.h"
#include "serve/serve_intake.h"
#include "serve/serve_pipelines.h"
#include "serve/serve_scrape.h"
#include "serve/serve_self.h"
#include "serve/serve_state.h"
#include "server/api.h"
#include "server/binary_store.h"
#include "server/front.h"
#include "server/name_source.h"
#include "server/recording_rules.h"
#include "server/tenant_files.h"
#include "store/match.h"
#include "store/store.h"
#include "store/store_place.h"

enum { QUEUE_MAX = 256, FILES_QUOTA = 256 << 20 };

/* --- configuration --- */

static int find_dirs(struct serve *s, const char *data_dir)
{
    size_t size = sizeof s->store_dir;
    int n = s->config.store.dir ? snprintf(s->store_dir, size, "%s", s->config.store.dir)
                                : snprintf(s->store_dir, size, "%s/store", data_dir);

    if (n >= (int) size || snprintf(s->data_dir, sizeof s->data_dir, "%s", data_dir) >= (int) sizeof s->data_dir)
        return -ENAMETOOLONG;
    s->spool_dir = s->config.store.spool ? s->config.store.spool : arena_printf(&s->paths, "%s/spool", data_dir);
    s->token_file = s->config.auth.tokens;
    if (!s->token_file)
        s->token_file = arena_printf(&s->paths, "%s/tokens", s->data_dir);
    return s->token_file ? 0 : -ENOMEM;
}

/* --- start and stop --- */

/* Fills in what is kept and for how long. The strings still belong to the configuration. */
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

enum { MORE_LABELS_MAX = 48, LABEL_VALUES_MAX = 10000 };

/* The labels of series: the default ones and those of the configuration, where "auto", or none, leaves the choice to the
 * store. */
static int make_labels(struct serve *s, const char *const **ret, uint32_t *ret_values, struct err *e)
{
    const struct option_strings *more = &s->config.store.labels;
    int64_t values = s->config.store.label_values;
    bool chosen = !more->n;
    const char **v;
    uint32_t n = 0;

    while (labels_default_allow[n])
        n++;
    if (more->n > MORE_LABELS_MAX)
        return err_set(e, -EINVAL, "store.labels: %u names; the maximum is %d", more->n, MORE_LABELS_MAX);
    if (values < 0 || values > LABEL_VALUES_MAX)
        return err_set(e, -EINVAL, "store.label_values: %lld is not between 0 and %d", (long long) values,
                       LABEL_VALUES_MAX);
    v = arena_zalloc_array(&s->paths, (size_t) n + more->n + 1, sizeof *v);
    if (!v)
        return -ENOMEM;
    memcpy(v, labels_default_allow, n * sizeof *v);
    for (uint32_t i = 0; i < more->n; i++) {
        if (strcmp(more->v[i], "auto") == 0)
            chosen = true;
        if (strcmp(more->v[i], "auto") == 0 || match_is_label(v, str_from(more->v[i])))
            continue;
        v[n] = arena_cstr(&s->paths, str_from(more->v[i]));
        if (!v[n++])
            return -ENOMEM;
    }
    *ret = v;
    *ret_values = chosen ? (uint32_t) values : 0;
    return 0;
}

/* What the store is opened with. Everything that can be wrong in the configuration is refused here, by the start and by
 * `--check` alike. */
/* Whether a signal to end waits: it is only taken after the start. */
static bool is_ending(void)
{
    sigset_t set;

    return sigpending(&set) == 0 && (sigismember(&set, SIGTERM) == 1 || sigismember(&set, SIGINT) == 1);
}

static int store_settings(struct serve *s, struct store_config *ret, const struct store_ops **ret_engine, struct err *e)
{
    static const char *const stamps[] = {"ns", "us", "ms", "off"};
    const struct serve_config *c = &s->config;
    const struct store_ops *engine = store_engine(str_from(c->store.engine));
    size_t i = 0;
    int r;

    *ret = (struct store_config){
        .dir = c->store.place ? c->store.place : s->reached_store,
        .read_only = c->role == ROLE_QUERY,
        .async = c->store.async,
        .cold = c->store.cold,
        .spool = strcmp(c->store.ack, "spool") != 0 ? NULL
                 : s->spool_dir                     ? s->spool_dir
                                                    : "spool",
        .spool_bytes = (uint64_t) c->store.spool_size,
        .memory = (size_t) c->store.memory,
        .cache = (size_t) c->store.cache,
        .report = log_store,
        .ending = is_ending,
    };
    *ret_engine = engine;
    r = make_labels(s, &ret->allow, &ret->label_values, e);
    if (r < 0)
        return r;
    if (!engine)
        return err_set(e, -EINVAL,
                       "store.engine: '%s' is not segment or memory; for ClickHouse, set store.dir to its location",
                       c->store.engine);
    if (strcmp(c->store.ack, "quorum") != 0 && strcmp(c->store.ack, "spool") != 0)
        return err_set(e, -EINVAL, "store.ack: '%s' is not quorum or spool", c->store.ack);
    while (i < ARRAY_SIZE(stamps) && strcmp(c->store.timestamps, stamps[i]) != 0)
        i++;
    if (i == ARRAY_SIZE(stamps))
        return err_set(e, -EINVAL, "store.timestamps: '%s' is not ns, us, ms or off", c->store.timestamps);
    ret->timestamps = (enum store_timestamps) i;
    put_retention(&c->retention, ret);
    return store_check_config(engine, ret, e);
}

static int start_store(struct serve *s, struct err *e)
{
    const struct store_ops *engine;
    struct store_config sc;
    int r = store_settings(s, &sc, &engine, e);

    if (r < 0)
        return r;
    sc.memory = MIN(sc.memory, s->memory_limit / 16); /* several of them may be waiting to be written */
    sc.cache = MIN(sc.cache, s->memory_limit / 4);
    sc.dictionary = sc.answers = s->memory_limit / 2;
    return store_open(engine, &sc, &s->store, e);
}

/* Symbol files live in the store's directory; a store in memory keeps none unless a directory is configured. */
static int start_names(struct serve *s, struct err *e)
{
    const struct serve_symbols *c = &s->config.symbols;
    char dir[SERVE_PATH_SIZE + 64];

    snprintf(dir, sizeof dir, "%s/binaries", s->reached_store);
    if (c->dir)
        snprintf(dir, sizeof dir, "%s", c->dir);
    return serve_names_start(&s->names, c, c->dir || s->store->ops->in_dir ? dir : NULL, e);
}

/* What Pyroscope's clients keep on the server, in the store's directory; in memory with a store in memory. */
static int start_files(struct serve *s, struct err *e)
{
    char dir[SERVE_PATH_SIZE + 64];

    snprintf(dir, sizeof dir, "%s/files", s->reached_store);
    return tenant_files_open(s->store->ops->in_dir ? dir : NULL, FILES_QUOTA, &s->files, e);
}

/* The server's own routes; each list is in a file of its own. */
static int (*const mounts[])(struct front *f) = {
    api_mount_query,      api_mount_status,    api_mount_profile, api_mount_mcp,   api_mount_openapi,
    api_mount_symbols,    api_mount_pyroscope, api_mount_render,  api_mount_views, api_mount_pid,
    api_mount_debuginfod, api_mount_scrape,    api_mount_alerts,  api_mount_marks, api_mount_ui,
};

static struct ui_settings ui_settings(const struct serve_config *c)
{
    return (struct ui_settings){.sources = c->source.v,
                                .n_sources = c->source.n,
                                .price_per_core_hour = c->ui.price,
                                .currency = c->ui.currency,
                                .own_code = c->ui.own_code,
                                .trace_link = c->traces.link};
}

static void read_demo(struct ui_info *i)
{
    const char *times = getenv(DEMO_TIMES_ENV);
    struct str end = str_from(times ? times : ""), deploy = str_cut(&end, ':');

    if (str_to_i64(deploy, 10, &i->demo_deploy) < 0 || str_to_i64(end, 10, &i->demo_end) < 0)
        i->demo_deploy = i->demo_end = 0;
    else
        i->read_source = demo_source;
}

/* Sets up what the web UI needs besides data, and the list of senders. */
static int start_ui(struct serve *s)
{
    int r;

    s->ui = (struct ui_info){.mode = "server", .settings = ui_settings(&s->config)};
    if (s->agent) {
        s->ui.agent_state = "running";
        s->ui.agent_ended = agent_feed_ended;
        s->ui.agent_lost = agent_feed_lost;
        s->ui.agent = s->agent;
    } else {
        s->ui.agent_state = "off";
        s->ui.agent_reason = "The server was started without the host agent (--no-agent).";
        s->ui.agent_fix = "sudo wick serve";
    }
    read_demo(&s->ui);
    r = senders_new(&s->store->sink, &s->senders);

    s->ui.senders = s->senders;
    s->ui.senders_json = senders_json;
    s->ui.code = serve_code;
    s->ui.code_ctx = s->names.source;
    return r;
}

/* Metrics of the agent that is this server's child process. */
static void put_agent(struct agent_feed *agent, struct buf *out)
{
    struct agent_feed_counts n;

    agent_feed_counts(agent, &n);
    buf_printf(
        out,
        "# HELP wick_agent_samples_total Samples of this machine, by result.\n"
        "# TYPE wick_agent_samples_total counter\n"
        "wick_agent_samples_total{result=\"stored\"} %llu\nwick_agent_samples_total{result=\"lost\"} %llu\n"
        "# HELP wick_agent_batches_total Batches of samples of this machine, by result.\n# TYPE wick_agent_batches_total counter\n"
        "wick_agent_batches_total{result=\"stored\"} %llu\nwick_agent_batches_total{result=\"lost\"} %llu\n",
        (unsigned long long) n.taken_samples, (unsigned long long) n.lost_samples, (unsigned long long) n.taken_batches,
        (unsigned long long) n.lost_batches);
}

static void put_metrics(void *ctx, struct buf *out)
{
    struct serve *s = ctx;

    serve_listen_metrics(s, out);
    if (s->names.files)
        buf_printf(out,
                   "# HELP wick_symbols_bytes Size of symbol files.\n# TYPE wick_symbols_bytes gauge\n"
                   "wick_symbols_bytes %llu\n",
                   (unsigned long long) binary_store_bytes(s->names.files));

    if (s->agent)
        put_agent(s->agent, out);
    serve_traces_metrics(&s->traces, out);
    serve_intake_metrics(s->intake, out);
    serve_pipelines_metrics(s->pipelines, out);
    alerts_metrics(s->alerts, out);
}

static void read_losses(void *ctx, const char *tenant, struct str service, struct alert_losses *ret)
{
    senders_losses(ctx, tenant, service, ret);
}

/* Its URL is that of the listener unless one is configured. */
static int start_alerts(struct serve *s, struct err *e)
{
    struct alerts_options o = {.store = s->store,
                               .names = name_source_names(s->names.source),
                               .spans = s->traces.index,
                               .dir = s->store->ops->in_dir ? s->reached_store : NULL,
                               .url = s->config.ui.url,
                               .memory_limit = MIN((size_t) s->config.limits.query_memory, s->memory_limit / 4),
                               .losses = read_losses,
                               .losses_ctx = s->senders};

    return alerts_new(&o, s->first.alerts, &s->alerts, e);
}

static const char *public_url(const struct serve *s, const struct serve_config *c, char url[300])
{
    return c->ui.url ? c->ui.url : serve_url(s, url, 300);
}

/* Activates the rules of a configuration, a struct serve_load, and those that clients added. */
static int apply_rules(void *ctx, const void *base, const struct option_tables *more, struct err *e)
{
    struct serve *s = ctx;
    const struct serve_load *l = base;
    struct alert_sections sections = {&l->config.alerts, &l->config.recording, conf_get(l->conf.root, "alerts"),
                                      conf_get(l->conf.root, "recording"), .added = more};
    struct alert_rules *rules;
    char url[300];
    int r = alert_rules_new(&sections, &rules, e);

    if (r < 0)
        return r;
    r = alerts_change(s->alerts, rules, public_url(s, &l->config, url), e);
    alert_rules_unref(rules);
    return r;
}

static int start_front(struct serve *s, struct err *e)
{
    const struct serve_config *c = &s->config;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned n = c->limits.query_workers > 0 ? (unsigned) MIN(c->limits.query_workers, 256) : (unsigned) MAX(cpus, 2);
    struct front_options o = {.store = s->store,
                              .names = s->names.source,
                              .files = s->files,
                              .auth = s->auth,
                              .call_limit_ns = c->limits.query_time,
                              .memory_limit = MIN((size_t) c->limits.query_memory, s->memory_limit / 4),
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
    o.spans = s->traces.index;
    o.trace_link = c->traces.link;
    r = start_ui(s);
    if (r == 0)
        r = local_owner_new(s->agent, senders_sink(s->senders), &s->owners, e);
    if (r == 0)
        r = serve_intake_new(local_owner_sink(s->owners), s->auth, s->hosts, &c->limits, &s->intake, e);
    if (r < 0)
        return r;
    serve_intake_labels(s->intake, s->store->labels); /* before the first tenant is made, which is the next step */
    serve_intake_traces(s->intake, serve_traces_sink(&s->traces));
    r = serve_scrape_new(serve_intake_sink(s->intake), &s->args->scrape, &s->scrape);
    if (r == 0)
        r = start_alerts(s, e);
    if (r < 0)
        return r;
    o.alerts = s->alerts;
    r = recording_rules_new(s->files, apply_rules, s, &s->first, &s->rules, e);
    if (r < 0)
        return r;
    o.rules = s->rules;
    o.scraping = serve_scrape_calls(s->scrape);
    o.metrics_ctx = s;
    r = workers_new(n, QUEUE_MAX, &s->workers, e);
    o.workers = s->workers;
    if (r == 0)
        r = front_new(&o, &s->front, e);
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(mounts); i++)
        if (c->role != ROLE_INGEST || mounts[i] == api_mount_status || mounts[i] == api_mount_symbols)
            r = mounts[i](s->front);
    if (r == 0)
        r = serve_intake_mount(s->intake, s->front);
    if (r == 0)
        r = serve_self_mount(s->front);
    if (r == 0)
        r = loop_group_new((unsigned) MIN(MAX(cpus, 1), 8), "net", &s->loops, e);
    return r;
}

void serve_stop(struct serve *s)
{
    if (!s)
        return;
    store_interrupt(s->store);
    serve_pipelines_stop(s->pipelines);
    serve_stop_listeners(s);
    front_stop(s->front); /* its calls on threads of their own have ended */
    serve_scrape_free(s->scrape);
    local_owner_stop(s->owners);
    agent_feed_free(s->agent); /* until here the UI may ask for its state */
    workers_free(s->workers);
    recording_rules_free(s->rules);
    alerts_free(s->alerts);
    serve_names_stop(&s->names);
    tenant_files_free(s->files);
    serve_traces_stop(&s->traces); /* it asks the store how far the clock is ahead */
    store_close(s->store);
    loop_group_free(s->loops);
    serve_intake_free(s->intake);
    local_owner_free(s->owners);
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
    mem_free(s);
}

/* Reads the configuration again: applies what can change at runtime and logs the names of the other changes. */
static int reload_config(struct serve *s, struct err *e)
{
    _cleanup_(buf_done) struct buf now = BUF_INIT, later = BUF_INIT;
    struct store_config sc = {0};
    struct ui_settings ui;
    struct serve_load *l = mem_zalloc(sizeof *l);
    int r = l ? serve_load(s->args, l, e) : -ENOMEM;

    if (r == 0)
        r = serve_reach_sources(s, &l->config);
    if (r == 0)
        r = recording_rules_apply(s->rules, l, e);
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
    serve_traces_reload(&s->traces, &l->config);
    ui = ui_settings(&l->config);
    ui_info_change(&s->ui, &ui);
    serve_load_changes(s->again ? s->again : &s->first, l, &now, NULL);
    serve_load_changes(&s->first, l, NULL, &later);
    if (later.n)
        log_warn("reload: a restart is required for %s", buf_cstr(&later));
    log_info("reloaded: %s; certificates; tokens are always reread when they change",
             now.n ? buf_cstr(&now) : "no option changed");
    if (s->again)
        serve_load_done(s->again);
    mem_free(s->again);
    s->again = l;
    return 0;
}

void serve_reload(struct serve *s)
{
    struct err e = {0};
    int r = s->tls ? s->tls->ops->context_reload(s->tls, &e) : 0;

    if (r < 0)
        log_error("reload: %s; keeping the previous certificates", err_message(&e, r));
    r = reload_config(s, &e);
    if (r < 0)
        log_error("reload: %s; keeping the previous configuration", err_message(&e, r));
}

static int open_auth(struct serve *s, struct err *e)
{
    int r = auth_open(s->token_file, &s->auth, e);

    for (unsigned i = 0; r == 0 && i < s->rights.n_trusted; i++)
        auth_trust(s->auth, s->rights.trusted[i]);
    return r;
}

/* True if nothing was ever stored here. A first-time user should see results soon, so the agent starts with a higher
 * rate. */
static bool is_new_install(const struct serve *s)
{
    return !serve_store_in_dir(&s->config) || !store_place_exists(s->store_dir);
}

static int start_agent(struct serve *s, struct err *e)
{
    struct agent_run_options o;
    int r = agent_config_read(&s->config.agent, false, &o, e);

    if (!s->config.agent.rate && is_new_install(s))
        o.begin_rate = 99;
    return r < 0 ? r : agent_feed_start(&o, &s->agent, e);
}

static void log_start(const struct serve *s)
{
    const struct serve_retention *k = &s->config.retention;

    if (s->config.store.place && strstr(s->config.store.place, "://")) /* it contains no password */
        log_info("store: %s; retention: %lld days", s->config.store.place, (long long) (k->keep / (86400 * NS_PER_S)));
    else if (!serve_store_in_dir(&s->config))
        log_info("profiles are stored in memory only");
    else
        log_info("store: %s; retention: %lld days (detail: %lld days), %lld MiB", s->store_dir,
                 (long long) (k->keep / (86400 * NS_PER_S)), (long long) (k->detail / (86400 * NS_PER_S)),
                 (long long) (k->size >> 20));
    serve_rights_log(&s->rights);
}

static int start(struct serve *s, const char *data_dir, struct err *e)
{
    char url[300];
    int r = find_dirs(s, data_dir);

    s->memory_limit = meminfo_limit(s->config.limits.memory);
    if (r == 0 && s->config.agent.enabled && !s->args->no_agent && !getenv("WICK_NO_AGENT"))
        r = start_agent(s, e);
    if (r == 0)
        r = serve_start_tls(s, e); /* before privileges are dropped: the key may be readable by root only */
    if (r == 0)
        r = serve_drop_rights(s, e);
    if (r == 0)
        r = open_auth(s, e);
    if (r == 0)
        r = serve_check_exposure(s, e);
    if (r == 0)
        r = start_store(s, e);
    if (r == 0)
        r = serve_traces_start(&s->traces, &s->config,
                               &(struct serve_traces_place){serve_store_in_dir(&s->config) ? s->reached_store : NULL,
                                                            s->store, s->memory_limit},
                               e);
    if (r == 0)
        r = start_names(s, e);
    if (r == 0)
        r = start_files(s, e);
    if (r == 0)
        r = start_front(s, e);
    if (r == 0)
        r = serve_pipelines_start(
            &s->first.conf,
            &(struct flow_inject){.sink = serve_intake_sink(s->intake), .traces = serve_traces_sink(&s->traces)},
            &s->pipelines, e);
    if (r == 0 && s->agent)
        r = agent_feed_run(s->agent, serve_intake_sink(s->intake), e);
    if (r == 0)
        r = serve_start_listeners(s, e);
    if (r < 0)
        return r;
    r = recording_rules_apply(s->rules, &s->first, e);
    if (r == 0)
        return 0;
    log_warn("recording rules that clients added are not active: %s", err_message(e, r));
    return alerts_set_url(s->alerts, public_url(s, &s->config, url));
}

/* Loads only the configuration; *ret must be freed, on failure too. */
static int load(struct serve_args *args, struct serve **ret, struct err *e)
{
    struct serve *s = mem_zalloc(sizeof *s);
    int r;

    *ret = s;
    if (!s)
        return -ENOMEM;
    s->args = args;
    arena_init(&s->paths, 1 << 20);
    r = serve_load(args, &s->first, e);
    s->config = s->first.config;
    return r;
}

int serve_start(struct serve_args *args, const char *data_dir, struct serve **ret, struct err *e)
{
    struct serve *s;
    int r = load(args, &s, e);

    if (r == 0) {
        log_setup((enum log_level) s->config.log.level, (enum log_format) s->config.log.format);
        r = start(s, data_dir, e);
    }
    if (r < 0) {
        serve_stop(s);
        return r;
    }
    log_start(s);
    *ret = s;
    return 0;
}

int serve_check(struct serve_args *args, struct err *e)
{
    struct agent_run_options options;
    const struct store_ops *engine;
    struct store_config store;
    struct serve *s;
    int r = load(args, &s, e);

    if (r == 0)
        r = agent_config_read(&s->config.agent, true, &options, e);
    if (r == 0)
        r = store_settings(s, &store, &engine, e);
    if (r == 0)
        r = serve_check_exposure(s, e);
    if (r == 0)
        r = serve_start_tls(s, e);
    if (r == 0)
        r = serve_pipelines_start(&s->first.conf, NULL, &s->pipelines, e);
    serve_stop(s);
    return r;
}

const char *serve_url(const struct serve *s, char *ret, size_t size)
{
    snprintf(ret, size, "%s://%s", s->tls ? "https" : "http", s->address);
    return ret;
}
