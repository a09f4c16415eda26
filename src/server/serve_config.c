/* SPDX-License-Identifier: Apache-2.0 */
/* The option tables of wick.yaml, reading it into struct serve_config, and printing the reference page. See
 * serve_config.h. */
#include "server/serve_config.h"

#include <errno.h>

#include "base/log.h"

#define AT(type, f) offsetof(struct type, f)

static const struct option tls_options[] = {
    {"cert_file", OPT_STRING, AT(serve_tls, cert_file), NULL, "certificate chain, PEM", .required = true},
    {"key_file", OPT_STRING, AT(serve_tls, key_file), NULL, "its private key, PEM", .required = true},
    {"client_ca_file", OPT_STRING, AT(serve_tls, client_ca_file), NULL,
     "clients must have a certificate of this authority"},
    {0},
};

static const struct option listen_options[] = {
    {"http", OPT_STRING, AT(serve_listen, http), "127.0.0.1:4040", "API and UI; also unix:/path/to.sock"},
    {"otlp_grpc", OPT_STRING, AT(serve_listen, otlp_grpc), "127.0.0.1:4317", "OTLP over gRPC; off for none"},
    {"otlp_http", OPT_STRING, AT(serve_listen, otlp_http), "127.0.0.1:4318", "OTLP over HTTP; off for none"},
    {"hosts", OPT_STRINGS, AT(serve_listen, hosts), NULL, "host names this server is reached by, besides localhost"},
    {"tls", OPT_TABLE, AT(serve_listen, tls), NULL, "encryption of all listeners", .table = tls_options,
     .present = AT(serve_tls, present) + AT(serve_listen, tls)},
    {"insecure", OPT_BOOL, AT(serve_listen, insecure), "false", "listen beyond loopback without TLS and a token"},
    {0},
};

static const struct option auth_options[] = {
    {"tokens", OPT_STRING, AT(serve_config, auth.tokens) - AT(serve_config, auth), NULL,
     "token file (default: tokens beside the store)"},
    {0},
};

#define STORE(f) (AT(serve_config, store.f) - AT(serve_config, store))
static const struct option store_options[] = {
    {"dir", OPT_STRING, STORE(dir), NULL, "where profiles are kept (default: in the user's data directory)"},
    {"engine", OPT_STRING, STORE(engine), "segment", "segment (on disk) or memory (gone with the process)"},
    {"async", OPT_BOOL, STORE(async), "false",
     "acknowledge before the disk has it: faster, and a crash may lose the last second"},
    {"timestamps", OPT_STRING, STORE(timestamps), "ns", "resolution of samples' times: ns, us, ms or off"},
    {"memory", OPT_SIZE, STORE(memory), "64MiB", "of rows that are not in a segment yet"},
    {"cache", OPT_SIZE, STORE(cache), "256MiB", "of what is kept between questions and can be read again"},
    {0},
};

static const struct option retention_service_options[] = {
    {"service", OPT_STRING, AT(serve_retention_service, service), NULL, "service.name", .required = true},
    {"keep", OPT_DURATION, AT(serve_retention_service, keep), NULL, "how long", .required = true},
    {0},
};

static const struct option retention_options[] = {
    {"keep", OPT_DURATION, AT(serve_retention, keep), "30d", "how long profiles are kept"},
    {"detail", OPT_DURATION, AT(serve_retention, detail), "7d",
     "how long single samples, attributes and links are kept"},
    {"size", OPT_SIZE, AT(serve_retention, size), "10GiB", "the oldest goes when the store is larger"},
    {"services", OPT_TABLES, AT(serve_retention, services), NULL, "shorter for some services",
     .table = retention_service_options, .size = sizeof(struct serve_retention_service)},
    {0},
};

static const struct option limits_tenant_options[] = {
    {"tenant", OPT_STRING, AT(serve_limits_tenant, tenant), NULL, "its name, as in 'wick token create --tenant'",
     .required = true},
    {"samples_per_second", OPT_INT, AT(serve_limits_tenant, samples_per_second), "0", "for this one; 0: no limit"},
    {"series", OPT_INT, AT(serve_limits_tenant, series), "100000", "for this one; 0: no limit"},
    {0},
};

