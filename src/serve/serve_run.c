/* SPDX-License-Identifier: Apache-2.0 */
/* Starts, reloads and stops the server: the list of its parts is in the order of starting, and stopping goes it backwards. See
 * serve_run.h. */
#include "serve/serve_run.h"

#include <errno.h>
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
#include "host/agent_feed.h"
#include "host/agent_run.h"
#include "net/tls.h"
#include "pipeline/graph/flow.h"
#include "serve/agent_config.h"
#include "serve/disk_shares.h"
#include "serve/senders.h"
#include "serve/serve_end.h"
#include "serve/serve_intake.h"
#include "serve/serve_people.h"
#include "serve/serve_pipelines.h"
#include "serve/serve_scrape.h"
#include "serve/serve_state.h"
#include "server/binary_store.h"
#include "server/front.h"
#include "server/kept_rules.h"
#include "server/name_source.h"
#include "server/tenant_files.h"
#include "store/store.h"
#include "store/store_place.h"

enum { FILES_QUOTA = 256 << 20 };

/* --- the parts --- */

static int find_dirs(struct serve *s, struct err *e)
{
    const char *data_dir = s->args->data_dir;
    size_t size = sizeof s->store_dir;
    int n = s->config.store.dir ? snprintf(s->store_dir, size, "%s", s->config.store.dir)
                                : snprintf(s->store_dir, size, "%s/store", data_dir);

    if (n >= (int) size || snprintf(s->data_dir, sizeof s->data_dir, "%s", data_dir) >= (int) sizeof s->data_dir)
        return err_set(e, -ENAMETOOLONG, "'%s': the path is too long", data_dir);
    s->memory_limit = meminfo_limit(s->config.limits.memory);
    s->spool_dir = s->config.store.spool ? s->config.store.spool : arena_printf(&s->paths, "%s/spool", data_dir);
    s->token_file = s->config.auth.tokens;
    if (!s->token_file)
        s->token_file = arena_printf(&s->paths, "%s/tokens", s->data_dir);
    return s->token_file ? 0 : -ENOMEM;
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
    int r;

    if (!s->config.agent.enabled || s->args->no_agent || getenv("WICK_NO_AGENT"))
        return 0;
    r = agent_config_read(&s->config.agent, false, &o, e);
    if (!s->config.agent.rate && is_new_install(s))
        o.begin_rate = 99;
    return r < 0 ? r : agent_feed_start(&o, &s->agent, e);
}

static void stop_agent(struct serve *s)
{
    agent_feed_free(TAKE(s->agent));
}

static int run_agent(struct serve *s, struct err *e)
{
    return s->agent ? agent_feed_run(s->agent, serve_intake_sink(s->intake, ""), e) : 0;
}

static void stop_tls(struct serve *s)
{
    if (s->tls)
        s->tls->ops->context_free(s->tls);
}

static int watch_end(struct serve *s, struct err *e)
{
    (void) s;
    return serve_end_watch(e);
}

static int start_shares(struct serve *s, struct err *e)
{
    int r = disk_shares_new(&s->disk);

    (void) e;
    if (r == 0)
        disk_shares_set(s->disk, &s->config);
    return r;
}

static void stop_shares(struct serve *s)
{
    disk_shares_free(s->disk);
}

static int open_auth(struct serve *s, struct err *e)
{
    static const enum auth_scope anonymous[] = {
        [ANONYMOUS_NONE] = AUTH_NONE, [ANONYMOUS_SEND] = AUTH_SEND, [ANONYMOUS_USE] = AUTH_READ | AUTH_WRITE};
    int r = auth_open_serving(s->token_file, &s->auth);

    (void) e;
    if (r == 0)
        auth_allow_anonymous(s->auth, anonymous[s->config.auth.anonymous]);
    for (unsigned i = 0; r == 0 && i < s->rights.n_trusted; i++)
        auth_trust(s->auth, s->rights.trusted[i]);
    return r;
}

static void close_auth(struct serve *s)
{
    auth_free(s->auth);
}

static int check_exposure(struct serve *s, struct err *e)
{
    return serve_check_exposure(s, e);
}

static int start_loops(struct serve *s, struct err *e)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    return loop_group_new((unsigned) MIN(MAX(cpus, 1), 8), "net", &s->loops, e);
}

static void stop_loops(struct serve *s)
{
    loop_group_free(s->loops);
}

