/* SPDX-License-Identifier: Apache-2.0 */
/* Applies the limits of one tenant to incoming batches and counts their outcome. See tenant_gate.h. */
#include "serve/tenant_gate.h"

#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/wrap.h"
#include "model/batch.h"
#include "server/front.h"

/* A batch that was passed on, until it is acknowledged. */
struct gate_ack {
    struct ack ack;
    struct ack *home;
    struct gate_stats *stats;
    int64_t started; /* monotonic */
    uint64_t profiles, samples;
};

static void count_time(struct gate_stats *s, int64_t ns)
{
    size_t i = 0;

    while (i < ARRAY_SIZE(front_bucket_limits) && (double) ns / 1e9 > front_bucket_limits[i])
        i++;
    s->buckets[i]++;
    s->total_ns += (uint64_t) ns;
}

static void on_ack(struct ack *a, const struct ack_result *r)
{
    struct gate_ack *g = container_of(a, struct gate_ack, ack);
    struct gate_stats *s = g->stats;
    uint64_t held;

    count_time(s, clock_mono() - g->started);
    s->in_flight--;
    if (r->status == SINK_OK) {
        s->requests++;
        s->profiles += g->profiles - MIN(r->rejected, g->profiles);
        s->samples += g->samples;
        s->refused += r->rejected;
    } else if (r->status == SINK_INVALID) {
        s->refused += g->profiles;
    } else {
        s->failed += g->profiles;
        if (log_limited(&s->log_failed, 10 * NS_PER_S, &held))
            log_warn("profiles are not stored: %s (%llu more requests like this)", r->message,
                     (unsigned long long) held);
    }
    ack_complete(g->home, r);
    mem_free(g);
}

/* Returns 0, or how long to wait. */
static int64_t take(struct tenant_gate *g, uint32_t samples)
{
    int64_t now = clock_mono(), wait = 0;

    pthread_mutex_lock(&g->lock);
    if (g->rate > 0) {
        double full = (double) g->rate * GATE_BURST_SECONDS;

        g->left = MIN(full, g->left + (double) (now - g->filled) / 1e9 * (double) g->rate);
        if (g->left > 0)
            g->left -= samples;
        else
            wait = (int64_t) (-g->left / (double) g->rate * 1e9) + NS_PER_S;
    }
    g->filled = now;
    pthread_mutex_unlock(&g->lock);
    return wait;
}

static int64_t lag_of(const struct batch *b, int64_t received)
{
    const struct profile *p = b->n_profiles ? &b->profiles[b->n_profiles - 1] : NULL;

    return p && p->time_ns ? wrap_sub(wrap_sub(received, p->time_ns), p->duration_ns) : 0;
}

/* False if the batch was refused because of its series. */
static bool take_series(struct tenant_gate *g, const struct batch *b, struct ack *ack)
{
    int64_t max = g->max_series;
    int r = series_limit_take(&g->series, b, max);
    uint64_t held;

    if (r == 0)
        return true;
    if (r != -EDQUOT) {
        ack_fail(ack, SINK_UNAVAILABLE, NS_PER_S, "out of memory");
        return false;
    }
    if (log_limited(&g->stats->log_limited, 10 * NS_PER_S, &held))
        log_warn("tenant '%s' has reached its limit of %lld series and sends new ones (%llu more requests like this)",
                 g->tenant, (long long) max, (unsigned long long) held);
    g->stats->limited += b->n_profiles;
    ack_fail(
        ack, SINK_EXHAUSTED, 60 * NS_PER_S,
        "tenant '%s' has reached its limit of %lld series (limits.series), and this request has new ones; remove labels "
        "with many values",
        g->tenant, (long long) max);
    return false;
}

