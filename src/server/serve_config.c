/* SPDX-License-Identifier: Apache-2.0 */
/* The option tables of wick.yaml, reading it into struct serve_config, and printing the reference page. See
 * serve_config.h. */
#include "server/serve_config.h"

#include <errno.h>

#include "base/log.h"

#define AT(type, f) offsetof(struct type, f)

static const struct option tls_options[] = {
    {"cert_file", OPT_STRING, AT(serve_tls, cert_file), NULL, "certificate chain, PEM", .required = true},
    {"key_file", OPT_STRING, AT(serve_tls, key_file), NULL, "private key, PEM", .required = true},
    {"client_ca_file", OPT_STRING, AT(serve_tls, client_ca_file), NULL,
     "require client certificates signed by this CA"},
    {0},
};

static const struct option listen_options[] = {
    {"http", OPT_STRING, AT(serve_listen, http), "127.0.0.1:4040",
     "address of the API and the web UI: HOST:PORT, a port of loopback, or unix:/path/to.sock"},
    {"otlp_grpc", OPT_STRING, AT(serve_listen, otlp_grpc), "127.0.0.1:4317", "address for OTLP/gRPC, or off"},
    {"otlp_http", OPT_STRING, AT(serve_listen, otlp_http), "127.0.0.1:4318", "address for OTLP/HTTP, or off"},
    {"hosts", OPT_STRINGS, AT(serve_listen, hosts), NULL, "host names of this server, in addition to localhost"},
    {"tls", OPT_TABLE, AT(serve_listen, tls), NULL, "TLS settings of all listeners", .table = tls_options,
     .present = AT(serve_tls, present) + AT(serve_listen, tls)},
    {"insecure", OPT_BOOL, AT(serve_listen, insecure), "false",
     "allow listening beyond loopback without TLS and tokens"},
    {0},
};

#define AUTH(f) (AT(serve_config, auth.f) - AT(serve_config, auth))
static const char *const anonymous_words[] = {"none", "send", "use", NULL};

static const struct option auth_options[] = {
    {"tokens", OPT_STRING, AUTH(tokens), NULL,
     "token file (default: tokens in the user's data directory). The log names it at the start"},
    {"anonymous", OPT_ENUM, AUTH(anonymous), "none",
     "what peers on other machines may do while there are no tokens, with listen.insecure: nothing (none), send profiles (send), or "
     "also query and upload symbols (use)",
     .words = anonymous_words},
    {"audit", OPT_STRING, AUTH(audit), NULL,
     "file that notes who changed what, one JSON object per line (default: audit.jsonl in the store's directory, if it has one), or off"},
    {"proxy", OPT_TABLE, AUTH(people.proxy), NULL, "a proxy that authenticates people and names them in headers",
     .table = people_proxy_options, .present = AT(people_proxy, present) + AUTH(people.proxy)},
    {"oidc", OPT_TABLE, AUTH(people.oidc), NULL, "login with an OpenID provider", .table = people_oidc_options,
     .present = AT(people_oidc, present) + AUTH(people.oidc)},
    {"grants", OPT_TABLES, AUTH(people.grants), NULL,
     "what people may do whom the proxy or the provider names: the first one that fits", .table = people_grant_options,
     .size = sizeof(struct people_grant)},
    {0},
};

static const char *const engines[] = {"segment", "memory", NULL};
static const char *const acks[] = {"quorum", "spool", NULL};
static const char *const stamps[] = {"ns", "us", "ms", "off", NULL};

