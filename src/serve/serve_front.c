/* SPDX-License-Identifier: Apache-2.0 */
/* The API and the web UI of the server: their routes, what they show, their metrics, and their threads. See serve_state.h. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "alert/alert.h"
#include "base/metric_text.h"
#include "demo/demo_run.h"
#include "demo/demo_source.h"
#include "host/agent_feed.h"
#include "serve/senders.h"
#include "serve/serve_code.h"
#include "serve/serve_intake.h"
#include "serve/serve_pipelines.h"
#include "serve/serve_scrape.h"
#include "serve/serve_self.h"
#include "serve/serve_snapshot.h"
#include "serve/serve_state.h"
#include "server/api.h"
#include "server/binary_store.h"
#include "server/front.h"
#include "server/workers.h"

enum { QUEUE_MAX = 4096 };

/* The server's own routes; each list is in a file of its own. */
static int (*const mounts[])(struct front *f) = {
    api_mount_query,     api_mount_status, api_mount_profile, api_mount_mcp,  api_mount_openapi,    api_mount_symbols,
    api_mount_pyroscope, api_mount_render, api_mount_views,   api_mount_pid,  api_mount_debuginfod, api_mount_scrape,
    api_mount_alerts,    api_mount_marks,  api_mount_oidc,    api_mount_docs, api_mount_ui,
};

struct ui_settings serve_ui_settings(const struct serve_config *c)
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

/* What the web UI needs besides data. */
static void set_ui(struct serve *s)
{
    s->ui = (struct ui_info){.mode = "server",
                             .settings = serve_ui_settings(&s->config),
                             .senders = serve_intake_senders(s->intake),
                             .senders_json = senders_json,
                             .code = serve_code,
                             .code_ctx = s->names.source};
    if (s->agent) {
        s->ui.agent_state = "running";
        s->ui.agent_json = agent_feed_json;
        s->ui.agent_lines = agent_feed_lines;
        s->ui.agent = s->agent;
    } else {
        s->ui.agent_state = "off";
        s->ui.agent_reason = "The server was started without the host agent (--no-agent).";
        s->ui.agent_fix = "sudo wick serve";
    }
    read_demo(&s->ui);
}

/* Metrics of the agent that is this server's child process. */
static void put_agent(struct agent_feed *agent, struct buf *out)
{
    struct agent_feed_counts n;
    struct agent_pulse p;
    bool is_sampling = agent_feed_pulse(agent, &p);

    agent_feed_counts(agent, &n);
    metric_head(out, "wick_agent_up", METRIC_GAUGE, "1 if this machine is sampled.");
    metric_value(out, "wick_agent_up", "", is_sampling);
    metric_head(out, "wick_agent_losses_total", METRIC_COUNTER, "What the agent could not do, by kind.");
    for (int i = 0; i < AGENT_LOSSES; i++) {
        char label[64];

        snprintf(label, sizeof label, "kind=\"%s\"", agent_loss_kinds[i].name);
        metric_value(out, "wick_agent_losses_total", label, (double) p.losses[i]);
    }
    metric_head(out, "wick_agent_samples_total", METRIC_COUNTER, "Samples of this machine, by result.");
    metric_value(out, "wick_agent_samples_total", "result=\"stored\"", (double) n.taken_samples);
    metric_value(out, "wick_agent_samples_total", "result=\"lost\"", (double) n.lost_samples);
    metric_head(out, "wick_agent_batches_total", METRIC_COUNTER, "Batches of samples of this machine, by result.");
    metric_value(out, "wick_agent_batches_total", "result=\"stored\"", (double) n.taken_batches);
    metric_value(out, "wick_agent_batches_total", "result=\"lost\"", (double) n.lost_batches);
}

static void put_metrics(void *ctx, struct buf *out)
{
    struct serve *s = ctx;

    serve_listen_metrics(s, out);
    if (s->names.files)
        metric_put(out, "wick_symbols_bytes", METRIC_GAUGE, "Size of symbol files.",
                   (double) binary_store_bytes(s->names.files));

    if (s->agent)
        put_agent(s->agent, out);
    serve_traces_metrics(&s->traces, out);
    serve_intake_metrics(s->intake, out);
    serve_pipelines_metrics(s->pipelines, out);
    alerts_metrics(s->alerts, out);
}

static struct front_options front_settings(struct serve *s)
{
    const struct serve_config *c = &s->config;

    s->pids = (struct pid_profiler){agent_feed_profile, s->agent};
    return (struct front_options){.store = s->store,
                                  .names = s->names.source,
                                  .files = s->files,
                                  .auth = s->auth,
                                  .audit = s->audit,
                                  .oidc = s->oidc,
                                  .public_url = c->ui.url,
                                  .hosts = s->hosts,
                                  .call_limit_ns = c->limits.query_time,
                                  .memory_limit = MIN((size_t) c->limits.query_memory, s->memory_limit / 4),
                                  .tenant_calls = c->limits.tenant_queries,
                                  .tenant_answers = serve_answers_memory(s) / 4,
                                  .version = WICK_VERSION,
                                  .metrics = put_metrics,
                                  .metrics_ctx = s,
                                  .ui = &s->ui,
                                  .pids = s->agent ? &s->pids : NULL,
                                  .spans = s->traces.index,
                                  .trace_link = c->traces.link,
                                  .alerts = s->alerts,
                                  .rules = s->rules,
                                  .scraping = serve_scrape_calls(s->scrape),
                                  .snapshots = serve_snapshots(s),
                                  .workers = s->workers};
}

int serve_start_front(struct serve *s, struct err *e)
{
    const struct serve_config *c = &s->config;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned n = c->limits.query_workers > 0 ? (unsigned) MIN(c->limits.query_workers, 256) : (unsigned) MAX(cpus, 2);
    struct front_options o;
    int r;

    set_ui(s);
    r = workers_new(&(struct workers_options){.n = n + 1, .waiting = QUEUE_MAX, .flow_running = n}, &s->workers, e);
    o = front_settings(s);
    if (r == 0)
        r = front_new(&o, &s->front, e);
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(mounts); i++)
        if (c->role != ROLE_INGEST || mounts[i] == api_mount_status || mounts[i] == api_mount_symbols)
            r = mounts[i](s->front);
    if (r == 0)
        r = serve_intake_mount(s->intake, s->front);
    return r < 0 ? r : serve_self_mount(s->front);
}

void serve_stop_front(struct serve *s)
{
    front_stop(s->front); /* its calls on threads of their own have ended */
    workers_free(s->workers);
    front_free(s->front);
}
