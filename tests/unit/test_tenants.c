/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every route of wick serve, asked by two tenants, by the default tenant and by nobody. The table below says of each route
 * what it is about; a route that is mounted and not in the table fails the test, so that no new one is forgotten.
 *
 * Each tenant stores profiles whose service, version and function end in its name, a span with such a name, and has an
 * alert rule. The trace and span IDs of all tenants are equal. An answer to one tenant must never hold the name of
 * another.
 */
#include "tap.h"

#include <stdlib.h>
#include <unistd.h>

#include "alert/alert.h"
#include "alert/alert_rules.h"
#include "base/clock.h"
#include "conf/option.h"
#include "made_spans.h"
#include "model/builder.h"
#include "model/symbolizer.h"
#include "net/fetch.h"
#include "serve/senders.h"
#include "serve/serve_intake.h"
#include "serve/serve_self.h"
#include "server/api.h"
#include "server/front.h"
#include "server/name_source.h"
#include "server/serve_config.h"
#include "server/tenant_files.h"
#include "server/ui_info.h"
#include "store/store.h"

enum { A, B, DEFAULT, TENANTS };
static const char *const tenants[TENANTS] = {"tenant_a", "tenant_b", ""};
static const char *const marks[TENANTS] = {"_of_a", "_of_b", "_of_default"};

enum about {
    OWN,     /* data of the tenant that asks: its mark must be there */
    FOUND,   /* what each tenant has under its own name: "regcomp" must be there, and not for another's name */
    COUNT,   /* a number of the tenant that asks: "count":1, and "count":0 for another's name */
    HOST,    /* the server or its machine: tenants get 403 even with admin tokens */
    NEUTRAL, /* anything, but no data of others */
};

