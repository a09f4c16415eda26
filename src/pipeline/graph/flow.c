/* SPDX-License-Identifier: Apache-2.0 */
/* Builds, starts and stops the components of a plan, see flow.h. Built from the far end: exporters, then each
 * pipeline's processors back to front, then receivers. */
#include "pipeline/graph/flow.h"

#include <errno.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/loop.h"
#include "pipeline/delivery/batcher.h"
#include "pipeline/graph/fanout.h"
#include "pipeline/graph/host.h"
#include "pipeline/graph/listener.h"
#include "pipeline/processors/batch_processor.h"

enum { INSTANCES_MAX = 2048 };

struct flow {
    struct plan *plan;
    struct host host;
    struct instance *instances[INSTANCES_MAX]; /* in the order of creation, which is the order of starting */
    uint32_t n, n_started;
    struct fanout *fanouts[INSTANCES_MAX];
    uint32_t n_fanouts;
    struct instance *extensions[PLAN_COMPONENTS_MAX];
    struct http_server *metrics_server;
    /* Where each pipeline begins. */
    struct sink *heads[PLAN_PIPELINES_MAX];
};

int host_extension(struct host *h, const char *id, const char *what, struct instance **ret, struct err *e)
{
    for (uint32_t i = 0; i < h->n_extensions; i++) {
        if (strcmp(h->extensions[i]->id, id) == 0) {
            *ret = h->extensions[i];
            return 0;
        }
    }
    return err_set(e, -ENOENT, "%s '%s' is not listed in service::extensions", what, id);
}

/* One sink for all of them. */
static int add_fanout(struct flow *g, struct sink *const *sinks, uint32_t n, struct sink **ret)
{
    struct fanout *f;
    int r;

    if (g->n_fanouts == INSTANCES_MAX)
        return -E2BIG;
    r = fanout_new(sinks, n, &f);
    if (r < 0)
        return r;
    g->fanouts[g->n_fanouts++] = f;
    *ret = fanout_sink(f);
    return 0;
}

static int create(struct flow *g, const struct plan_component *c, struct component_args *args, struct instance **ret,
                  struct err *e)
{
    struct instance *i = NULL;
    int r;

    if (g->n == INSTANCES_MAX)
        return err_set(e, -E2BIG, "more than %d component instances", INSTANCES_MAX);
    args->host = &g->host;
    args->type = c->type;
    args->id = c->id;
    args->config = c->config;
    r = c->type->create(args, &i, e);
    if (r < 0)
        return err_prefix(e, r, "%s '%s': ", component_kind_names[c->type->kind], c->id);
    instance_init(i, args);
    g->instances[g->n++] = i;
    *ret = i;
    return 0;
}

static int create_extensions(struct flow *g, struct err *e)
{
    int r = 0;

    g->host.extensions = g->extensions;
    for (uint32_t i = 0; r == 0 && i < g->plan->n_extensions; i++) {
        struct component_args args = {0};

        r = create(g, g->plan->extensions[i], &args, &g->extensions[i], e);
        if (r == 0)
            g->host.n_extensions++;
    }
    return r;
}

static bool has_persistent(const struct plan_pipeline *pl)
{
    for (uint32_t i = 0; i < pl->n_exporters; i++)
        if (pl->exporters[i]->type->is_persistent && pl->exporters[i]->type->is_persistent(pl->exporters[i]->config))
            return true;
    return false;
}

/* The settings of the `batch` processors before this exporter, if the exporter does the batching instead of them. */
static const struct batch_settings *batch_before(struct flow *g, const struct plan_component *exporter,
                                                 enum signal signal)
{
    for (uint32_t i = 0; i < g->plan->n_pipelines; i++) {
        const struct plan_pipeline *pl = &g->plan->pipelines[i];

        if (pl->signal != signal || !has_persistent(pl))
            continue;
        for (uint32_t k = 0; k < pl->n_exporters; k++)
            for (uint32_t j = 0; pl->exporters[k] == exporter && j < pl->n_processors; j++)
                if (pl->processors[j]->type == &component_batch_processor)
                    return pl->processors[j]->config;
    }
    return NULL;
}

static int exporter_instance(struct flow *g, const struct plan_component *c, const struct plan_pipeline *pl,
                             struct instance **ret, struct err *e)
{
    struct component_args args = {.signal = pl->signal, .pipeline = pl->id};

    for (uint32_t i = 0; i < g->n; i++) {
        if (g->instances[i]->type == c->type && g->instances[i]->signal == pl->signal &&
            strcmp(g->instances[i]->id, c->id) == 0) {
            *ret = g->instances[i];
            return 0;
        }
    }
    args.batch = batch_before(g, c, pl->signal);
    return create(g, c, &args, ret, e);
}

static int create_exporters(struct flow *g, const struct plan_pipeline *pl, struct sink **ret, struct err *e)
{
    struct sink *sinks[PIPELINE_COMPONENTS_MAX];

    for (uint32_t i = 0; i < pl->n_exporters; i++) {
        struct instance *x;
        int r = exporter_instance(g, pl->exporters[i], pl, &x, e);

        if (r < 0)
            return r;
        sinks[i] = x->sink;
    }
    return add_fanout(g, sinks, pl->n_exporters, ret);
}

