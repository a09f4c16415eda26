/* SPDX-License-Identifier: Apache-2.0 */
/* Joins the span index with the server: its settings, its sink, its metrics. See serve_traces.h. */
#include "serve/serve_traces.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/metric_text.h"
#include "pipeline/delivery/blob.h"
#include "server/serve_config.h"
#include "span/span_index.h"
#include "store/store.h"

enum { QUEUE_MAX = 64 << 20 };

static void consume(struct sink *s, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    struct serve_traces *t = container_of(s, struct serve_traces, sink);

    if (!data.blob || data.blob->signal != SIGNAL_TRACES)
        ack_fail(ack, SINK_INTERNAL, 0, "the span index takes only traces");
    else if (t->read_only)
        ack_fail(ack, SINK_UNAVAILABLE, 5 * NS_PER_S, "the store is on a read-only file system");
    else
        span_index_append(t->index, ctx->tenant, (struct str){data.blob->p, (uint32_t) data.blob->n}, data.blob->json,
                          ack);
}

/* Spans in memory count towards limits.memory as the store's data does. */
static struct span_index_config config_of(const struct serve_traces *t, const struct serve_config *c)
{
    uint64_t most = t->in_memory ? (uint64_t) t->memory / 8 : quota_of(&t->share, NULL, UINT64_MAX);

    return (struct span_index_config){.size = MIN((uint64_t) c->traces.size, most),
                                      .share = t->share,
                                      .keep = c->retention.keep,
                                      .async = c->store.async,
                                      .read_only = t->read_only || (c->role == ROLE_QUERY && !t->in_memory),
                                      .queue = MIN((size_t) QUEUE_MAX, t->memory / 16)};
}

static int64_t clock_ahead(void *ctx)
{
    struct store *s = ctx;
    struct store_stats st;

    s->ops->stats(s, &st);
    return st.clock_ahead_ns;
}

int serve_traces_start(struct serve_traces *t, const struct serve_config *c, const struct serve_traces_place *place,
                       struct err *e)
{
    struct span_index_config config;
    char path[4096];

    t->sink.consume = consume;
    t->in_memory = !place->dir;
    t->memory = place->memory;
    t->share = t->in_memory ? (struct quota){0} : place->share;
    if (!c->traces.enabled)
        return 0;
    config = config_of(t, c);
    if (place->dir && snprintf(path, sizeof path, "%s/spans", place->dir) >= (int) sizeof path)
        return err_set(e, -ENAMETOOLONG, "'%s': the path is too long", place->dir);
    config.dir = place->dir ? path : NULL;
    config.ahead = clock_ahead;
    config.ahead_ctx = place->store;
    return span_index_open(&config, &t->index, e);
}

void serve_traces_stop(struct serve_traces *t)
{
    span_index_close(t->index);
    t->index = NULL;
}

struct sink *serve_traces_sink(struct serve_traces *t)
{
    return t->index ? &t->sink : NULL;
}

void serve_traces_reload(struct serve_traces *t, const struct serve_config *c)
{
    struct span_index_config config = config_of(t, c);

    if (t->index)
        span_index_set_retention(t->index, &config);
}

#define SPANS(member) offsetof(struct span_index_stats, member)
static const struct metric_row span_metrics[] = {
    {"wick_spans_total", METRIC_COUNTER, "Spans stored.", SPANS(spans)},
    {"wick_spans_duplicates_total", METRIC_COUNTER, "Spans that were sent again.", SPANS(duplicates)},
    {"wick_spans_refused_total", METRIC_COUNTER, "Spans without IDs or times.", SPANS(refused)},
    {"wick_spans_bytes", METRIC_GAUGE, "Size of the span index.", SPANS(bytes)},
    {"wick_spans_queued_bytes", METRIC_GAUGE, "Spans that wait to be written.", SPANS(queued)},
    {"wick_spans_dropped_bytes_total", METRIC_COUNTER, "Bytes of spans deleted over the limits of size and age.",
     SPANS(dropped)},
    {0},
};

void serve_traces_metrics(const struct serve_traces *t, struct buf *out)
{
    struct span_index_stats s;

    if (!t->index)
        return;
    span_index_stats(t->index, &s);
    metric_put_rows(out, span_metrics, &s);
    metric_put(out, "wick_spans_damaged_total", METRIC_COUNTER, "Blocks of the span index that could not be read.",
               (double) (s.damaged + s.torn));
}