static const struct option limits_options[] = {
    {"request", OPT_SIZE, AT(serve_limits, request), "64MiB", "size of one request, inflated"},
    {"memory", OPT_SIZE, AT(serve_limits, memory), "0",
     "of the server: rows that are not in a segment yet, stacks and names, caches and answers together; over it senders and "
     "questions are told to wait; 0: a quarter of the control group or the machine"},
    {"query_time", OPT_DURATION, AT(serve_limits, query_time), "30s", "time of one answer"},
    {"query_memory", OPT_SIZE, AT(serve_limits, query_memory), "512MiB", "memory of one answer"},
    {"query_workers", OPT_INT, AT(serve_limits, query_workers), "0", "answers at once; 0: one per CPU, at least 2"},
    {"samples_per_second", OPT_INT, AT(serve_limits, samples_per_second), "0",
     "that one tenant may send, with 10 s of it saved up; more is answered with 429 and a delay; 0: no limit"},
    {"series", OPT_INT, AT(serve_limits, series), "100000",
     "of one tenant, distinct labels and types in about a day; requests with more new ones are answered with 429; 0: no limit"},
    {"tenant_queries", OPT_INT, AT(serve_limits, tenant_queries), "0",
     "answers that one tenant may wait for at once; more are refused with 429; 0: no limit"},
    {"tenants", OPT_TABLES, AT(serve_limits, tenants), NULL, "other limits for some tenants",
     .table = limits_tenant_options, .size = sizeof(struct serve_limits_tenant)},
    {0},
};

static const struct option symbols_options[] = {
    {"dir", OPT_STRING, AT(serve_symbols, dir), NULL,
     "where uploaded and fetched files are kept (default: in the store)"},
    {"quota", OPT_SIZE, AT(serve_symbols, quota), "8GiB", "of one tenant's uploads, and of all that was fetched"},
    {"max_file", OPT_SIZE, AT(serve_symbols, max_file), "2GiB", "of one file"},
    {"debuginfod", OPT_STRINGS, AT(serve_symbols, debuginfod), NULL,
     "servers to ask for debug files, as https://debuginfod.debian.net; none: no other machine is asked"},
    {"fetch_timeout", OPT_DURATION, AT(serve_symbols, fetch_timeout), "60s", "of one file from debuginfod"},
    {"fetch_size", OPT_SIZE, AT(serve_symbols, fetch_size), "512MiB", "of one file from debuginfod"},
    {"fetches_per_minute", OPT_INT, AT(serve_symbols, fetches_per_minute), "30", "requests to debuginfod, at most 256"},
    {"retry", OPT_DURATION, AT(serve_symbols, retry), "10m", "look again for what was not found after this"},
    {0},
};

static const struct option source_options[] = {
    {"prefix", OPT_STRING, AT(serve_source, prefix), NULL, "file names in profiles that start with this",
     .required = true},
    {"dir", OPT_STRING, AT(serve_source, dir), NULL, "are read below this directory"},
    {"repository", OPT_STRING, AT(serve_source, repository), NULL,
     "they are of this repository, as https://github.com/acme/shop: linked to their line in the profile's version"},
    {"link", OPT_STRING, AT(serve_source, link), NULL,
     "how they are linked, for other forges and for editors (vscode://file{dir}/{path}:{line}): {path}, {line}, "
     "{revision} (the service's version, else HEAD), {repository} and {dir} are filled in"},
    {0},
};

static const struct option agent_options[] = {
    {"enabled", OPT_BOOL, AT(serve_agent, enabled), "true", "whether `wick serve` samples this machine"},
    {"rate", OPT_INT, AT(serve_agent, rate), "0",
     "samples a second on each CPU; 0: 19, and 99 in the first minute of a new install"},
    {"budget", OPT_DOUBLE, AT(serve_agent, budget), "1", "percent of the machine's CPU that it may take; 0: no limit"},
    {"memory", OPT_SIZE, AT(serve_agent, memory), "64MiB", "that it may take, the kernel's maps included"},
    {"both", OPT_BOOL, AT(serve_agent, both), "false", "also sample processes that send CPU profiles themselves"},
    {"off_cpu", OPT_BOOL, AT(serve_agent, off_cpu), "false", "where threads wait, too"},
    {"lines", OPT_BOOL, AT(serve_agent, lines), "true", "lines and inlined calls, where there is debug information"},
    {"include", OPT_STRINGS, AT(serve_agent, include), NULL,
     "rules of processes to take, as name=nginx, user=www, cgroup~kubepods.*, exe=postgres/4 (one sample in 4): see "
     "docs/agent.md"},
    {"exclude", OPT_STRINGS, AT(serve_agent, exclude), NULL, "rules of processes to leave out; looked at first"},
    {"rename", OPT_STRINGS, AT(serve_agent, rename), NULL,
     "REGEXP=NAME: services whose whole name matches get this one; \\1 is the first group"},
    {"export", OPT_STRING, AT(serve_agent, export_to), NULL, "where `wick agent` sends; `wick serve` keeps its own"},
    {"interval", OPT_DURATION, AT(serve_agent, interval), "0s", "how often `wick agent` sends; 0: every 10s"},
    {"upload_symbols", OPT_BOOL, AT(serve_agent, upload_symbols), "false",
     "`wick agent` gives the server files that names can be read from"},
    {"server", OPT_STRING, AT(serve_agent, server), NULL, "where those go (default: port 4040 of the same host)"},
    {"k8s_api", OPT_STRING, AT(serve_agent, k8s_api), NULL,
     "a Kubernetes API server that `wick agent` asks for names of pods; in-cluster: the one it runs in"},
    {0},
};

