/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters and gauges, exported in Prometheus' text format under the Collector's own names. A metric is
 * created once (main thread), then changed from any thread.
 */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include <stdatomic.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/metric_text.h"

struct metric {
    _Atomic int64_t value;
    double scale;                      /* the printed value is value * scale; 0 counts as 1 */
    int64_t (*read)(struct metric *m); /* called when printing, instead of value; may be NULL */
    void *arg;                         /* for read */
    const char *name, *help, *labels;  /* labels: name="value",... without braces */
    enum metric_kind kind;
    struct metric *next;
};

struct metrics;

int metrics_new(struct metrics **ret);
void metrics_free(struct metrics *m);
/* The metric with this name and these labels (printf), created at first use. Never NULL: without memory it returns one
 * that is never printed. name and help must live forever. */
struct metric *metrics_add(struct metrics *m, enum metric_kind kind, const char *name, const char *help,
                           const char *labels, ...) _printf_(5, 6);
void metrics_print(struct metrics *m, struct buf *out);

static inline void metric_add(struct metric *m, int64_t n)
{
    atomic_fetch_add_explicit(&m->value, n, memory_order_relaxed);
}

static inline void metric_set(struct metric *m, int64_t n)
{
    atomic_store_explicit(&m->value, n, memory_order_relaxed);
}

static inline int64_t metric_get(struct metric *m)
{
    return m->read ? m->read(m) : atomic_load_explicit(&m->value, memory_order_relaxed);
}

#endif