#define STORE(f) (AT(serve_config, store.f) - AT(serve_config, store))
static const struct option store_options[] = {
    {"dir", OPT_STRING, STORE(dir), NULL,
     "directory for profiles (default: in the user's data directory), or clickhouse://USER@HOST:PORT/DATABASE"},
    {"engine", OPT_ENUM, STORE(engine), "segment",
     "segment (on disk) or memory (lost when the process exits); for ClickHouse set dir", .words = engines},
    {"ack", OPT_ENUM, STORE(ack), "quorum",
     "with ClickHouse, when profiles are acknowledged: quorum (once ClickHouse has them) or spool (once they are in a log on "
     "this machine's disk; they are sent later)",
     .words = acks},
    {"spool", OPT_STRING, STORE(spool), NULL, "directory of that log (default: spool in the user's data directory)"},
    {"spool_size", OPT_SIZE, STORE(spool_size), "1GiB", "size limit of that log; above it, senders must retry"},
    {"cold", OPT_STRING, STORE(cold), NULL,
     "object store for segments older than a day: s3://BUCKET/PREFIX?endpoint=URL (docs/scale.md)"},
    {"async", OPT_BOOL, STORE(async), "false",
     "acknowledge data before it is synced to disk: faster, but a crash may lose the last second"},
    {"timestamps", OPT_ENUM, STORE(timestamps), "ns", "resolution of sample timestamps: ns, us, ms or off",
     .words = stamps},
    {"memory", OPT_SIZE, STORE(memory), "64MiB", "memory for rows that are not yet in a segment"},
    {"cache", OPT_SIZE, STORE(cache), "256MiB", "memory for caches"},
    {"labels", OPT_STRINGS, STORE(labels), NULL,
     "resource attributes that are labels of a series, at most 48, besides service.name, service.namespace, service.version, "
     "deployment.environment, deployment.environment.name, host.name, k8s.namespace.name and the names of k8s workloads, which "
     "always are; 'auto', which is the default, stands for all that senders declare with at most label_values values. Queries that "
     "filter or group by labels are quick; any other attribute is read from detail, which is slower and possible for "
     "retention.detail. Each combination of values is a series (limits.series); a change applies to data that arrives later"},
    {"label_values", OPT_INT, STORE(label_values), "100",
     "how many values (per tenant, in half a day) a resource attribute may have to be a label by 'auto'; 0: none is"},
    {0},
};

static const struct option retention_service_options[] = {
    {"service", OPT_STRING, AT(serve_retention_service, service), NULL, "service.name", .required = true},
    {"keep", OPT_DURATION, AT(serve_retention_service, keep), NULL, "retention time", .required = true},
    {0},
};

static const struct option retention_options[] = {
    {"keep", OPT_DURATION, AT(serve_retention, keep), "30d", "retention time of profiles"},
    {"detail", OPT_DURATION, AT(serve_retention, detail), "7d",
     "retention time of individual samples, attributes and links"},
    {"size", OPT_SIZE, AT(serve_retention, size), "10GiB",
     "size limit of everything in the store's directory; over it, the tenant that has most loses its oldest profiles. Uploaded files may "
     "have half of it, spans an eighth, and profiles always have a quarter"},
    {"services", OPT_TABLES, AT(serve_retention, services), NULL, "shorter retention times for some services",
     .table = retention_service_options, .size = sizeof(struct serve_retention_service)},
    {0},
};

static const struct option traces_options[] = {
    {"enabled", OPT_BOOL, AT(serve_traces_config, enabled), "true",
     "whether OTLP traces are accepted and their spans stored; retention.keep applies to them"},
    {"size", OPT_SIZE, AT(serve_traces_config, size), "512MiB",
     "size limit of the span index (about 100 bytes a span), for all tenants; over it the oldest spans of the largest "
     "tenant are deleted; at most 64MiB for a store in memory"},
    {"link", OPT_STRING, AT(serve_traces_config, link), NULL,
     "URL that shows a trace in Jaeger, Tempo or Grafana, such as https://jaeger.example.com/trace/{trace_id}: {trace_id} "
     "and {span_id} are replaced"},
    {0},
};

static const struct option limits_tenant_options[] = {
    {"tenant", OPT_STRING, AT(serve_limits_tenant, tenant), NULL, "name, as in 'wick token create --tenant'",
     .required = true},
    {"samples_per_second", OPT_INT, AT(serve_limits_tenant, samples_per_second), "0",
     "limit for this tenant; 0: no limit"},
    {"series", OPT_INT, AT(serve_limits_tenant, series), "100000", "limit for this tenant; 0: no limit"},
    {"size", OPT_SIZE, AT(serve_limits_tenant, size), "0", "limit for this tenant; 0: retention.size alone"},
    {0},
};