static int create_pipeline(struct flow *g, uint32_t index, struct err *e)
{
    const struct plan_pipeline *pl = &g->plan->pipelines[index];
    struct sink *next = NULL;
    int r = create_exporters(g, pl, &next, e);

    for (uint32_t i = pl->n_processors; r == 0 && i-- > 0;) {
        struct component_args args = {.signal = pl->signal, .pipeline = pl->id};
        struct instance *x;

        if (pl->processors[i]->type == &component_batch_processor && has_persistent(pl))
            continue; /* the exporters do the batching, after their log */
        args.next[pl->signal] = next;
        r = create(g, pl->processors[i], &args, &x, e);
        if (r < 0)
            break;
        next = x->sink;
    }
    g->heads[index] = next;
    return r;
}

/* All pipelines of this signal that this receiver feeds, as one sink; NULL if there are none. */
static int receiver_outlet(struct flow *g, const struct plan_component *c, enum signal signal,
                           struct component_args *args)
{
    struct sink *sinks[PLAN_PIPELINES_MAX];
    uint32_t n = 0;

    for (uint32_t i = 0; i < g->plan->n_pipelines; i++) {
        const struct plan_pipeline *pl = &g->plan->pipelines[i];

        for (uint32_t k = 0; k < pl->n_receivers && pl->signal == signal; k++) {
            if (pl->receivers[k] == c)
                sinks[n++] = g->heads[i];
        }
    }
    return n ? add_fanout(g, sinks, n, &args->next[signal]) : 0;
}

static int create_receivers(struct flow *g, struct err *e)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < g->plan->n_components; i++) {
        const struct plan_component *c = &g->plan->components[i];
        struct component_args args = {0};
        struct instance *x;

        if (c->type->kind != COMPONENT_RECEIVER || !c->used)
            continue;
        for (int s = 0; r == 0 && s < SIGNALS; s++)
            r = receiver_outlet(g, c, (enum signal) s, &args);
        if (r == 0)
            r = create(g, c, &args, &x, e);
    }
    return r;
}

int flow_new(struct plan *p, const struct flow_inject *inject, struct flow **ret, struct err *e)
{
    _cleanup_(flow_freep) struct flow *g = mem_zalloc(sizeof *g);
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned n_loops = inject && inject->n_loops ? inject->n_loops : (unsigned) MAX(1, MIN(cpus, 4));
    int r;

    if (!g)
        return -ENOMEM;
    g->plan = p;
    if (inject) {
        g->host.symbolizer = inject->symbolizer;
        g->host.sink = inject->sink;
        g->host.traces = inject->traces;
    }
    r = metrics_new(&g->host.metrics);
    if (r == 0)
        r = loop_group_new(n_loops, "listen", &g->host.loops, e);
    if (r == 0)
        r = create_extensions(g, e);
    for (uint32_t i = 0; r == 0 && i < p->n_pipelines; i++)
        r = create_pipeline(g, i, e);
    if (r == 0)
        r = create_receivers(g, e);
    if (r < 0)
        return r;
    *ret = TAKE(g);
    return 0;
}

static void handle_metrics(void *arg, struct http_request *q)
{
    struct flow *g = arg;

    if (!str_is(q->path, "/metrics")) {
        http_reply_text(q, 404, "404 page not found\n");
        return;
    }
    metrics_print(g->host.metrics, &q->answer);
    http_add_header(q, "content-type", STR("text/plain; version=0.0.4; charset=utf-8"));
    http_finish(q);
}

/* A collector that cannot serve its metrics still collects: a port in use is only a warning. */
static void start_metrics(struct flow *g)
{
    struct listener_options o = {"metrics", g->plan->telemetry.metrics_address, NULL, handle_metrics, g, 0, 0};
    struct err e = {0};

    if (o.address && listener_start(&g->host, &o, &g->metrics_server, &e) < 0)
        log_warn("cannot serve metrics: %s", e.message);
}

int flow_start(struct flow *g, struct err *e)
{
    start_metrics(g);
    for (g->n_started = 0; g->n_started < g->n; g->n_started++) {
        struct instance *i = g->instances[g->n_started];
        int r = i->start ? i->start(i, e) : 0;

        if (r < 0) {
            err_prefix(e, r, "%s '%s': ", component_kind_names[i->type->kind], i->id);
            flow_stop(g);
            return r;
        }
    }
    return 0;
}

/* Within each kind, data flows from the end of the list to its beginning: receivers were created last and are stopped
 * first. The processors of a pipeline were created back to front, so going backwards stops them front to back. */
void flow_stop(struct flow *g)
{
    static const enum component_kind order[] = {COMPONENT_RECEIVER, COMPONENT_PROCESSOR, COMPONENT_EXPORTER,
                                                COMPONENT_EXTENSION};

    for (size_t k = 0; k < ARRAY_SIZE(order); k++)
        for (uint32_t i = g->n_started; i-- > 0;)
            if (g->instances[i]->type->kind == order[k] && g->instances[i]->stop)
                g->instances[i]->stop(g->instances[i]);
    g->n_started = 0;
    listener_stop(TAKE(g->metrics_server));
}

void flow_free(struct flow *g)
{
    if (!g)
        return;
    flow_stop(g);
    loop_group_free(g->host.loops);
    for (uint32_t i = g->n; i-- > 0;)
        g->instances[i]->free(g->instances[i]);
    for (uint32_t i = 0; i < g->n_fanouts; i++)
        fanout_free(g->fanouts[i]);
    metrics_free(g->host.metrics);
    mem_free(g);
}

struct metrics *flow_metrics(struct flow *g)
{
    return g->host.metrics;
}

struct sink *flow_head(struct flow *g, uint32_t i)
{
    return i < g->plan->n_pipelines ? g->heads[i] : NULL;
}
