/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a Collector configuration with one OTLP exporter, node by node, and runs it as a pipeline (export_flow.h). */
#include "host/export_flow.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/url.h"
#include "conf/conf_make.h"
#include "conf/yaml.h"
#include "host/scrape_config.h"
#include "pipeline/graph/flow.h"
#include "pipeline/k8s/k8s_pods.h"

struct export_flow {
    struct conf conf;
    struct plan *plan;
    struct flow *flow;
};

/* Which exporter sends to a URL, and how. */
struct export_way {
    const char *exporter; /* "otlp" or "otlphttp" */
    struct str endpoint;
    bool tls, ask;
};

/* Port 4317, no port and grpc:// mean gRPC, port 4318 and a path mean HTTP. A peer at any other port of an http(s) URL is
 * asked. */
static int read_url(const char *url, struct export_way *ret, struct err *e)
{
    struct str s = str_from(url), rest = s, host, scheme = {0};
    ptrdiff_t at = str_find(s, STR("://")), slash;
    char shown[URL_SHOWN];
    bool path, port;

    if (at >= 0) {
        scheme = str_slice(s, 0, (size_t) at);
        rest = str_slice(s, (size_t) at + 3, s.n);
    }
    *ret = (struct export_way){"otlp", rest, str_is(scheme, "https") || str_is(scheme, "grpcs"), false};
    if (scheme.n && !str_is(scheme, "http") && !str_is(scheme, "grpc") && !ret->tls)
        return err_set(e, -EINVAL, "--export: '%s' has an unknown scheme; supported: http, https, grpc, grpcs",
                       url_redact(url, shown, sizeof shown));
    if (!rest.n)
        return err_set(e, -EINVAL, "--export: '%s' has no host", url_redact(url, shown, sizeof shown));
    slash = str_find_char(rest, '/');
    host = str_slice(rest, 0, slash < 0 ? rest.n : (size_t) slash);
    path = slash >= 0 && slash + 1 < rest.n;
    port = str_find_char(host.n && host.p[0] == '[' ? str_slice(host, (size_t) MAX(str_find_char(host, ']'), 0), host.n)
                                                    : host,
                         ':') >= 0;
    if (!str_starts(scheme, STR("http"))) {
        if (!scheme.n && (path || str_ends(host, STR(":4318"))))
            return err_set(e, -EINVAL, "--export: '%s' needs a scheme: http:// or https://",
                           url_redact(url, shown, sizeof shown));
        return 0;
    }
    if (path || str_ends(host, STR(":4318"))) {
        ret->exporter = "otlphttp";
        ret->endpoint = s;
    } else if (port && !str_ends(host, STR(":4317"))) {
        ret->endpoint = s;
        ret->ask = true;
    }
    return 0;
}

/* --- the configuration --- */

/* Names of pods. The service account's token is not sent to a server without encryption, such as `kubectl proxy`. */
static void put_kubernetes(struct conf_maker *x, struct conf_node *root, const char *api)
{
    static const char *const metadata[] = {"k8s.namespace.name",   "k8s.pod.name",        "k8s.deployment.name",
                                           "k8s.statefulset.name", "k8s.daemonset.name",  "k8s.job.name",
                                           "k8s.cronjob.name",     "k8s.node.name",       "k8s.container.name",
                                           "container.image.name", "container.image.tag", NULL};
    struct conf_node *k8s = make_map(x, make_map(x, root, "processors"), "k8s_attributes");

    if (strcmp(api, "in-cluster") != 0) {
        make_string(x, k8s, "api_server", str_from(api));
        make_text(x, k8s, "auth_type", str_starts(str_from(api), STR("http://")) ? STR("none") : STR("serviceAccount"));
    }
    make_text(x, make_map(x, k8s, "filter"), "node_from_env_var", STR("KUBE_NODE_NAME"));
    make_list(x, make_map(x, k8s, "extract"), "metadata", metadata);
    make_text(x, make_map(x, k8s, "extract"), "service_annotation", STR("wick.dev/service"));
}

