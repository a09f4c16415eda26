/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service::telemetry: the collector's own logs and metrics. Logs go to stderr; metrics are served on localhost:8888
 * unless configured otherwise, in the old form (metrics::address) or the new one
 * (metrics::readers[]::pull::exporter::prometheus).
 */
#include <errno.h>

#include "pipeline/graph/plan.h"

struct logs_config {
    int level, encoding;
};

struct prometheus_config {
    const char *host;
    int64_t port;
};

struct prometheus_exporter_config {
    struct prometheus_config prometheus;
    bool has_prometheus;
};

struct pull_config {
    struct prometheus_exporter_config exporter;
};

struct reader_config {
    char first; /* keeps offset 0 free, which means "no presence flag" */
    bool has_pull, has_periodic;
    struct pull_config pull;
    const struct conf_node *periodic;
};

struct metrics_config {
    int level;
    const char *address;
    struct option_tables readers;
};

struct telemetry_options {
    struct logs_config logs;
    struct metrics_config metrics;
    const struct conf_node *traces, *resource;
};

static const char *const log_levels[] = {"debug", "info", "warn", "error", "DEBUG", "INFO", "WARN", "ERROR", NULL};
static const char *const encodings[] = {"console", "json", NULL};
static const char *const metric_levels[] = {"none", "basic", "normal", "detailed", NULL};

static const struct option logs_options[] = {
    {"level", OPT_ENUM, offsetof(struct logs_config, level), "info", "minimum level of messages to print",
     .words = log_levels},
    {"encoding", OPT_ENUM, offsetof(struct logs_config, encoding), "console", "message format", .words = encodings},
    {"development", OPT_IGNORED, 0, NULL, "a setting of the Collector's logger"},
    {"disable_caller", OPT_IGNORED, 0, NULL, "callers are not printed"},
    {"disable_stacktrace", OPT_IGNORED, 0, NULL, "stack traces are not printed"},
    {"sampling", OPT_IGNORED, 0, NULL, "repeated messages are always limited"},
    {"output_paths", OPT_IGNORED, 0, NULL, "messages always go to stderr"},
    {"error_output_paths", OPT_IGNORED, 0, NULL, "messages always go to stderr"},
    {"initial_fields", OPT_IGNORED, 0, NULL, "not added"},
    {"processors", OPT_IGNORED, 0, NULL, "wick's own logs are not exported"},
    {0},
};

static const struct option prometheus_options[] = {
    {"host", OPT_STRING, offsetof(struct prometheus_config, host), "localhost", "host to serve /metrics on"},
    {"port", OPT_INT, offsetof(struct prometheus_config, port), "8888", "port to serve /metrics on"},
    {"without_type_suffix", OPT_IGNORED, 0, NULL, "metric names have no type suffix"},
    {"without_units", OPT_IGNORED, 0, NULL, "metric names have no units"},
    {"without_scope_info", OPT_IGNORED, 0, NULL, "scopes are not exported"},
    {"with_resource_constant_labels", OPT_IGNORED, 0, NULL, "resource labels are not added"},
    {0},
};

static const struct option pull_exporter_options[] = {
    {"prometheus", OPT_TABLE, offsetof(struct prometheus_exporter_config, prometheus), NULL, "Prometheus text",
     .table = prometheus_options, .present = offsetof(struct prometheus_exporter_config, has_prometheus)},
    {0},
};

static const struct option pull_options[] = {
    {"exporter", OPT_TABLE, offsetof(struct pull_config, exporter), NULL, "exporter", .table = pull_exporter_options},
    {0},
};

static const struct option reader_options[] = {
    {"pull", OPT_TABLE, offsetof(struct reader_config, pull), NULL, "serve metrics to be pulled", .table = pull_options,
     .present = offsetof(struct reader_config, has_pull)},
    {"periodic", OPT_CUSTOM, offsetof(struct reader_config, periodic), NULL, "pushing metrics is not supported"},
    {0},
};

static const struct option metrics_options[] = {
    {"level", OPT_ENUM, offsetof(struct metrics_config, level), "normal", "none disables metrics",
     .words = metric_levels},
    {"address", OPT_STRING, offsetof(struct metrics_config, address), NULL, "host:port of /metrics (old form)"},
    {"readers", OPT_TABLES, offsetof(struct metrics_config, readers), NULL, "metric readers", .table = reader_options,
     .size = sizeof(struct reader_config)},
    {"views", OPT_IGNORED, 0, NULL, "views are specific to the Go SDK"},
    {0},
};

static const struct option telemetry_table[] = {
    {"logs", OPT_TABLE, offsetof(struct telemetry_options, logs), NULL, "messages", .table = logs_options},
    {"metrics", OPT_TABLE, offsetof(struct telemetry_options, metrics), NULL, "metrics about wick itself",
     .table = metrics_options},
    {"traces", OPT_IGNORED, 0, NULL, "wick creates no spans about itself"},
    {"resource", OPT_IGNORED, 0, NULL, "wick's own metrics have no resource attributes"},
    {0},
};

int plan_read_telemetry(struct conf *c, const struct conf_node *node, struct telemetry_config *ret, struct err *e)
{
    struct telemetry_options o = {0};
    int r = option_parse(c, telemetry_table, node, &o, e);

    if (r < 0)
        return err_prefix(e, r, "service::telemetry: ");
    ret->level = (enum log_level)(o.logs.level % 4);
    ret->format = o.logs.encoding ? LOG_JSON : LOG_LOGFMT;
    ret->metrics_address = o.metrics.address ? o.metrics.address : "localhost:8888";
    for (uint32_t i = 0; i < o.metrics.readers.n; i++) {
        const struct reader_config *rc = (const struct reader_config *) o.metrics.readers.v + i;

        if (rc->periodic)
            return conf_error(
                rc->periodic, -EOPNOTSUPP, e,
                "service::telemetry::metrics: a periodic reader is not supported; use pull with prometheus");
        if (rc->has_pull)
            ret->metrics_address =
                arena_printf(&c->arena, strchr(rc->pull.exporter.prometheus.host, ':') ? "[%s]:%d" : "%s:%d",
                             rc->pull.exporter.prometheus.host, (int) rc->pull.exporter.prometheus.port);
    }
    if (o.metrics.level == 0)
        ret->metrics_address = NULL;
    return 0;
}