static const struct expectation {
    const char *method, *path; /* as mounted */
    enum about about;
    const char *ask; /* with ? and what must be given; NULL: the path */
    const char *body;
} table[] = {
    {"GET", "/api/v1/flame", OWN, "/api/v1/flame?query=cpu"},
    {"GET", "/api/v1/top", OWN, "/api/v1/top?query=cpu"},
    {"GET", "/api/v1/callers", OWN, "/api/v1/callers?query=cpu&function=main%s"},
    {"GET", "/api/v1/lines", OWN, "/api/v1/lines?query=cpu&function=main%s"},
    {"GET", "/api/v1/symbols", NEUTRAL, "/api/v1/symbols?query=cpu"},
    {"GET", "/api/v1/verdicts", NEUTRAL, "/api/v1/verdicts?query=cpu"},
    {"GET", "/api/v1/coverage", NEUTRAL, "/api/v1/coverage?query=cpu"},
    {"GET", "/api/v1/series", OWN, "/api/v1/series?query=cpu&group_by=service.name"},
    {"GET", "/api/v1/leaks", NEUTRAL, "/api/v1/leaks?query=cpu"},
    {"GET", "/api/v1/profiles", OWN, "/api/v1/profiles?query=cpu"},
    {"GET", "/api/v1/spans", OWN, "/api/v1/spans?query=cpu&sort=duration&span_name=op%s"},
    {"GET", "/api/v1/deploys", OWN, "/api/v1/deploys?query=cpu"},
    {"GET", "/api/v1/drift", OWN, "/api/v1/drift?query=cpu&from=now-10m&baseline_from=now-2h&baseline_to=now-10m"},
    {"GET", "/api/v1/verdict", OWN, "/api/v1/verdict?service=main%s"},
    {"GET", "/api/v1/explain", FOUND, "/api/v1/explain?query=cpu%%7Bservice.name=%%22main%s%%22%%7D"},
    {"GET", "/api/v1/findings", OWN, "/api/v1/findings?query=cpu"},
    {"GET", "/api/v1/trends", OWN, "/api/v1/trends?query=cpu&group_by=service.name"},
    {"GET", "/api/v1/span", OWN, "/api/v1/span?query=cpu&span_name=op%s&service=main%s"},
    {"GET", "/api/v1/trace", OWN, "/api/v1/trace?trace_id=01070000000000000000000000000000"},
    {"GET", "/api/v1/span_names", OWN, "/api/v1/span_names"},
    {"GET", "/api/v1/span_heatmap", COUNT, "/api/v1/span_heatmap?span_name=op%s"},
    {"GET", "/api/v1/alerts", OWN},
    {"GET", "/api/v1/alerts/rule", NEUTRAL, "/api/v1/alerts/rule?query=cpu"},
    {"POST", "/api/v1/alerts/test", OWN, "/api/v1/alerts/test", ""},
    {"POST", "/api/v1/alerts/try", NEUTRAL, NULL,
     "{\"name\":\"x\",\"type\":\"threshold\",\"function\":\"main.*\",\"over\":\"0%\"}"},
    {"GET", "/api/v1/alerts/rules", NEUTRAL},
    {"POST", "/api/v1/alerts/rules", NEUTRAL, NULL, "{\"name\":\"x\",\"type\":\"drift\"}"},
    {"PUT", "/api/v1/alerts/rules/{id}", NEUTRAL, "/api/v1/alerts/rules/0", "{\"name\":\"x\",\"type\":\"drift\"}"},
    {"DELETE", "/api/v1/alerts/rules/{id}", NEUTRAL, "/api/v1/alerts/rules/0"},
    {"GET", "/api/v1/heatmap", NEUTRAL, "/api/v1/heatmap?query=cpu"},
    {"GET", "/api/v1/chart", NEUTRAL, "/api/v1/chart?query=cpu"},
    {"GET", "/api/v1/notes", NEUTRAL},
    {"POST", "/api/v1/notes", NEUTRAL, NULL, "{\"text\":\"x\"}"},
    {"DELETE", "/api/v1/notes/{id}", NEUTRAL, "/api/v1/notes/0"},
    {"GET", "/api/v1/views", NEUTRAL},
    {"POST", "/api/v1/views", NEUTRAL, NULL, "{\"text\":\"x\",\"url\":\"explore\"}"},
    {"DELETE", "/api/v1/views/{id}", NEUTRAL, "/api/v1/views/0"},
    {"POST", "/v1/traces", NEUTRAL},
    {"POST", "/opentelemetry.proto.collector.trace.v1.TraceService/Export", NEUTRAL},
    {"GET", "/api/v1/services", OWN},
    {"GET", "/api/v1/labels", NEUTRAL},
    {"GET", "/api/v1/labels/{name}/values", OWN, "/api/v1/labels/service.name/values"},
    {"GET", "/api/v1/types", NEUTRAL},
    {"GET", "/api/v1/profile", NEUTRAL, "/api/v1/profile?query=cpu&format=folded"},
    {"GET", "/api/v1/symbolz", NEUTRAL},
    {"POST", "/api/v1/symbolz", NEUTRAL, NULL, "0x10+0x20"},
    {"GET", "/api/v1/senders", OWN},
    {"GET", "/api/v1/source", NEUTRAL, "/api/v1/source?file=/src%s/secret"},
    {"GET", "/api/v1/source/links", NEUTRAL, "/api/v1/source/links?file=/x"},
    {"GET", "/api/v1/code", NEUTRAL, "/api/v1/code?build_id=abab&address=0x10&file=/src%s/secret"},
    {"GET", "/api/v1/status", NEUTRAL},
    {"GET", "/api/v1/session", NEUTRAL},
    {"POST", "/api/v1/login", NEUTRAL, NULL, "wick_wrong"},
    {"POST", "/api/v1/logout", NEUTRAL, NULL, ""},
    {"GET", "/api/v1/openapi.json", NEUTRAL},
    {"POST", "/mcp", NEUTRAL, NULL,
     "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"top\",\"arguments\":{\"query\":\"cpu\"}}}"},
    {"GET", "/pyroscope/render", OWN, "/pyroscope/render?query=cpu&from=now-1h"},
    {"GET", "/pyroscope/render-diff", NEUTRAL, "/pyroscope/render-diff?leftQuery=cpu&rightQuery=cpu"},
    {"GET", "/pyroscope/label-values", OWN, "/pyroscope/label-values?label=service_name"},
    {"GET", "/pyroscope/labels", NEUTRAL},
    {"POST", "/querier.v1.QuerierService/{method}", OWN, "/querier.v1.QuerierService/LabelValues",
     "{\"name\":\"service_name\"}"},
    {"POST", "/settings.v1.SettingsService/{method}", NEUTRAL, "/settings.v1.SettingsService/Get", "{}"},
    {"POST", "/settings.v1.RecordingRulesService/{method}", NEUTRAL,
     "/settings.v1.RecordingRulesService/ListRecordingRules", "{}"},
    {"POST", "/capabilities.v1.FeatureFlagsService/{method}", NEUTRAL,
     "/capabilities.v1.FeatureFlagsService/GetFeatureFlags", "{}"},
    {"POST", "/adhocprofiles.v1.AdHocProfileService/{method}", NEUTRAL, "/adhocprofiles.v1.AdHocProfileService/List",
     "{}"},
    {"POST", "/vcs.v1.VCSService/{method}", NEUTRAL, "/vcs.v1.VCSService/GithubApp", "{}"},
    {"POST", "/v1development/profiles", NEUTRAL, NULL, ""},
    {"POST", "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export", NEUTRAL, NULL, ""},
    {"PUT", "/api/v1/symbols/{build_id}", NEUTRAL, "/api/v1/symbols/abab", "x"},
    {"GET", "/api/v1/symbols/{build_id}", NEUTRAL, "/api/v1/symbols/abab"},
    {"DELETE", "/api/v1/symbols/{build_id}", NEUTRAL, "/api/v1/symbols/abab"},
    {"GET", "/api/v1/binaries", NEUTRAL},
    {"GET", "/buildid/{build_id}/debuginfo", NEUTRAL, "/buildid/abab/debuginfo"},
    {"GET", "/buildid/{build_id}/executable", NEUTRAL, "/buildid/abab/executable"},
    {"GET", "/buildid/{build_id}/source/*", NEUTRAL, "/buildid/abab/source/x.c"},
    {"POST", "/ingest", NEUTRAL, "/ingest?name=x", "a;b 1\n"},
    {"POST", "/api/v1/upload", NEUTRAL, NULL, "x"},
    {"POST", "/push.v1.PusherService/Push", NEUTRAL, NULL, "{}"},
    {"GET", "/healthz", NEUTRAL},
    {"GET", "/readyz", NEUTRAL},
    {"GET", "/ready", NEUTRAL},
    {"GET", "/metrics", HOST},
    {"POST", "/api/v1/store/confirm", HOST, NULL, ""},
    {"POST", "/api/v1/snapshot", HOST, NULL, ""},
    {"GET", "/pid/{pid}/debug/pprof/profile", HOST, "/pid/1/debug/pprof/profile?seconds=0"},
    {"GET", "/pid/{pid}/debug/pprof/symbol", HOST, "/pid/1/debug/pprof/symbol"},
    {"POST", "/pid/{pid}/debug/pprof/symbol", HOST, "/pid/1/debug/pprof/symbol", ""},
    {"GET", "/debug/pprof/profile", HOST, "/debug/pprof/profile?seconds=0"},
    {"GET", "/debug/pprof/wall", HOST, "/debug/pprof/wall?seconds=0"},
    {"GET", "/debug/pprof/cmdline", HOST},
    {"GET", "/debug/pprof/", HOST},
    {"GET", "/*", NEUTRAL, "/index.html"},
    {"POST", "/api/v1/delete", OWN, NULL, ""}, /* last: checked by hand */
};

