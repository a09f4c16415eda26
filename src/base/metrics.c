/* SPDX-License-Identifier: Apache-2.0 */
/* Counters and gauges, and printing them in Prometheus' text format. See metrics.h. */
#include "base/metrics.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

struct metrics {
    pthread_mutex_t lock;
    struct arena arena;
    struct metric *first, **last;
};

static struct metric nowhere;

static int64_t read_rss(struct metric *m)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct str text, field;
    uint64_t pages;

    (void) m;
    if (fd_read_file("/proc/self/statm", 4096, &b, NULL) < 0)
        return 0;
    text = buf_str(&b);
    str_cut(&text, ' ');
    field = str_cut(&text, ' ');
    return str_to_u64(field, 10, &pages) < 0 ? 0 : (int64_t) pages * sysconf(_SC_PAGESIZE);
}

static int64_t read_cpu(struct metric *m)
{
    (void) m;
    return clock_cpu() / NS_PER_MS;
}

static int64_t read_uptime(struct metric *m)
{
    return (clock_mono() - (int64_t) (intptr_t) m->arg) / NS_PER_MS;
}

static void add_process_metrics(struct metrics *m)
{
    struct metric *x;

    x = metrics_add(m, METRIC_COUNTER, "otelcol_process_cpu_seconds", "CPU time used by the process", "%s", "");
    x->read = read_cpu;
    x->scale = 1e-3;
    x = metrics_add(m, METRIC_GAUGE, "otelcol_process_memory_rss", "Resident memory in bytes", "%s", "");
    x->read = read_rss;
    x = metrics_add(m, METRIC_COUNTER, "otelcol_process_uptime", "Seconds since the process started", "%s", "");
    x->read = read_uptime;
    x->arg = (void *) (intptr_t) clock_mono();
    x->scale = 1e-3;
}

int metrics_new(struct metrics **ret)
{
    struct metrics *m = mem_zalloc(sizeof *m);

    if (!m)
        return -ENOMEM;
    pthread_mutex_init(&m->lock, NULL);
    arena_init(&m->arena, 16 << 20);
    m->last = &m->first;
    add_process_metrics(m);
    *ret = m;
    return 0;
}

void metrics_free(struct metrics *m)
{
    if (!m)
        return;
    pthread_mutex_destroy(&m->lock);
    arena_done(&m->arena);
    mem_free(m);
}

static struct metric *find(struct metrics *m, const char *name, const char *labels)
{
    for (struct metric *x = m->first; x; x = x->next)
        if (strcmp(x->name, name) == 0 && strcmp(x->labels, labels) == 0)
            return x;
    return NULL;
}

struct metric *metrics_add(struct metrics *m, enum metric_kind kind, const char *name, const char *help,
                           const char *labels, ...)
{
    struct metric *x;
    char text[512];
    va_list ap;

    va_start(ap, labels);
    vsnprintf(text, sizeof text, labels, ap);
    va_end(ap);
    pthread_mutex_lock(&m->lock);
    x = find(m, name, text);
    if (!x) {
        char *copy = arena_cstr(&m->arena, str_from(text));

        x = arena_zalloc(&m->arena, sizeof *x);
        if (x && copy) {
            *x = (struct metric){.name = name, .help = help, .labels = copy, .kind = kind};
            *m->last = x;
            m->last = &x->next;
        } else {
            x = &nowhere;
        }
    }
    pthread_mutex_unlock(&m->lock);
    return x;
}

static void print_one(struct buf *out, struct metric *x)
{
    int64_t v = metric_get(x);

    metric_value(out, x->name, x->labels, x->scale > 0 ? (double) v * x->scale : (double) v);
}

void metrics_print(struct metrics *m, struct buf *out)
{
    pthread_mutex_lock(&m->lock);
    for (struct metric *x = m->first; x; x = x->next) {
        bool seen = false;

        for (struct metric *y = m->first; y != x && !seen; y = y->next)
            seen = strcmp(y->name, x->name) == 0;
        if (seen)
            continue;
        metric_head(out, x->name, x->kind, x->help);
        for (struct metric *y = x; y; y = y->next)
            if (strcmp(y->name, x->name) == 0)
                print_one(out, y);
    }
    pthread_mutex_unlock(&m->lock);
}
