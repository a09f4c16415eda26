/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prometheus' text format: the only place that knows its lines. Each metric has one heading and then its values, one for each
 * set of labels.
 */
#ifndef BASE_METRIC_TEXT_H
#define BASE_METRIC_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

void metric_head(struct buf *out, const char *name, enum metric_kind kind, const char *help);
/* labels: name="value",... without braces; empty: none. */
void metric_value(struct buf *out, const char *name, const char *labels, double value);
/* A heading and a value without labels. */
void metric_put(struct buf *out, const char *name, enum metric_kind kind, const char *help, double value);
/* Adds a label to those in `labels`; its value is escaped, and empty if it is not UTF-8. */
void metric_label(struct buf *labels, const char *name, struct str value);

/* Metrics that are numbers in a struct. */
struct metric_row {
    const char *name;
    enum metric_kind kind;
    const char *help;
    size_t offset; /* of an int64_t or uint64_t */
    double scale;  /* 0 counts as 1 */
};
/* rows end with a name of NULL. */
void metric_put_rows(struct buf *out, const struct metric_row *rows, const void *stats);

struct metric_histogram {
    const double *limits; /* n of them, ascending */
    size_t n;
    const uint64_t
        *buckets; /* n + 1: how many were up to each limit and above the one before; the last one: above all */
    double sum;
};
void metric_put_histogram(struct buf *out, const char *name, const char *help, const struct metric_histogram *h);

#endif
