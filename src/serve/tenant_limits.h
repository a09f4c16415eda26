/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of one tenant: samples per second and series.
 *
 * The rate limit is a token bucket that holds LIMITS_BURST_SECONDS of the rate. A request is admitted while the bucket is
 * not empty, however large the request is, and may leave the bucket negative: one request larger than the bucket still
 * gets through, and later requests wait until the bucket has been refilled. Safe from any thread.
 */
#ifndef SERVE_TENANT_LIMITS_H
#define SERVE_TENANT_LIMITS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "serve/series_limit.h"

struct ack_result;

enum { LIMITS_BURST_SECONDS = 10 };

struct tenant_limits {
    const char *tenant;
    pthread_mutex_t lock;            /* protects rate, left, filled */
    int64_t rate _guarded_by_(lock); /* samples per second, 0: no limit */
    double left _guarded_by_(lock);
    int64_t filled _guarded_by_(lock); /* monotonic */
    struct series_limit series;
    _Atomic int64_t max_series; /* 0: no limit */
};

/* allow: the labels of series (series_limit.h), or NULL. tenant must live as long as *l. */
void tenant_limits_init(struct tenant_limits *l, const char *tenant, const char *const *allow);
void tenant_limits_set(struct tenant_limits *l, int64_t rate, int64_t max_series);
void tenant_limits_done(struct tenant_limits *l);
/* Counts a batch. False if it exceeds a limit, with what to tell its sender. */
bool tenant_limits_take(struct tenant_limits *l, const struct batch *b, struct ack_result *ret);

#endif