struct world {
    struct store *store;
    struct sink sink;
    struct serve_intake *intake;
    struct serve_limits limits;
    struct ui_info ui;
    struct auth *auth;
    struct workers *workers;
    struct front *front;
    struct loop_group *loops;
    struct http_server *http;
    char dir[32], tokens[64], base[64];
    struct tenant_files *files;
    struct span_index *spans;
    struct alerts *alerts;
    char token[TENANTS][AUTH_TEXT_SIZE];
};

static void store_it(struct sink *s, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    store_append(container_of(s, struct world, sink)->store, data.batch, ctx, ack);
}

static void stored(struct ack *a, const struct ack_result *r)
{
    (void) a;
    eq_int(r->status, SINK_OK);
}

/* One profile: main_of_x calls regcomp(), as part of a span. */
static void fill(struct world *w, int tenant, int64_t time)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    _cleanup_(batch_unrefp) struct batch *batch = NULL;
    static struct ack ack = {stored};
    char name[64], file[64], version[64];
    struct link link = {.trace_id = {1, 7}, .span_id = {2, 7}};
    struct value_type t;
    struct function f;
    struct profile *p;
    struct line l;
    uint32_t locations[2];
    int64_t v = 42;

    snprintf(name, sizeof name, "main%s", marks[tenant]);
    snprintf(file, sizeof file, "/src%s/main.c", marks[tenant]);
    snprintf(version, sizeof version, "version%s", marks[tenant]);
    builder_new(NULL, &b);
    builder_resource(b);
    builder_resource_attr_str(b, STR("service.name"), str_from(name));
    builder_resource_attr_str(b, STR("service.version"), str_from(version));
    t = (struct value_type){builder_string(b, STR("cpu")), builder_string(b, STR("nanoseconds"))};
    p = builder_profile(b, &t, 1);
    p->time_ns = time;
    p->duration_ns = NS_PER_S / 2;
    f = (struct function){.name = builder_string(b, str_from(name)), .filename = builder_string(b, str_from(file))};
    l = (struct line){.function = builder_function(b, &f), .line = 3};
    locations[1] = builder_location(b, &(struct builder_location){.lines = &l, .n_lines = 1});
    f = (struct function){.name = builder_string(b, STR("regcomp"))};
    l = (struct line){.function = builder_function(b, &f)};
    locations[0] = builder_location(b, &(struct builder_location){.lines = &l, .n_lines = 1});
    builder_sample(
        b, &(struct builder_sample){
               .stack = builder_stack(b, locations, 2), .link = builder_link(b, &link), .values = &v, .n_values = 1});
    eq_int(builder_finish(b, &batch, NULL), 0);
    sink_consume(serve_intake_sink(w->intake, tenants[tenant]), batch,
                 &(struct sink_context){.tenant = tenants[tenant], .received_ns = clock_wall(), .peer = "127.0.0.1:1"},
                 &ack);
}

