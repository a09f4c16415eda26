/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of Prometheus' text format. See metric_text.h. */
#include "base/metric_text.h"

void metric_head(struct buf *out, const char *name, enum metric_kind kind, const char *help)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};

    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kinds[kind]);
}

void metric_value(struct buf *out, const char *name, const char *labels, double value)
{
    buf_printf(out, labels[0] ? "%s{%s} %.17g\n" : "%s%s %.17g\n", name, labels, value);
}

void metric_put(struct buf *out, const char *name, enum metric_kind kind, const char *help, double value)
{
    metric_head(out, name, kind, help);
    metric_value(out, name, "", value);
}

void metric_label(struct buf *labels, const char *name, struct str value)
{
    buf_printf(labels, "%s%s=\"", labels->n ? "," : "", name);
    for (uint32_t i = 0; str_is_utf8(value) && i < value.n; i++) {
        if (value.p[i] == '\\' || value.p[i] == '"')
            buf_putc(labels, '\\');
        if (value.p[i] == '\n')
            buf_puts(labels, "\\n");
        else
            buf_putc(labels, value.p[i]);
    }
    buf_putc(labels, '"');
}

void metric_put_rows(struct buf *out, const struct metric_row *rows, const void *stats)
{
    for (const struct metric_row *r = rows; r->name; r++) {
        int64_t v = __atomic_load_n((const int64_t *) ((const char *) stats + r->offset), __ATOMIC_RELAXED);

        metric_put(out, r->name, r->kind, r->help, r->scale > 0 ? (double) v * r->scale : (double) v);
    }
}

void metric_put_histogram(struct buf *out, const char *name, const char *help, const struct metric_histogram *h)
{
    uint64_t sum = 0;

    metric_head(out, name, METRIC_HISTOGRAM, help);
    for (size_t i = 0; i < h->n; i++) {
        sum += h->buckets[i];
        buf_printf(out, "%s_bucket{le=\"%g\"} %llu\n", name, h->limits[i], (unsigned long long) sum);
    }
    sum += h->buckets[h->n];
    buf_printf(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.9g\n%s_count %llu\n", name, (unsigned long long) sum, name,
               h->sum, name, (unsigned long long) sum);
}