static const struct option limits_options[] = {
    {"request", OPT_SIZE, AT(serve_limits, request), "64MiB", "maximum size of a request after decompression"},
    {"memory", OPT_SIZE, AT(serve_limits, memory), "0",
     "memory limit of the server, for rows not yet in a segment, stacks, names, caches and query results; above it, senders and "
     "queries must retry; 0: a quarter of the control group's or the machine's memory"},
    {"query_time", OPT_DURATION, AT(serve_limits, query_time), "30s", "time limit of a query"},
    {"query_memory", OPT_SIZE, AT(serve_limits, query_memory), "512MiB", "memory limit of a query"},
    {"query_workers", OPT_INT, AT(serve_limits, query_workers), "0",
     "number of concurrent queries; 0: one per CPU, at least 2"},
    {"samples_per_second", OPT_INT, AT(serve_limits, samples_per_second), "0",
     "samples per second that a tenant may send, with a burst of 10 s; more is refused with 429 and a delay; 0: no limit"},
    {"series", OPT_INT, AT(serve_limits, series), "100000",
     "series per tenant (distinct labels and types in about a day); requests with more new ones are refused with 429; 0: no limit"},
    {"tenant_queries", OPT_INT, AT(serve_limits, tenant_queries), "256",
     "queries of a tenant that wait or run at the same time; more are refused with 429, for this tenant only; 0: no limit. "
     "Tenants take turns, and no tenant runs more than limits.query_workers at a time, or half of them while others ask, too"},
    {"tenant_size", OPT_SIZE, AT(serve_limits, tenant_size), "0",
     "what a tenant may have on the disk: profiles with their symbols, spans, uploaded files and settings; over it, the tenant's own "
     "oldest profiles are deleted. Uploaded files may have half of it, spans an eighth. 0: retention.size alone"},
    {"tenants", OPT_TABLES, AT(serve_limits, tenants), NULL, "different limits for some tenants",
     .table = limits_tenant_options, .size = sizeof(struct serve_limits_tenant)},
    {0},
};

static const struct option symbols_options[] = {
    {"dir", OPT_STRING, AT(serve_symbols, dir), NULL,
     "directory for uploaded and downloaded files (default: in the store)"},
    {"quota", OPT_SIZE, AT(serve_symbols, quota), "8GiB", "size limit of each tenant's uploads, and of all downloads"},
    {"max_file", OPT_SIZE, AT(serve_symbols, max_file), "2GiB", "size limit of one file"},
    {"debuginfod", OPT_STRINGS, AT(serve_symbols, debuginfod), NULL,
     "debuginfod servers, such as https://debuginfod.debian.net; none: nothing is downloaded"},
    {"fetch_timeout", OPT_DURATION, AT(serve_symbols, fetch_timeout), "60s",
     "time limit for one download from debuginfod"},
    {"fetch_size", OPT_SIZE, AT(serve_symbols, fetch_size), "512MiB", "size limit of one file from debuginfod"},
    {"fetches_per_minute", OPT_INT, AT(serve_symbols, fetches_per_minute), "30",
     "maximum requests to debuginfod per minute, at most 256"},
    {"retry", OPT_DURATION, AT(serve_symbols, retry), "10m", "look for missing files again after this time"},
    {0},
};

static const struct option source_options[] = {
    {"prefix", OPT_STRING, AT(serve_source, prefix), NULL, "prefix of file names in profiles", .required = true},
    {"dir", OPT_STRING, AT(serve_source, dir), NULL, "directory in which these files are found"},
    {"repository", OPT_STRING, AT(serve_source, repository), NULL,
     "repository of these files, such as https://github.com/acme/shop; lines are linked in the version of the profile"},
    {"link", OPT_STRING, AT(serve_source, link), NULL,
     "link template for other forges and for editors (vscode://file{dir}/{path}:{line}): {path}, {line}, "
     "{revision} (the service's version, else HEAD), {repository} and {dir} are replaced"},
    {0},
};