static void fill_spans(struct world *w, int tenant)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    char service[64], version[64], name[64];
    struct made_span s = {7, 7, 0, name, clock_wall() - 2 * NS_PER_S, NS_PER_S, 2, 0};

    snprintf(service, sizeof service, "main%s", marks[tenant]);
    snprintf(version, sizeof version, "version%s", marks[tenant]);
    snprintf(name, sizeof name, "op%s", marks[tenant]);
    put_request(&b, service, version, &s, 1);
    eq_int(append(w->spans, tenants[tenant], buf_str(&b), false).status, SINK_OK);
}

static void start_alerts(struct world *w)
{
    static const struct option sections[] = {{"alerts", OPT_TABLE, 0, NULL, "", .table = alert_options}, {0}};
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    _cleanup_(alert_rules_unrefp) struct alert_rules *rules = NULL;
    struct alert_config config = {0};
    struct option_tables recording = {0};
    struct err e = {0};
    struct conf c;

    buf_puts(&text, "alerts:\n  rules:\n");
    for (int i = 0; i < TENANTS; i++)
        buf_printf(&text, "    - {name: rule%s, type: threshold, function: main.*, over: 1%%, tenant: \"%s\"}\n",
                   marks[i], tenants[i]);
    conf_init(&c);
    eq_int(conf_parse(&c, buf_str(&text), "a.yaml", &c.root, &e), 0);
    eq_int(option_parse(&c, sections, c.root, &config, &e), 0);
    eq_int(alert_rules_new(
               &(struct alert_sections){&config, &recording, conf_get(c.root, "alerts"), conf_get(c.root, "recording")},
               &rules, &e),
           0);
    conf_done(&c);
    eq_int(alerts_new(&(struct alerts_options){.store = w->store, .spans = w->spans, .url = "http://localhost"}, rules,
                      &w->alerts, &e),
           0);
}

