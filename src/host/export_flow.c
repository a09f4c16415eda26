/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a Collector configuration with one OTLP exporter, node by node, and runs it as a pipeline (export_flow.h). */
#include "host/export_flow.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/url.h"
#include "conf/yaml.h"
#include "host/scrape_config.h"
#include "pipeline/graph/flow.h"

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

/* Makes nodes; the first failure is kept in r. */
struct export_config {
    struct conf *conf;
    int r;
};

static void put(struct export_config *x, struct conf_node *into, const char *key, struct conf_node *n)
{
    struct str k = key ? arena_str(&x->conf->arena, str_from(key)) : (struct str){0};

    if (x->r == 0)
        x->r = into && n ? conf_append(x->conf, into, k, n) : -ENOMEM;
}

static struct conf_node *put_node(struct export_config *x, struct conf_node *into, const char *key, enum conf_kind kind)
{
    struct conf_node *n = x->r == 0 ? conf_new(x->conf, kind, "--export", 1) : NULL;

    put(x, into, key, n);
    return n;
}

static struct conf_node *put_map(struct export_config *x, struct conf_node *into, const char *key)
{
    return put_node(x, into, key, CONF_MAP);
}

static void put_text(struct export_config *x, struct conf_node *into, const char *key, struct str text)
{
    struct conf_node *n = put_node(x, into, key, CONF_SCALAR);

    if (!n)
        return;
    n->text = arena_str(&x->conf->arena, text);
    if (!n->text.p)
        x->r = -ENOMEM;
}

/* A string whatever it looks like, as if it were quoted. */
static void put_string(struct export_config *x, struct conf_node *into, const char *key, struct str text)
{
    put_text(x, into, key, text);
    if (x->r == 0)
        into->items[into->n - 1]->quoted = true;
}

static void put_list(struct export_config *x, struct conf_node *into, const char *key, const char *const *items)
{
    struct conf_node *list = put_node(x, into, key, CONF_LIST);

    for (; items[0]; items++)
        put_text(x, list, NULL, str_from(items[0]));
}

/* Names of pods. The service account's token is not sent to a server without encryption, such as `kubectl proxy`. */
static void put_kubernetes(struct export_config *x, struct conf_node *root, const char *api)
{
    static const char *const metadata[] = {"k8s.namespace.name",   "k8s.pod.name",        "k8s.deployment.name",
                                           "k8s.statefulset.name", "k8s.daemonset.name",  "k8s.job.name",
                                           "k8s.cronjob.name",     "k8s.node.name",       "k8s.container.name",
                                           "container.image.name", "container.image.tag", NULL};
    struct conf_node *k8s = put_map(x, put_map(x, root, "processors"), "k8s_attributes");

    if (strcmp(api, "in-cluster") != 0) {
        put_string(x, k8s, "api_server", str_from(api));
        put_text(x, k8s, "auth_type", str_starts(str_from(api), STR("http://")) ? STR("none") : STR("serviceAccount"));
    }
    put_text(x, put_map(x, k8s, "filter"), "node_from_env_var", STR("KUBE_NODE_NAME"));
    put_list(x, put_map(x, k8s, "extract"), "metadata", metadata);
}

static void put_exporter(struct export_config *x, struct conf_node *root, const struct export_way *way,
                         const char *token)
{
    struct conf_node *n = put_map(x, put_map(x, root, "exporters"), way->exporter);

    put_string(x, n, "endpoint", way->endpoint);
    if (way->ask)
        put_text(x, n, "protocol", STR("auto"));
    put_text(x, put_map(x, n, "tls"), "insecure", way->tls ? STR("false") : STR("true"));
    /* one request every few seconds: size matters more than speed */
    put_text(x, put_map(x, n, "compression_params"), "level", STR("6"));
    put_text(x, put_map(x, n, "sending_queue"), "queue_size", STR("200"));
    put_text(x, put_map(x, n, "retry_on_failure"), "max_elapsed_time", STR("0s"));
    if (token) {
        _cleanup_(buf_done) struct buf bearer = BUF_INIT;

        buf_printf(&bearer, "Bearer %s", token);
        put_string(x, put_map(x, n, "headers"), "authorization", buf_str(&bearer));
    }
}

static void put_service(struct export_config *x, struct conf_node *root, const char *exporter, bool k8s)
{
    struct conf_node *service = put_map(x, root, "service");
    struct conf_node *pipeline;

    put_text(x, put_map(x, put_map(x, service, "telemetry"), "metrics"), "level", STR("none"));
    pipeline = put_map(x, put_map(x, service, "pipelines"), "profiles");
    put_list(x, pipeline, "receivers", (const char *const[]){"nop", NULL});
    put_list(x, pipeline, "processors", (const char *const[]){k8s ? "k8s_attributes" : NULL, NULL});
    put_list(x, pipeline, "exporters", (const char *const[]){exporter, NULL});
}

static int make_config(struct conf *c, const struct export_options *o, struct err *e)
{
    struct export_config x = {.conf = c};
    struct export_way way;
    int r = read_url(o->url, &way, e);

    if (r < 0)
        return r;
    c->root = conf_new(c, CONF_MAP, "--export", 1);
    put_node(&x, put_map(&x, c->root, "receivers"), "nop", CONF_NULL);
    put_exporter(&x, c->root, &way, o->token);
    if (o->k8s_api)
        put_kubernetes(&x, c->root, o->k8s_api);
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