static int make_intake(struct serve *s, struct err *e)
{
    const struct serve_listen *l = &s->config.listen;

    (void) e;
    s->hosts = mem_zalloc_array((size_t) l->hosts.n + 1, sizeof *s->hosts);
    if (!s->hosts)
        return -ENOMEM;
    for (uint32_t i = 0; i < l->hosts.n; i++)
        s->hosts[i] = l->hosts.v[i];
    return serve_intake_new(&(struct serve_intake_options){s->auth, s->hosts, &s->config.limits, s->agent}, &s->intake);
}

static void free_intake(struct serve *s)
{
    serve_intake_free(s->intake);
    mem_free(s->hosts);
}

static int open_intake(struct serve *s, struct err *e)
{
    (void) e;
    serve_intake_open(s->intake,
                      &(struct serve_intake_ends){&s->store->sink, s->store->labels, serve_traces_sink(&s->traces)});
    return serve_intake_sink(s->intake, "") ? 0 : -ENOMEM;
}

static int start_intake(struct serve *s, struct err *e)
{
    return serve_intake_start(s->intake, e);
}

static void stop_intake(struct serve *s)
{
    serve_intake_stop(s->intake);
}

static void close_store(struct serve *s)
{
    store_close(s->store);
}

static int start_traces(struct serve *s, struct err *e)
{
    const struct serve_traces_place place = {serve_store_in_dir(&s->config) ? s->reached_store : NULL, s->store,
                                             s->memory_limit, disk_shares_spans(s->disk)};

    return serve_traces_start(&s->traces, &s->config, &place, e);
}

static void stop_traces(struct serve *s)
{
    serve_traces_stop(&s->traces);
}

/* Symbol files live in the store's directory; a store in memory keeps none unless a directory is configured. */
static int start_names(struct serve *s, struct err *e)
{
    const struct serve_symbols *c = &s->config.symbols;
    char dir[SERVE_PATH_SIZE + 64];
    struct quota share;
    int r;

    snprintf(dir, sizeof dir, "%s/binaries", s->reached_store);
    if (c->dir)
        snprintf(dir, sizeof dir, "%s", c->dir);
    r = serve_names_start(&s->names, c, c->dir || s->store->ops->in_dir ? dir : NULL, e);
    if (r == 0 && s->names.files && !c->dir) { /* another directory is not the store's */
        share = disk_shares_uploads(s->disk);
        binary_store_share(s->names.files, &share);
    }
    return r;
}

static void stop_names(struct serve *s)
{
    serve_names_stop(&s->names);
}

/* What Pyroscope's clients keep on the server, in the store's directory; in memory with a store in memory. */
static int start_files(struct serve *s, struct err *e)
{
    struct quota share = disk_shares_files(s->disk);
    char dir[SERVE_PATH_SIZE + 64];
    int r;

    snprintf(dir, sizeof dir, "%s/files", s->reached_store);
    r = tenant_files_open(s->store->ops->in_dir ? dir : NULL, FILES_QUOTA, &s->files, e);
    if (r < 0)
        return r;
    if (s->store->ops->in_dir)
        tenant_files_share(s->files, &share);
    disk_shares_count(s->disk, s->config.symbols.dir ? NULL : s->names.files, s->files, s->traces.index);
    return 0;
}

static void stop_files(struct serve *s)
{
    if (s->disk)
        disk_shares_count(s->disk, NULL, NULL, NULL);
    tenant_files_free(s->files);
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
                               .losses_ctx = serve_intake_senders(s->intake)};

    return alerts_new(&o, s->first.alerts, &s->alerts, e);
}

static void stop_alerts(struct serve *s)
{
    alerts_free(s->alerts);
}

static const char *public_url(const struct serve *s, const struct serve_config *c, char url[300])
{
    return c->ui.url ? c->ui.url : serve_url(s, url, 300);
}

/* Activates the rules of a configuration, a struct serve_load, and those that people added. */
static int apply_rules(void *ctx, const void *base, const struct option_tables *recording,
                       struct alert_added_list *alerts, struct err *e)
{
    struct serve *s = ctx;
    const struct serve_load *l = base;
    struct alert_sections sections = {
        &l->config.alerts,  &l->config.recording, conf_get(l->conf.root, "alerts"), conf_get(l->conf.root, "recording"),
        .added = recording, .added_rules = alerts};
    struct alert_rules *rules;
    char url[300];
    int r = alert_rules_new(&sections, &rules, e);

    if (r < 0)
        return r;
    r = alerts_change(s->alerts, rules, public_url(s, &l->config, url), e);
    alert_rules_unref(rules);
    return r;
}

