/* SPDX-License-Identifier: Apache-2.0 */
/* Samples from extensions (ext.h). wick_ext_sample() may run in a signal handler: it calls only handler.c and reads
 * atomics. */
#include "sdk/ext.h"

#include <string.h>

#include "model/semconv.h"
#include "sdk/core.h"
#include "sdk/ext_frames.h"
#include "sdk/heap.h"
#include "sdk/last_error.h"
#include "sdk/lock.h"
#include "sdk/span.h"
#include "sdk/sys.h"

static _Atomic int thread_key = -1; /* key number of the label thread.name */

static int kind_of(unsigned type)
{
    return type == WICK_CPU    ? RECORD_EXT_CPU
           : type == WICK_WALL ? RECORD_EXT_WALL
           : type == WICK_LOCK ? RECORD_EXT_LOCK
                               : RECORD_NONE;
}

int wick_ext_thread(void)
{
    if (atomic_load(&thread_key) < 0)
        atomic_store(&thread_key, span_key_number(SEMCONV_THREAD_NAME));
    if (!thr_self && !thr_adopt())
        return last_error_set(WICK_ENOMEM, "too many threads");
    return WICK_OK;
}

int wick_ext_sample(const struct wick_ext_sample *given)
{
    struct wick_ext_sample s = WICK_EXT_SAMPLE_INIT;
    struct handler_given what;
    uint8_t label[2 + 64 + 128];
    int key = atomic_load(&thread_key);

    if (given->size < sizeof given->size || given->size > 65536)
        return WICK_EINVAL;
    memcpy(&s, given, MIN(given->size, sizeof s));
    what = (struct handler_given){.kind = kind_of(s.type),
                                  .value = (uint64_t) s.value,
                                  .count = (uint64_t) s.count,
                                  .pc = s.frames,
                                  .n = s.n_frames,
                                  .trace_id = s.span_id ? s.trace_id : NULL,
                                  .span_id = s.trace_id ? s.span_id : NULL};
    if (what.kind == RECORD_NONE || !s.n_frames || !s.frames || s.value < 0 || s.count < 0)
        return WICK_EINVAL;
    if (!atomic_load(&core.sampling) || !(core.types & s.type))
        return WICK_ESTATE;
    if (!thr_self && wick_ext_thread() < 0)
        return WICK_ENOMEM;
    if (s.thread && key >= 0) {
        size_t n = strnlen(s.thread, 64);

        label[0] = (uint8_t) key;
        label[1] = (uint8_t) n;
        memcpy(label + 2, s.thread, n);
        what.label = label;
        what.label_n = (uint32_t) n + 2;
    }
    if (s.labels && s.labels_n <= sizeof label - what.label_n) {
        memcpy(label + what.label_n, s.labels, s.labels_n);
        what.label = label;
        what.label_n += s.labels_n;
    }
    if (!handler_put(thr_self, &what))
        return WICK_ENOMEM;
    atomic_fetch_add_explicit(&core.samples[__builtin_ctz(s.type)], 1, memory_order_relaxed);
    return WICK_OK;
}

int wick_ext_helper_begin(void)
{
    heap_exclude_thread();
    lock_exclude_thread();
    return thr_help() ? WICK_OK : last_error_set(WICK_ENOMEM, "too many threads");
}

void wick_ext_helper_end(void)
{
    thr_help_end();
}

int wick_ext_helper_full(void)
{
    struct thr *t = thr_self;

    if (!t || atomic_load(&t->head) - atomic_load(&t->tail) < THR_RING / 2)
        return 0;
    handler_wake();
    return 1;
}

int64_t wick_ext_helper_interval(void)
{
    int64_t cpu = sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    struct thr *t = thr_self;

    if (t) {
        atomic_fetch_add(&core.helper_ns, (uint64_t) (cpu - t->cpu_seen));
        t->cpu_seen = cpu;
    }
    return atomic_load(&core.sampling) && core.types & WICK_WALL ? atomic_load(&core.wall_interval) : 0;
}

void wick_ext_set_walker(wick_ext_walker *walker)
{
    atomic_store(&core.walker, walker);
}

void wick_ext_set_namer(wick_ext_namer *namer)
{
    ext_frames_set_namer(namer);
}

int wick_ext_label_key(const char *name)
{
    return span_key_number(name);
}

void wick_ext_alloc(void *p, size_t size)
{
    if (p && heap_crosses(size))
        heap_record(p, size);
}

void wick_ext_free(void *p)
{
    if (p && heap_may_be_sampled(p))
        heap_forget(p);
}