#define UI(f) (AT(serve_config, ui.f) - AT(serve_config, ui))
static const struct option ui_options[] = {
    {"own_code", OPT_STRING, UI(own_code), NULL,
     "regular expression of functions, files or binaries that are your own code, for 'only my code'"},
    {"price_per_core_hour", OPT_DOUBLE, UI(price), "0", "what an hour of a core costs; 0: show no cost"},
    {"currency", OPT_STRING, UI(currency), "USD", "of that price"},
    {0},
};

static const char *const levels[] = {"debug", "info", "warn", "error", NULL};
static const char *const formats[] = {"text", "logfmt", "json", NULL};

#define LOG(f) (AT(serve_config, log.f) - AT(serve_config, log))
static const struct option log_options[] = {
    {"level", OPT_ENUM, LOG(level), "info", "least important lines that are written", .words = levels},
    {"format", OPT_ENUM, LOG(format), "logfmt", "logfmt, json or text", .words = formats},
    {0},
};

const struct option serve_options[] = {
    {"user", OPT_STRING, AT(serve_config, user), NULL,
     "the user to become when started as root (default: wick where it exists, else an unprivileged uid without an "
     "account); \"\" to stay root"},
    {"listen", OPT_TABLE, AT(serve_config, listen), NULL, "addresses", .table = listen_options},
    {"auth", OPT_TABLE, AT(serve_config, auth), NULL, "who may ask and send", .table = auth_options},
    {"store", OPT_TABLE, AT(serve_config, store), NULL, "where profiles are kept", .table = store_options},
    {"retention", OPT_TABLE, AT(serve_config, retention), NULL, "for how long", .table = retention_options},
    {"limits", OPT_TABLE, AT(serve_config, limits), NULL, "on what grows", .table = limits_options},
    {"symbols", OPT_TABLE, AT(serve_config, symbols), NULL, "names of native frames", .table = symbols_options},
    {"source", OPT_TABLES, AT(serve_config, source), NULL, "where source code is found", .table = source_options,
     .size = sizeof(struct serve_source)},
    {"agent", OPT_TABLE, AT(serve_config, agent), NULL,
     "the agent that samples this machine: here, or of `wick agent --config`", .table = agent_options},
    {"ui", OPT_TABLE, AT(serve_config, ui), NULL, "the web UI", .table = ui_options},
    {"log", OPT_TABLE, AT(serve_config, log), NULL, "messages", .table = log_options},
    {"receivers", OPT_IGNORED, 0, NULL, "as in the OpenTelemetry Collector: see docs/collector.md"},
    {"processors", OPT_IGNORED, 0, NULL, "as in the Collector"},
    {"exporters", OPT_IGNORED, 0, NULL, "as in the Collector"},
    {"extensions", OPT_IGNORED, 0, NULL, "as in the Collector"},
    {"service", OPT_IGNORED, 0, NULL, "as in the Collector"},
    {0},
};

int serve_config_read(struct conf *c, struct serve_config *ret, struct err *e)
{
    *ret = (struct serve_config){0};
    return option_parse(c, serve_options, c->root, ret, e);
}

void serve_config_reference(struct buf *out)
{
    buf_puts(
        out,
        "# Configuration of `wick serve`\n\n"
        "`wick serve --config wick.yaml`; every option has a default, and none is needed to start. Sizes are written "
        "like 64MiB, times like 30s or 7d, and `${env:NAME:-default}` and `${file:PATH}` are filled in. Unknown "
        "options are errors that name the file and line; `wick serve --check` only checks.\n\n"
        "This page is printed by `wick serve --print-reference`.\n\n");
    option_help(out, serve_options, 0, true);
}