static void mount_all(struct world *w)
{
    static int (*const mounts[])(struct front * f) = {
        api_mount_query,      api_mount_status,    api_mount_profile, api_mount_mcp,   api_mount_openapi,
        api_mount_symbols,    api_mount_pyroscope, api_mount_render,  api_mount_views, api_mount_pid,
        api_mount_debuginfod, serve_self_mount,    api_mount_alerts,  api_mount_marks,
    };

    for (size_t i = 0; i < ARRAY_SIZE(mounts); i++)
        eq_int(mounts[i](w->front), 0);
    eq_int(serve_intake_mount(w->intake, w->front), 0);
    eq_int(api_mount_ui(w->front), 0);
}

static void world_init(struct world *w)
{
    struct http_server_options o = {.n_loops = 1, .begin = front_begin, .handle = front_handle};
    struct err e = {0};
    struct loop *loop;
    int port = 0;

    *w = (struct world){.dir = "/tmp/wick-tenants-XXXXXX", .sink = {store_it}, .limits.request = 1 << 20};
    ok(mkdtemp(w->dir) != NULL);
    snprintf(w->tokens, sizeof w->tokens, "%s/tokens", w->dir);
    eq_int(store_open(&store_memory, &(struct store_config){0}, &w->store, &e), 0);
    eq_int(span_index_open(&(struct span_index_config){0}, &w->spans, &e), 0);
    eq_int(auth_open(w->tokens, &w->auth, &e), 0);
    eq_int(serve_intake_new(&(struct serve_intake_options){.auth = w->auth, .limits = &w->limits}, &w->intake), 0);
    serve_intake_open(w->intake, &(struct serve_intake_ends){.store = &w->sink});
    eq_int(serve_intake_start(w->intake, &e), 0);
    for (int i = 0; i < TENANTS; i++) {
        struct auth_token t;

        fill(w, i, clock_wall() - 3600 * NS_PER_S);
        fill(w, i, clock_wall() - 2 * NS_PER_S);
        fill_spans(w, i);
        eq_int(auth_create(w->auth, &(struct auth_request){.scope = AUTH_ADMIN, .tenant = str_from(tenants[i])},
                           w->token[i], &t, &e),
               0);
    }
    eq_int(workers_new(&(struct workers_options){.n = 2, .waiting = 16}, &w->workers, &e), 0);
    w->ui =
        (struct ui_info){.mode = "server", .senders = serve_intake_senders(w->intake), .senders_json = senders_json};
    eq_int(tenant_files_open(NULL, 1 << 20, &w->files, &e), 0);
    start_alerts(w);
    eq_int(front_new(&(struct front_options){.store = w->store,
                                             .auth = w->auth,
                                             .workers = w->workers,
                                             .files = w->files,
                                             .spans = w->spans,
                                             .alerts = w->alerts,
                                             .version = "test",
                                             .ui = &w->ui},
                     &w->front, &e),
           0);
    mount_all(w);
    eq_int(loop_group_new(1, "test", &w->loops, &e), 0);
    loop = loop_group_at(w->loops, 0);
    o.loops = &loop;
    o.arg = w->front;
    eq_int(http_server_new(&o, &w->http, &e), 0);
    eq_int(http_server_listen(w->http, "127.0.0.1:0", &port, &e), 0);
    snprintf(w->base, sizeof w->base, "http://127.0.0.1:%d", port);
}

