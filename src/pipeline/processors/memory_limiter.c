/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `memory_limiter`: refuses data while the process is larger than its soft limit (limit - spike), so that senders retry
 * later. Checks the resident size at most once per check_interval, when data arrives; above the hard limit it also
 * returns free memory to the system.
 */
#include <errno.h>
#include <malloc.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/meminfo.h"
#include "pipeline/graph/component.h"
#include "pipeline/graph/host.h"

struct limiter_config {
    int64_t check_interval, limit_mib, spike_limit_mib, limit_percentage, spike_limit_percentage;
};

struct limiter {
    struct instance instance;
    struct sink sink;
    struct sink *next;
    int64_t hard, soft, interval;
    _Atomic int64_t next_check;
    _Atomic bool refuse;
    struct metric *refused;
};

static const struct option options[] = {
    {"check_interval", OPT_DURATION, offsetof(struct limiter_config, check_interval), "0s",
     "interval of checks; must be greater than 0"},
    {"limit_mib", OPT_INT, offsetof(struct limiter_config, limit_mib), "0", "hard limit in MiB"},
    {"spike_limit_mib", OPT_INT, offsetof(struct limiter_config, spike_limit_mib), "0",
     "the soft limit is the hard limit minus this; default: 20 %"},
    {"limit_percentage", OPT_INT, offsetof(struct limiter_config, limit_percentage), "0",
     "hard limit in percent of the total memory"},
    {"spike_limit_percentage", OPT_INT, offsetof(struct limiter_config, spike_limit_percentage), "0",
     "spike_limit_mib in percent"},
    {"min_gc_interval_when_soft_limited", OPT_IGNORED, 0, NULL, "wick has no garbage collector"},
    {"min_gc_interval_when_hard_limited", OPT_IGNORED, 0, NULL, "wick has no garbage collector"},
    {0},
};

static bool over(struct limiter *l)
{
    int64_t now = clock_mono(), due = l->next_check;

    if (now >= due && atomic_compare_exchange_strong(&l->next_check, &due, now + l->interval)) {
        int64_t rss = (int64_t) meminfo_resident();

        if (rss > l->hard)
            malloc_trim(0);
        l->refuse = rss > l->soft;
    }
    return l->refuse;
}

static bool refuse(struct limiter *l, struct ack *ack)
{
    if (!over(l))
        return false;
    metric_add(l->refused, 1);
    ack_fail(ack, SINK_UNAVAILABLE, l->interval, "data refused due to high memory usage");
    return true;
}

static void consume(struct sink *s, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    struct limiter *l = container_of(s, struct limiter, sink);

    if (!refuse(l, ack))
        sink_pass(l->next, data, ctx, ack);
}

static void free_instance(struct instance *i)
{
    mem_free(container_of(i, struct limiter, instance));
}

static int create(const struct component_args *args, struct instance **ret, struct err *e)
{
    const struct limiter_config *c = args->config;
    struct limiter *l = mem_zalloc(sizeof *l);
    int64_t total, spike;

    (void) e;
    if (!l)
        return -ENOMEM;
    total = c->limit_mib ? 0 : (int64_t) meminfo_total();
    l->hard = c->limit_mib ? c->limit_mib << 20 : total / 100 * c->limit_percentage;
    spike = c->limit_mib ? c->spike_limit_mib << 20 : total / 100 * c->spike_limit_percentage;
    l->soft = l->hard - (spike ? spike : l->hard / 5);
    l->interval = c->check_interval;
    l->next = args->next[args->signal];
    l->sink.consume = consume;
    l->refused = metrics_add(args->host->metrics, METRIC_COUNTER, "otelcol_processor_refused_requests",
                             "Requests refused because of high memory usage", "processor=\"%s\"", args->id);
    l->instance = (struct instance){.id = args->id, .sink = &l->sink, .free = free_instance};
    *ret = &l->instance;
    return 0;
}

static int check(const void *config, const struct conf_node *node, struct err *e)
{
    const struct limiter_config *c = config;

    if (c->check_interval <= 0)
        return conf_error(node, -EINVAL, e, "'check_interval' must be greater than zero");
    if (c->limit_mib <= 0 && c->limit_percentage <= 0)
        return conf_error(node, -EINVAL, e, "'limit_mib' or 'limit_percentage' must be greater than zero");
    if (c->limit_percentage > 100 || c->spike_limit_percentage > 100)
        return conf_error(node, -EINVAL, e, "percentages must be at most 100");
    if ((c->limit_mib && c->spike_limit_mib >= c->limit_mib) ||
        (!c->limit_mib && c->spike_limit_percentage >= c->limit_percentage))
        return conf_error(node, -EINVAL, e, "the spike limit must be smaller than the limit");
    return 0;
}

const struct component component_memory_limiter_processor = {
    .kind = COMPONENT_PROCESSOR,
    .name = "memory_limiter",
    .help = "refuses data while the process uses too much memory",
    .signals = ALL_SIGNALS,
    .options = options,
    .config_size = sizeof(struct limiter_config),
    .check = check,
    .create = create,
};
