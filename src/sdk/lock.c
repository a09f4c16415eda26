/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling of lock waits (lock.h): decides by a countdown in nanoseconds whether a wait is sampled, and records it. */
#include "sdk/lock.h"

#include "sdk/provider.h"
#include "sdk/wait_sample.h"

_Atomic bool lock_on;
static _Atomic uint64_t mean_ns;
static __thread int64_t countdown;
static __thread bool inside;

void lock_start(uint64_t interval_ns, bool on)
{
    if (interval_ns)
        mean_ns = interval_ns;
    atomic_store(&lock_on, on);
}

void lock_exclude_thread(void)
{
    inside = true;
}

void lock_waited(int64_t ns)
{
    struct thr *t;
    uint64_t value, count;

    if (inside || !atomic_load_explicit(&core.sampling, memory_order_relaxed))
        return;
    inside = true;
    t = thr_self ? thr_self : thr_adopt();
    if (t && !countdown) /* a new thread: draw a number before counting */
        wait_is_sampled(t, &countdown, 1, mean_ns, &value, &count);
    if (t && wait_is_sampled(t, &countdown, ns, mean_ns, &value, &count)) {
        atomic_fetch_add_explicit(&core.samples[TYPE_LOCK], 1, memory_order_relaxed);
        handler_sample_here(t, RECORD_LOCK, value, count, 0);
    }
    inside = false;
}
