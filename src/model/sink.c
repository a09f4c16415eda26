/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counted join of acknowledgements: see sink.h. There is no lock. A result that says more than "OK" goes into the
 * slot of its rank; the first one of a rank wins the slot and is the only writer of it. The decrement of `holds`
 * publishes the slot to the thread that completes last and reads them all.
 */
#include "model/sink.h"

#include <stdarg.h>
#include <stdio.h>

static int rank_of(const struct ack_result *r)
{
    if (r->status == SINK_OK)
        return r->rejected || *r->message || r->again ? ACK_NOTED : -1;
    return sink_status_retryable(r) ? ACK_RETRYABLE : ACK_PERMANENT;
}

void ack_hold(struct ack *a, uint32_t n)
{
    if (!a || !n)
        return;
    if (!a->joined) /* with one hold, no other thread is involved yet */
        a->joined = true;
    atomic_fetch_add_explicit(&a->holds, n, memory_order_relaxed);
}

static void note(struct ack *a, const struct ack_result *r)
{
    int rank = rank_of(r);

    if (rank < 0)
        return;
    atomic_fetch_add_explicit(&a->rejected, r->rejected, memory_order_relaxed);
    if (!(atomic_fetch_or_explicit(&a->noted, 1u << rank, memory_order_relaxed) & 1u << rank))
        a->results[rank] = *r;
}

void ack_complete_joined(struct ack *a, const struct ack_result *r)
{
    struct ack_result worst = {.status = SINK_OK};
    uint32_t noted;

    note(a, r);
    if (atomic_fetch_sub_explicit(&a->holds, 1, memory_order_acq_rel) != 0)
        return;
    noted = atomic_load_explicit(&a->noted, memory_order_relaxed);
    for (int i = ACK_RANKS; i-- > 0;)
        if (noted & 1u << i)
            ack_result_join(&worst, &a->results[i]);
    worst.rejected = atomic_load_explicit(&a->rejected, memory_order_relaxed);
    a->holds = 0;
    a->noted = 0;
    a->rejected = 0;
    a->joined = false;
    a->done(a, &worst);
}

void ack_result_join(struct ack_result *worst, const struct ack_result *r)
{
    bool again = worst->again || r->again || sink_status_retryable(worst) || sink_status_retryable(r);
    uint64_t rejected = worst->rejected + r->rejected;

    if (rank_of(r) > rank_of(worst))
        *worst = *r;
    worst->again = again;
    worst->rejected = rejected;
}

void ack_fail(struct ack *a, enum sink_status status, int64_t retry_ns, const char *fmt, ...)
{
    struct ack_result r = {.status = status, .retry_ns = retry_ns};
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(r.message, sizeof r.message, fmt, ap);
    va_end(ap);
    ack_complete(a, &r);
}
