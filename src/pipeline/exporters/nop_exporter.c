/* SPDX-License-Identifier: Apache-2.0 */
/* `nop`, as exporter and receiver: an exporter that discards everything and a receiver that produces nothing. */
#include <errno.h>

#include "base/mem.h"
#include "model/batch.h"
#include "pipeline/graph/component.h"
#include "pipeline/graph/host.h"

struct nop {
    struct instance instance;
    struct sink sink;
    struct metric *sent;
};

static const struct option options[] = {{0}};

static void consume(struct sink *s, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    (void) ctx;
    metric_add(container_of(s, struct nop, sink)->sent, data.batch ? data.batch->n_samples : data.blob->items);
    ack_ok(ack);
}

static void free_instance(struct instance *i)
{
    mem_free(container_of(i, struct nop, instance));
}

static int create_exporter(const struct component_args *args, struct instance **ret, struct err *e)
{
    static const char *const names[SIGNALS] = {"otelcol_exporter_sent_profile_samples", "otelcol_exporter_sent_spans",
                                               "otelcol_exporter_sent_metric_points",
                                               "otelcol_exporter_sent_log_records"};
    struct nop *n = mem_zalloc(sizeof *n);

    (void) e;
    if (!n)
        return -ENOMEM;
    n->sink.consume = consume;
    n->sent = metrics_add(args->host->metrics, METRIC_COUNTER, names[args->signal], "Items sent", "exporter=\"%s\"",
                          args->id);
    n->instance = (struct instance){.id = args->id, .sink = &n->sink, .free = free_instance};
    *ret = &n->instance;
    return 0;
}

static int create_receiver(const struct component_args *args, struct instance **ret, struct err *e)
{
    struct nop *n = mem_zalloc(sizeof *n);

    (void) e;
    if (!n)
        return -ENOMEM;
    n->instance = (struct instance){.id = args->id, .free = free_instance};
    *ret = &n->instance;
    return 0;
}

const struct component component_nop_exporter = {
    .kind = COMPONENT_EXPORTER,
    .name = "nop",
    .help = "discards all data",
    .signals = ALL_SIGNALS,
    .options = options,
    .create = create_exporter,
};

const struct component component_nop_receiver = {
    .kind = COMPONENT_RECEIVER,
    .name = "nop",
    .help = "produces no data",
    .signals = ALL_SIGNALS,
    .options = options,
    .create = create_receiver,
};