static void world_done(struct world *w)
{
    http_server_stop_wait(w->http, NS_PER_S);
    http_server_free(w->http);
    front_stop(w->front);
    workers_free(w->workers);
    loop_group_free(w->loops);
    serve_intake_free(w->intake);
    alerts_free(w->alerts);
    span_index_close(w->spans);
    front_free(w->front);
    tenant_files_free(w->files);
    auth_free(w->auth);
    store_close(w->store);
    unlink(w->tokens);
    rmdir(w->dir);
}

static bool shared; /* answers that were made for another request are accepted */

static int ask(struct world *w, const struct expectation *x, const char *target, const char *token, struct buf *out)
{
    char url[512], bearer[128];
    struct http_header h[3] = {{STR("content-type"), STR("application/json")},
                               {STR("cache-control"), shared ? STR("max-age=60") : STR("max-age=0")}};
    struct fetch_result r = {0};
    struct err e = {0};
    int status;

    snprintf(url, sizeof url, "%s%s", w->base, target);
    snprintf(bearer, sizeof bearer, "Bearer %s", token ? token : "");
    h[2] = (struct http_header){STR("authorization"), str_from(bearer)};
    if (fetch_url(&(struct fetch_options){.url = url,
                                          .method = x->method,
                                          .headers = h,
                                          .n_headers = token ? 3 : 2,
                                          .body = str_from(x->body),
                                          .timeout_ns = 30 * NS_PER_S},
                  &r, &e) < 0)
        tap_fail("%s: %s", target, e.message);
    status = r.status;
    buf_reset(out);
    buf_put(out, r.body.p, r.body.n);
    fetch_result_done(&r);
    return status;
}

static bool has(const struct buf *b, const char *mark)
{
    return b->n && str_find(buf_str(b), str_from(mark)) >= 0;
}

#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* targets come from a table */
static void check(struct world *w, const struct expectation *x, const struct route *r)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    char target[256], secret[64];
    int status;

    for (int i = 0; i < TENANTS; i++) {
        snprintf(target, sizeof target, x->ask ? x->ask : x->path, marks[i], marks[i]);
        status = ask(w, x, target, w->token[i], &b);
        for (int other = 0; other < TENANTS; other++)
            if (other != i && has(&b, marks[other]))
                tap_fail("%s %s: tenant '%s' sees what is tenant '%s's", x->method, target, tenants[i], tenants[other]);
        if (x->about == OWN && (status != 200 || !has(&b, marks[i])))
            tap_fail("%s %s: tenant '%s' does not see its own: %d %.*s", x->method, target, tenants[i], status,
                     STR_FMT(buf_str(&b)));
        if (x->about == FOUND && (status != 200 || !has(&b, "regcomp")))
            tap_fail("%s %s: tenant '%s' does not see its own: %d %.*s", x->method, target, tenants[i], status,
                     STR_FMT(buf_str(&b)));
        if (x->about == COUNT && (status != 200 || !has(&b, "\"count\":1,")))
            tap_fail("%s %s: tenant '%s' does not see its own: %d %.*s", x->method, target, tenants[i], status,
                     STR_FMT(buf_str(&b)));
        if (x->about == HOST && (status == 403) != (i != DEFAULT))
            tap_fail("%s %s: tenant '%s' got %d", x->method, target, tenants[i], status);
        if (i != DEFAULT && x->ask && strstr(x->ask, "%s")) { /* by the other's name */
            snprintf(target, sizeof target, x->ask, marks[1 - i], marks[1 - i]);
            snprintf(secret, sizeof secret, "version%s", marks[1 - i]);
            ask(w, x, target, w->token[i], &b);
            if ((has(&b, "main.c") && has(&b, marks[1 - i])) || has(&b, secret) || has(&b, "regcomp") ||
                (x->about == COUNT && !has(&b, "\"count\":0,")))
                tap_fail("%s %s: tenant '%s' sees what is another's", x->method, target, tenants[i]);
        }
    }
    snprintf(target, sizeof target, x->ask ? x->ask : x->path, marks[A], marks[A]);
    status = ask(w, x, target, NULL, &b);
    if ((status == 401) != (r->scope != AUTH_NONE) && !(r->scope == AUTH_NONE && status == 403))
        tap_fail("%s %s: without a token %d", x->method, target, status);
    for (int i = 0; i < TENANTS; i++)
        ok(!has(&b, marks[i]) || strstr(target, marks[i]));
}