/* Scrapes the pods of this node that ask for it by an annotation. */
static void put_pods(struct conf_maker *x, struct conf_node *root, const char *api)
{
    struct conf_node *k8s = make_map(x, make_map(x, make_map(x, root, "receivers"), "pprof/pods"), "kubernetes");

    make_string(x, k8s, "api_server", str_from(api));
    if (str_starts(str_from(api), STR("https://"))) {
        make_text(x, k8s, "token_file", STR(K8S_ACCOUNT "token"));
        make_text(x, k8s, "ca_file", STR(K8S_ACCOUNT "ca.crt"));
    }
    make_text(x, k8s, "node_from_env_var", STR("KUBE_NODE_NAME"));
}

static void put_exporter(struct conf_maker *x, struct conf_node *root, const struct export_way *way, const char *token)
{
    struct conf_node *n = make_map(x, make_map(x, root, "exporters"), way->exporter);

    make_string(x, n, "endpoint", way->endpoint);
    if (way->ask)
        make_text(x, n, "protocol", STR("auto"));
    make_text(x, make_map(x, n, "tls"), "insecure", way->tls ? STR("false") : STR("true"));
    /* one request every few seconds: size matters more than speed */
    make_text(x, make_map(x, n, "compression_params"), "level", STR("6"));
    make_text(x, make_map(x, n, "sending_queue"), "queue_size", STR("200"));
    make_text(x, make_map(x, n, "retry_on_failure"), "max_elapsed_time", STR("0s"));
    if (token) {
        _cleanup_(buf_done) struct buf bearer = BUF_INIT;

        buf_printf(&bearer, "Bearer %s", token);
        make_string(x, make_map(x, n, "headers"), "authorization", buf_str(&bearer));
    }
}

static void put_service(struct conf_maker *x, struct conf_node *root, const char *exporter, bool k8s)
{
    struct conf_node *service = make_map(x, root, "service");
    struct conf_node *pipeline;

    make_text(x, make_map(x, make_map(x, service, "telemetry"), "metrics"), "level", STR("none"));
    pipeline = make_map(x, make_map(x, service, "pipelines"), "profiles");
    make_list(x, pipeline, "receivers", (const char *const[]){"nop", k8s ? "pprof/pods" : NULL, NULL});
    make_list(x, pipeline, "processors", (const char *const[]){k8s ? "k8s_attributes" : NULL, NULL});
    make_list(x, pipeline, "exporters", (const char *const[]){exporter, NULL});
}

static int make_config(struct conf *c, const struct export_options *o, struct err *e)
{
    struct conf_maker x = {c, "--export", 0};
    struct export_way way;
    int r = read_url(o->url, &way, e);

    if (r < 0)
        return r;
    c->root = conf_new(c, CONF_MAP, "--export", 1);
    make_node(&x, make_map(&x, c->root, "receivers"), "nop", CONF_NULL);
    put_exporter(&x, c->root, &way, o->token);
    if (o->k8s_api) {
        put_kubernetes(&x, c->root, o->k8s_api);
        put_pods(&x, c->root, o->k8s_api);
    }
    put_service(&x, c->root, way.exporter, o->k8s_api != NULL);
    return x.r < 0 ? x.r : scrape_config_add(c, o->scrape, way.exporter, e);
}

int export_flow_new(const struct export_options *o, struct export_flow **ret, struct err *e)
{
    struct flow_inject inject = {.n_loops = 1};
    struct export_flow *f = mem_zalloc(sizeof *f);
    int r;

    if (!f)
        return -ENOMEM;
    conf_init(&f->conf);
    r = make_config(&f->conf, o, e);
    if (r == 0)
        r = plan_read(&f->conf, false, NULL, NULL, &f->plan, e);
    if (r == 0)
        r = flow_new(f->plan, &inject, &f->flow, e);
    if (r == 0)
        r = flow_start(f->flow, e);
    if (r < 0) {
        flow_free(f->flow);
        f->flow = NULL;
        export_flow_free(f);
        return r;
    }
    *ret = f;
    return 0;
}

struct sink *export_flow_sink(struct export_flow *f)
{
    return flow_head(f->flow, 0);
}

void export_flow_free(struct export_flow *f)
{
    if (!f)
        return;
    if (f->flow) {
        flow_stop(f->flow);
        flow_free(f->flow);
    }
    conf_done(&f->conf);
    mem_free(f);
}
