/* SPDX-License-Identifier: Apache-2.0 */
/* The token bucket of a tenant's samples, and its series. See tenant_limits.h. */
#include "serve/tenant_limits.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "model/batch.h"
#include "model/sink.h"

/* Returns 0, or how long to wait. */
static int64_t take_samples(struct tenant_limits *l, uint32_t samples, int64_t *ret_rate)
{
    int64_t now = clock_mono(), wait = 0;

    pthread_mutex_lock(&l->lock);
    if (l->rate > 0) {
        double full = (double) l->rate * LIMITS_BURST_SECONDS;

        l->left = MIN(full, l->left + (double) (now - l->filled) / 1e9 * (double) l->rate);
        if (l->left > 0)
            l->left -= samples;
        else
            wait = (int64_t) (-l->left / (double) l->rate * 1e9) + NS_PER_S;
    }
    l->filled = now;
    *ret_rate = l->rate;
    pthread_mutex_unlock(&l->lock);
    return wait;
}

bool tenant_limits_take(struct tenant_limits *l, const struct batch *b, struct ack_result *ret)
{
    int64_t max = l->max_series, rate, wait;
    int r = series_limit_take(&l->series, b, max);

    *ret = (struct ack_result){.status = SINK_EXHAUSTED, .retry_ns = 60 * NS_PER_S};
    if (r == -EDQUOT) {
        snprintf(
            ret->message, sizeof ret->message,
            "tenant '%s' has reached its limit of %lld series (limits.series), and this request has new ones; remove "
            "labels with many values",
            l->tenant, (long long) max);
        return false;
    }
    if (r < 0) {
        *ret = (struct ack_result){.status = SINK_UNAVAILABLE, .retry_ns = NS_PER_S, .message = "out of memory"};
        return false;
    }
    wait = take_samples(l, b->n_samples, &rate);
    if (!wait)
        return true;
    ret->retry_ns = wait;
    snprintf(ret->message, sizeof ret->message,
             "tenant '%s' sends more than %lld samples per second (limits.samples_per_second)", l->tenant,
             (long long) rate);
    return false;
}

void tenant_limits_init(struct tenant_limits *l, const char *tenant, const char *const *allow)
{
    *l = (struct tenant_limits){.tenant = tenant, .filled = clock_mono()};
    pthread_mutex_init(&l->lock, NULL);
    series_limit_init(&l->series);
    if (allow)
        l->series.allow = allow;
}

void tenant_limits_set(struct tenant_limits *l, int64_t rate, int64_t max_series)
{
    l->max_series = max_series;
    pthread_mutex_lock(&l->lock);
    if (l->rate != rate)
        l->left = (double) rate * LIMITS_BURST_SECONDS;
    l->rate = rate;
    pthread_mutex_unlock(&l->lock);
}

void tenant_limits_done(struct tenant_limits *l)
{
    series_limit_done(&l->series);
    pthread_mutex_destroy(&l->lock);
}