static const struct expectation *find(const struct route *r)
{
    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        if (strcmp(table[i].method, r->method) == 0 && strcmp(table[i].path, r->path) == 0)
            return &table[i];
    return NULL;
}

static void test_matrix(void)
{
    struct world w;
    const struct route *r;
    size_t n = 0;

    world_init(&w);
    shared = true;
    for (int twice = 0; twice < 2; twice++) /* the second time, every question was asked before, by each tenant */
        for (size_t i = 0; (r = front_route(w.front, i)); i++)
            if (strcmp(r->method, "GET") == 0 && strncmp(r->path, "/api/v1/", 8) == 0 && find(r))
                check(&w, find(r), r);
    shared = false;
    for (size_t i = 0; (r = front_route(w.front, i)); i++, n++) {
        const struct expectation *x = find(r);

        if (!x)
            tap_fail("%s %s is not in this test's table: say whose data it gives", r->method, r->path);
        else if (strcmp(x->path, "/api/v1/delete") != 0)
            check(&w, x, r);
    }
    eq_int(n, ARRAY_SIZE(table));
    world_done(&w);
}

/* Deleting all of one tenant leaves the other's. */
static void test_delete(void)
{
    static const struct expectation delete_all = {"POST", "/api/v1/delete", OWN, NULL, ""};
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct world w;

    world_init(&w);
    shared = true;
    eq_int(ask(&w, &table[1], "/api/v1/top?query=cpu", w.token[A], &b), 200);
    ok(has(&b, marks[A]));
    eq_int(ask(&w, &delete_all, "/api/v1/delete?query=cpu&from=0&to=now", w.token[A], &b), 200);
    eq_int(ask(&w, &table[1], "/api/v1/top?query=cpu", w.token[A], &b), 200);
    ok(!has(&b, marks[A]));
    shared = false;
    eq_int(ask(&w, &table[1], "/api/v1/top?query=cpu", w.token[B], &b), 200);
    ok(has(&b, marks[B]));
    for (int i = A; i <= B; i++) { /* profiles of one type were deleted: not the spans */
        eq_int(ask(&w, &table[1], "/api/v1/span_names", w.token[i], &b), 200);
        ok(has(&b, marks[i]));
    }
    eq_int(ask(&w, &delete_all, "/api/v1/delete?query=%7B%7D&from=0&to=now", w.token[A], &b), 200);
    eq_int(ask(&w, &table[1], "/api/v1/span_names", w.token[A], &b), 200);
    ok(!has(&b, marks[A]));
    eq_int(ask(&w, &table[1], "/api/v1/span_names", w.token[B], &b), 200);
    ok(has(&b, marks[B]));
    eq_int(ask(&w, &delete_all, "/api/v1/delete?query=spans%7Bservice.name=%22main_of_b%22%7D&from=0&to=now",
               w.token[B], &b),
           200);
    eq_int(ask(&w, &table[1], "/api/v1/span_names", w.token[B], &b), 200);
    ok(!has(&b, marks[B]));
    eq_int(ask(&w, &table[1], "/api/v1/top?query=cpu", w.token[B], &b), 200);
    ok(has(&b, marks[B]));
    world_done(&w);
}

int main(void)
{
    tap_run(test_matrix);
    tap_run(test_delete);
    return tap_done();
}