static void consume(struct sink *sink, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    struct tenant_gate *g = container_of(sink, struct tenant_gate, sink);
    struct gate_ack *w;
    uint64_t held;
    int64_t wait;

    if (!take_series(g, data.batch, ack))
        return;
    wait = take(g, data.batch->n_samples);
    if (wait) {
        if (log_limited(&g->stats->log_limited, 10 * NS_PER_S, &held))
            log_warn("tenant '%s' is over its limit of %lld samples per second (%llu more requests like this)",
                     g->tenant, (long long) g->rate, (unsigned long long) held);
        g->stats->limited += data.batch->n_profiles;
        ack_fail(ack, SINK_EXHAUSTED, wait,
                 "tenant '%s' sends more than %lld samples per second (limits.samples_per_second)", g->tenant,
                 (long long) g->rate);
        return;
    }
    w = mem_alloc(sizeof *w);
    if (!w) {
        ack_fail(ack, SINK_UNAVAILABLE, NS_PER_S, "out of memory");
        return;
    }
    *w = (struct gate_ack){{on_ack}, ack, g->stats, clock_mono(), data.batch->n_profiles, data.batch->n_samples};
    g->stats->in_flight++;
    g->stats->lag_ns = lag_of(data.batch, ctx->received_ns);
    sink_consume(g->next, data.batch, ctx, &w->ack);
}

void tenant_gate_init(struct tenant_gate *g, struct sink *next, const char *tenant, int64_t rate, int64_t max_series,
                      struct gate_stats *stats)
{
    *g = (struct tenant_gate){.sink = {consume}, .next = next, .stats = stats, .tenant = tenant, .rate = rate};
    g->left = (double) rate * GATE_BURST_SECONDS;
    g->filled = clock_mono();
    g->max_series = max_series;
    pthread_mutex_init(&g->lock, NULL);
    series_limit_init(&g->series);
}

void tenant_gate_set_limits(struct tenant_gate *g, int64_t rate, int64_t max_series)
{
    g->max_series = max_series;
    pthread_mutex_lock(&g->lock);
    if (g->rate != rate)
        g->left = (double) rate * GATE_BURST_SECONDS;
    g->rate = rate;
    pthread_mutex_unlock(&g->lock);
}

void tenant_gate_done(struct tenant_gate *g)
{
    series_limit_done(&g->series);
    pthread_mutex_destroy(&g->lock);
}

static void put(struct buf *out, const char *name, const char *kind, const char *help, double v)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", name, help, name, kind, name, v);
}

void gate_stats_print(struct gate_stats *s, struct buf *out)
{
    uint64_t sum = 0;

    put(out, "wick_ingest_profiles_total", "counter", "Profiles acknowledged.", (double) s->profiles);
    put(out, "wick_ingest_samples_total", "counter", "Samples acknowledged.", (double) s->samples);
    put(out, "wick_ingest_limited_total", "counter", "Profiles over a tenant's limit (429).", (double) s->limited);
    put(out, "wick_ingest_refused_total", "counter", "Profiles rejected permanently.", (double) s->refused);
    put(out, "wick_ingest_failed_total", "counter", "Profiles that the sender must retry.", (double) s->failed);
    put(out, "wick_ingest_in_flight", "gauge", "Requests not acknowledged yet.", (double) s->in_flight);
    put(out, "wick_ingest_lag_seconds", "gauge", "Time from the end of the newest profile to its arrival.",
        (double) s->lag_ns / 1e9);
    buf_puts(out, "# HELP wick_ingest_seconds Time to acknowledge.\n# TYPE wick_ingest_seconds histogram\n");
    for (size_t i = 0; i < GATE_BUCKETS; i++) {
        sum += s->buckets[i];
        if (i < ARRAY_SIZE(front_bucket_limits))
            buf_printf(out, "wick_ingest_seconds_bucket{le=\"%g\"} %llu\n", front_bucket_limits[i],
                       (unsigned long long) sum);
    }
    buf_printf(out, "wick_ingest_seconds_bucket{le=\"+Inf\"} %llu\nwick_ingest_seconds_sum %.9g\n",
               (unsigned long long) sum, (double) s->total_ns / 1e9);
    buf_printf(out, "wick_ingest_seconds_count %llu\n", (unsigned long long) sum);
}
