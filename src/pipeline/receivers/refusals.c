/* SPDX-License-Identifier: Apache-2.0 */
/* Counts and logs requests that receivers refuse, see refusals.h. Peers share PEERS_MAX places by the hash of their address:
 * two peers that collide share one line a minute. */
#include "pipeline/receivers/refusals.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/metric_text.h"
#include "base/str.h"
#include "model/sink.h"

enum { PEERS_MAX = 512, RECEIVERS = 2 };

static const char *const receivers[RECEIVERS] = {"otlp", "pyroscope"};
static const char *const reasons[REFUSALS] = {"malformed",   "generation", "unsupported", "too_large",
                                              "credentials", "limit",      "unavailable"};

static struct {
    pthread_mutex_t lock;
    uint64_t counts[RECEIVERS][REFUSALS];
    struct log_limit limits[PEERS_MAX];
} refusals = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The address without its port, which changes with every connection. */
static struct str host_of(const char *peer)
{
    struct str s = str_from(peer ? peer : "");
    const char *colon = strrchr(s.p, ':');

    return colon && colon > s.p ? str_slice(s, 0, (size_t) (colon - s.p)) : s;
}

enum refusal refusals_reason(const struct ack_result *r)
{
    return r->status == SINK_INVALID     ? REFUSED_MALFORMED
           : r->status == SINK_EXHAUSTED ? REFUSED_LIMIT
                                         : REFUSED_UNAVAILABLE;
}

void refusals_note(const char *receiver, const char *peer, enum refusal why, const char *message)
{
    struct str host = host_of(peer);
    struct log_limit *limit = &refusals.limits[hash64_str(host) % PEERS_MAX];
    int which = strcmp(receiver, receivers[1]) == 0;
    uint64_t held = 0;
    bool log;

    pthread_mutex_lock(&refusals.lock);
    refusals.counts[which][why]++;
    log = log_limited(limit, 60 * NS_PER_S, &held);
    pthread_mutex_unlock(&refusals.lock);
    if (log)
        log_warn("%s: refused a request from %.*s (%s): %s (%llu more from there since the last message)", receiver,
                 STR_FMT(host.n ? host : STR("a local process")), reasons[why], message, (unsigned long long) held);
}

static void put_count(struct buf *out, const char *receiver, const char *reason, uint64_t n)
{
    char labels[80];

    snprintf(labels, sizeof labels, "receiver=\"%s\",reason=\"%s\"", receiver, reason);
    metric_value(out, "wick_receiver_refused_requests_total", labels, (double) n);
}

void refusals_print(struct buf *out)
{
    metric_head(out, "wick_receiver_refused_requests_total", METRIC_COUNTER, "Requests that were refused.");
    pthread_mutex_lock(&refusals.lock);
    for (int i = 0; i < RECEIVERS; i++)
        for (int k = 0; k < REFUSALS; k++)
            put_count(out, receivers[i], reasons[k], refusals.counts[i][k]);
    pthread_mutex_unlock(&refusals.lock);
}