static int start_rules(struct serve *s, struct err *e)
{
    return kept_rules_new(s->files, apply_rules, s, &s->first, &s->rules, e);
}

static void stop_rules(struct serve *s)
{
    kept_rules_free(s->rules);
}

/* Rules that clients added: after the listeners, whose URL is in the messages of alerts. */
static int activate_rules(struct serve *s, struct err *e)
{
    char url[300];
    int r = kept_rules_start(s->rules, &s->first, e);

    if (r == 0)
        return 0;
    log_warn("rules that were added are not active: %s", err_message(e, r));
    return alerts_set_url(s->alerts, public_url(s, &s->config, url));
}

static int start_scrape(struct serve *s, struct err *e)
{
    (void) e;
    return serve_scrape_new(serve_intake_sink(s->intake, ""), &s->args->scrape, &s->scrape);
}

static void stop_scrape(struct serve *s)
{
    serve_scrape_free(s->scrape);
}

static int start_pipelines(struct serve *s, struct err *e)
{
    const struct flow_inject ends = {.sink = serve_intake_sink(s->intake, ""), .traces = serve_traces_sink(&s->traces)};

    return serve_pipelines_start(&s->first.conf, &ends, &s->pipelines, e);
}

static void stop_pipelines(struct serve *s)
{
    serve_pipelines_stop(s->pipelines);
}

/* --- the list --- */

/* A stop may come before its start, and after one that failed. */
static const struct {
    int (*start)(struct serve *s, struct err *e);
    void (*stop)(struct serve *s);
} parts[] = {
    {find_dirs, NULL},
    {start_agent, stop_agent},   /* it needs the privileges */
    {serve_start_tls, stop_tls}, /* the key may be readable by root only */
    {serve_drop_rights, NULL},
    {watch_end, NULL},
    {start_shares, stop_shares},
    {open_auth, close_auth},
    {serve_people_know, NULL},
    {check_exposure, NULL},
    {start_loops, stop_loops},  /* answers end on them until the store is closed */
    {make_intake, free_intake}, /* keeps what the store has not acknowledged */
    {serve_store_open, close_store},
    {start_traces, stop_traces}, /* asks the store how far the clock is ahead */
    {start_names, stop_names},
    {start_files, stop_files},
    {serve_people_start, serve_people_stop},
    {open_intake, NULL},
    {start_alerts, stop_alerts},
    {start_rules, stop_rules},
    {run_agent, stop_agent},
    {start_intake, stop_intake}, /* asks the agent */
    {start_scrape, stop_scrape},
    {start_pipelines, stop_pipelines},
    {serve_start_front, serve_stop_front},
    {serve_start_listeners, serve_stop_listeners},
    {activate_rules, NULL},
};

void serve_stop(struct serve *s)
{
    if (!s)
        return;
    store_interrupt(s->store);
    for (size_t i = ARRAY_SIZE(parts); i-- > 0;)
        if (parts[i].stop)
            parts[i].stop(s);
    if (s->again)
        serve_load_done(s->again);
    mem_free(s->again);
    serve_load_done(&s->first);
    arena_done(&s->paths);
    mem_free(s);
}

/* --- reload --- */

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
        r = kept_rules_apply(s->rules, l, e);
    if (r < 0) {
        if (l)
            serve_load_done(l);
        mem_free(l);
        return r;
    }
    log_setup((enum log_level) l->config.log.level, (enum log_format) l->config.log.format);
    serve_intake_limits(s->intake, &l->config.limits);
    disk_shares_set(s->disk, &l->config);
    front_set_limits(s->front, l->config.limits.query_time, l->config.limits.tenant_queries);
    serve_store_retention(&l->config.retention, &sc);
    if (s->store->ops->set_retention)
        s->store->ops->set_retention(s->store, &sc);
    serve_traces_reload(&s->traces, &l->config);
    ui = serve_ui_settings(&l->config);
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

/* --- start --- */

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
    if (s->config.auth.tokens)
        log_info("tokens: %s", s->config.auth.tokens);
    else
        log_info("tokens: %s/tokens", s->data_dir);
    serve_rights_log(&s->rights);
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

int serve_start(struct serve_args *args, struct serve **ret, struct err *e)
{
    struct serve *s;
    int r = load(args, &s, e);

    if (r == 0)
        log_setup((enum log_level) s->config.log.level, (enum log_format) s->config.log.format);
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(parts); i++)
        r = parts[i].start(s, e);
    if (r < 0) {
        serve_stop(s);
        return r;
    }
    serve_end_started();
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
        r = serve_store_settings(s, &store, &engine, e);
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