static const struct option agent_options[] = {
    {"enabled", OPT_BOOL, AT(serve_agent, enabled), "true", "whether `wick serve` profiles this machine"},
    {"rate", OPT_INT, AT(serve_agent, rate), "0",
     "samples per second and CPU; 0: 19, and 99 in the first minute of a new installation"},
    {"budget", OPT_DOUBLE, AT(serve_agent, budget), "1",
     "CPU limit in percent of the machine, including BPF; 0: no limit"},
    {"memory", OPT_SIZE, AT(serve_agent, memory), "64MiB", "memory limit, including kernel maps"},
    {"both", OPT_BOOL, AT(serve_agent, both), "false", "do not mark CPU time that a process sends itself, too"},
    {"off_cpu", OPT_BOOL, AT(serve_agent, off_cpu), "false", "also record where threads wait (off-CPU)"},
    {"lines", OPT_BOOL, AT(serve_agent, lines), "true",
     "add lines and inlined functions where debug information exists"},
    {"include", OPT_STRINGS, AT(serve_agent, include), NULL,
     "rules for processes to include, such as name=nginx, user=www, cgroup~kubepods.*, exe=postgres/4 (one sample in 4): see "
     "docs/agent.md"},
    {"exclude", OPT_STRINGS, AT(serve_agent, exclude), NULL, "rules for processes to exclude; checked first"},
    {"rename", OPT_STRINGS, AT(serve_agent, rename), NULL,
     "REGEXP=NAME: rename services whose whole name matches; \\1 is the first group"},
    {"export", OPT_STRING, AT(serve_agent, export_to), NULL,
     "OTLP endpoint of `wick agent`; `wick serve` stores its own profiles"},
    {"interval", OPT_DURATION, AT(serve_agent, interval), "0s", "export interval of `wick agent`; 0: 10s"},
    {"upload_symbols", OPT_BOOL, AT(serve_agent, upload_symbols), "false",
     "`wick agent` uploads sampled binaries, so that the server can symbolize"},
    {"server", OPT_STRING, AT(serve_agent, server), NULL,
     "server to upload to (default: port 4040 of the host in export)"},
    {"k8s_api", OPT_STRING, AT(serve_agent, k8s_api), NULL,
     "Kubernetes API server where `wick agent` looks up pod names; in-cluster: the one of its cluster"},
    {0},
};

#define UI(f) (AT(serve_config, ui.f) - AT(serve_config, ui))
static const struct option ui_options[] = {
    {"own_code", OPT_STRING, UI(own_code), NULL,
     "regular expression for functions, files or binaries of your own code, for 'only my code'"},
    {"price_per_core_hour", OPT_DOUBLE, UI(price), "0", "price of one core for an hour; 0: show no costs"},
    {"currency", OPT_STRING, UI(currency), "USD", "currency of the price"},
    {"url", OPT_STRING, UI(url), NULL,
     "public URL of this server, such as https://wick.example.com, for links in alerts (default: the address it listens on)"},
    {0},
};

static const char *const levels[] = {"debug", "info", "warn", "error", NULL};
static const char *const formats[] = {"text", "logfmt", "json", NULL};

#define LOG(f) (AT(serve_config, log.f) - AT(serve_config, log))
static const struct option log_options[] = {
    {"level", OPT_ENUM, LOG(level), "info", "minimum level of log messages", .words = levels},
    {"format", OPT_ENUM, LOG(format), "logfmt", "logfmt, json or text", .words = formats},
    {0},
};

static const char *const roles[] = {"all", "ingest", "query", NULL};

