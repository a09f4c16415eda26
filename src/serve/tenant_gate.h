/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate in front of the store, one per tenant: a sink that counts and times batches, and refuses those that exceed
 * the tenant's limits on samples per second or series, with an error message and a delay (HTTP 429, gRPC
 * RESOURCE_EXHAUSTED).
 *
 * The rate limit is a token bucket that holds `burst` seconds of the rate. A request is admitted while the bucket is
 * not empty, however large the request is, and may leave the bucket negative: one request larger than the bucket still
 * gets through, and later requests wait until the bucket has been refilled. Safe from any thread.
 */
#ifndef SERVE_TENANT_GATE_H
#define SERVE_TENANT_GATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/log.h"
#include "model/sink.h"
#include "serve/series_limit.h"

enum { GATE_BUCKETS = 12, GATE_BURST_SECONDS = 10 };

/* Counters shared by all gates of a server. */
struct gate_stats {
    _Atomic uint64_t requests, profiles, samples;     /* acknowledged */
    _Atomic uint64_t limited, refused, failed;        /* over the limit; permanently refused; retryable or internal
                                                       * failures */
    _Atomic uint64_t in_flight;                       /* passed on, not acknowledged yet */
    _Atomic uint64_t buckets[GATE_BUCKETS], total_ns; /* time to acknowledge, with the limits of front_bucket_limits */
    _Atomic int64_t lag_ns;                           /* of the newest batch: from the end of its profiles until now */
    struct log_limit log_failed, log_limited;
};

struct tenant_gate {
    struct sink sink;
    struct sink *next;
    struct gate_stats *stats;
    const char *tenant;
    pthread_mutex_t lock; /* protects rate, left, filled */
    int64_t rate;         /* samples per second, 0: no limit */
    double left;
    int64_t filled; /* monotonic */
    struct series_limit series;
    _Atomic int64_t max_series; /* 0: no limit */
};

void tenant_gate_init(struct tenant_gate *g, struct sink *next, const char *tenant, int64_t rate, int64_t max_series,
                      struct gate_stats *stats);
void tenant_gate_set_limits(struct tenant_gate *g, int64_t rate, int64_t max_series);
void tenant_gate_done(struct tenant_gate *g);

/* Appends the metrics in Prometheus' text format. */
void gate_stats_print(struct gate_stats *s, struct buf *out);

#endif
