/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a Collector configuration with one OTLP exporter and runs it as a pipeline. */
#include "host/export_flow.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/url.h"
#include "conf/yaml.h"
#include "pipeline/graph/flow.h"

struct export_flow {
    struct conf conf;
    struct plan *plan;
    struct flow *flow;
};

static bool is_http(struct str rest)
{
    ptrdiff_t slash = str_find_char(rest, '/');
    struct str host = str_slice(rest, 0, slash < 0 ? rest.n : (size_t) slash);

    return str_ends(host, STR(":4318")) || (slash >= 0 && slash + 1 < rest.n);
}

/* Appends s as a quoted YAML string, so that no content can end the string. */
static void put_quoted(struct buf *b, struct str s)
{
    buf_putc(b, '\'');
    for (uint32_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\'')
            buf_putc(b, '\'');
        buf_putc(b, s.p[i]);
    }
    buf_putc(b, '\'');
}

/* Names of pods. The service account's token is not sent to a server without encryption, such as `kubectl proxy`. */
static void put_kubernetes(struct buf *b, const char *api)
{
    buf_puts(b, "processors:\n  k8s_attributes:\n");
    if (strcmp(api, "in-cluster") != 0) {
        buf_puts(b, "    api_server: ");
        put_quoted(b, str_from(api));
        buf_printf(b, "\n    auth_type: %s\n", str_starts(str_from(api), STR("http://")) ? "none" : "serviceAccount");
    }
    buf_puts(b, "    filter: {node_from_env_var: KUBE_NODE_NAME}\n"
                "    extract: {metadata: [k8s.namespace.name, k8s.pod.name, k8s.deployment.name, k8s.statefulset.name, "
                "k8s.daemonset.name, k8s.job.name, k8s.cronjob.name, k8s.node.name, k8s.container.name, "
                "container.image.name, container.image.tag]}\n");
}

static int write_config(struct buf *b, const char *url, const char *token, const char *k8s_api, struct err *e)
{
    struct str s = str_from(url), rest = s;
    ptrdiff_t at = str_find(s, STR("://"));
    struct str scheme = at < 0 ? STR("") : str_slice(s, 0, (size_t) at);
    char shown[URL_SHOWN];
    bool http, tls = str_is(scheme, "https") || str_is(scheme, "grpcs");

    if (scheme.n && !str_is(scheme, "http") && !str_is(scheme, "grpc") && !tls)
        return err_set(e, -EINVAL, "--export: '%s' has an unknown scheme; supported: http, https, grpc, grpcs",
                       url_redact(url, shown, sizeof shown));
    if (at >= 0)
        rest = str_slice(s, (size_t) at + 3, s.n);
    if (!rest.n)
        return err_set(e, -EINVAL, "--export: '%s' has no host", url_redact(url, shown, sizeof shown));
    http = !str_starts(scheme, STR("grpc")) && is_http(rest);
    buf_printf(b, "receivers: {nop: }\nexporters:\n  %s:\n    endpoint: ", http ? "otlphttp" : "otlp");
    put_quoted(b, http ? s : rest);
    buf_printf(b, "\n    tls: {insecure: %s}\n", tls ? "false" : "true");
    buf_puts(b,
             "    compression_params: {level: 6}\n"); /* one request every few seconds: size matters more than speed */
    buf_puts(b, "    sending_queue: {queue_size: 200}\n    retry_on_failure: {max_elapsed_time: 0s}\n");
    if (token) {
        _cleanup_(buf_done) struct buf bearer = BUF_INIT;

        buf_printf(&bearer, "Bearer %s", token);
        buf_puts(b, "    headers: {authorization: ");
        put_quoted(b, buf_str(&bearer));
        buf_puts(b, "}\n");
    }
    if (k8s_api)
        put_kubernetes(b, k8s_api);
    buf_printf(b,
               "service:\n  telemetry: {metrics: {level: none}}\n  pipelines: {profiles: {receivers: [nop], "
               "processors: [%s], exporters: [%s]}}\n",
               k8s_api ? "k8s_attributes" : "", http ? "otlphttp" : "otlp");
    return buf_error(b);
}

int export_flow_new(const char *url, const char *token, const char *k8s_api, struct export_flow **ret, struct err *e)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct flow_inject inject = {.n_loops = 1};
    struct export_flow *f = mem_zalloc(sizeof *f);
    int r = f ? write_config(&text, url, token, k8s_api, e) : -ENOMEM;

    if (!f)
        return r;
    conf_init(&f->conf);
    if (r == 0)
        r = conf_parse(&f->conf, buf_str(&text), "--export", &f->conf.root, e);
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