const struct option serve_options[] = {
    {"user", OPT_STRING, AT(serve_config, user), NULL,
     "user to run as when started as root (default: wick if it exists, else an unprivileged uid without an "
     "account); \"\" to stay root"},
    {"role", OPT_ENUM, AT(serve_config, role), "all",
     "all, or one half of the work where servers share a store (docs/scale.md): ingest or query", .words = roles},
    {"listen", OPT_TABLE, AT(serve_config, listen), NULL, "addresses", .table = listen_options},
    {"auth", OPT_TABLE, AT(serve_config, auth), NULL, "access control", .table = auth_options},
    {"store", OPT_TABLE, AT(serve_config, store), NULL, "storage of profiles", .table = store_options},
    {"retention", OPT_TABLE, AT(serve_config, retention), NULL, "retention of profiles", .table = retention_options},
    {"traces", OPT_TABLE, AT(serve_config, traces), NULL,
     "spans of traces, to which profiles are linked: see docs/traces.md", .table = traces_options},
    {"limits", OPT_TABLE, AT(serve_config, limits), NULL, "resource limits", .table = limits_options},
    {"symbols", OPT_TABLE, AT(serve_config, symbols), NULL, "symbolization of native frames", .table = symbols_options},
    {"source", OPT_TABLES, AT(serve_config, source), NULL, "locations of source code", .table = source_options,
     .size = sizeof(struct serve_source)},
    {"agent", OPT_TABLE, AT(serve_config, agent), NULL,
     "the agent that profiles this machine, for wick serve and `wick agent --config`", .table = agent_options},
    {"ui", OPT_TABLE, AT(serve_config, ui), NULL, "the web UI", .table = ui_options},
    {"alerts", OPT_TABLE, AT(serve_config, alerts), NULL, "alert rules and their receivers: see docs/alerts.md",
     .table = alert_options},
    {"recording", OPT_TABLES, AT(serve_config, recording), NULL,
     "recording rules: costs of functions as metrics of this server (/metrics)", .table = recording_options,
     .size = sizeof(struct alert_recording_config)},
    {"log", OPT_TABLE, AT(serve_config, log), NULL, "messages", .table = log_options},
    {"receivers", OPT_IGNORED, 0, NULL, "as in the OpenTelemetry Collector: see docs/collector.md", .elsewhere = true},
    {"processors", OPT_IGNORED, 0, NULL, "as in the OpenTelemetry Collector", .elsewhere = true},
    {"exporters", OPT_IGNORED, 0, NULL, "as in the OpenTelemetry Collector", .elsewhere = true},
    {"extensions", OPT_IGNORED, 0, NULL, "as in the OpenTelemetry Collector", .elsewhere = true},
    {"service", OPT_IGNORED, 0, NULL, "as in the OpenTelemetry Collector", .elsewhere = true},
    {0},
};

struct serve_limits_tenant serve_limits_of(const struct serve_limits *l, const char *tenant)
{
    const struct serve_limits_tenant *t = l->tenants.v;

    for (uint32_t i = 0; i < l->tenants.n; i++)
        if (strcmp(t[i].tenant, tenant) == 0)
            return t[i];
    return (struct serve_limits_tenant){tenant, l->samples_per_second, l->series, l->tenant_size};
}

int serve_config_read(struct conf *c, struct serve_config *ret, struct err *e)
{
    int r;

    *ret = (struct serve_config){0};
    r = option_parse(c, serve_options, c->root, ret, e);
    return r < 0 ? r : people_check(&ret->auth.people, conf_get(c->root, "auth"), e);
}

void serve_config_reference(struct buf *out)
{
    buf_puts(out,
             "# Configuration of `wick serve`\n\n"
             "`wick serve --config wick.yaml`; every option has a default, and none is required. Sizes are written "
             "like 64MiB, times like 30s or 7d, and `${env:NAME:-default}` and `${file:PATH}` are expanded. Unknown "
             "options are errors that name the file and line; `wick serve --check` only checks.\n\n"
             "This page is generated by `wick serve --print-reference`.\n\n");
    option_help(out, serve_options, 0, true);
}
