/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the sampling rate, the number of processes to read and the memory for tables from measured costs. */
#include "agent/governor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"

static const double WINDOW_NS = 60e9;
static const size_t TABLES_MIN = 2 << 20;
static const double WAITS_MAX = 1 << 16;
enum { READS_MANY = 200 }; /* processes per second at which the limit begins */

void governor_init(struct governor *g, const struct governor_limits *l)
{
    *g = (struct governor){.limits = *l, .rate = l->rate, .reads = GOVERNOR_READS, .table_bytes = l->table_bytes};
}

static unsigned rate_for(const struct governor *g)
{
    const struct governor_limits *l = &g->limits;
    double room;

    if (l->cpu <= 0 || g->cost <= 0)
        return l->rate;
    room = l->cpu / g->cost; /* above 1: part of the budget is unused */
    if (room < 1)
        return MAX((unsigned) ((double) g->rate * room * 0.9), MIN(l->rate, (unsigned) GOVERNOR_RATE_MIN));
    if (room > 1.5 && g->rate < l->rate &&
        g->reads == GOVERNOR_READS) /* in small steps: the cost at the new rate is not known yet */
        return MIN(g->rate + MAX(g->rate / 4, 1u), l->rate);
    return g->rate;
}

/* Limits how many new processes are read when a lower rate does not help, or is not enough. Uses the cost of the last
 * interval instead of the average, because this limit takes effect at once. */
static unsigned reads_for(const struct governor *g, double part)
{
    const struct governor_limits *l = &g->limits;

    if (l->cpu <= 0)
        return GOVERNOR_READS;
    if (part > l->cpu && (g->rate <= GOVERNOR_RATE_MIN || part > 2 * l->cpu))
        return MAX((unsigned) (MIN(g->reads, (unsigned) READS_MANY) * (l->cpu / part) * 0.8), 1u);
    if (part < 0.7 * l->cpu && g->cost < l->cpu && g->reads < GOVERNOR_READS)
        return MIN(g->reads + MAX(g->reads / 10, 1u), (unsigned) GOVERNOR_READS);
    return g->reads;
}

static size_t tables_for(const struct governor *g, size_t memory)
{
    const struct governor_limits *l = &g->limits;

    if (!l->memory)
        return g->table_bytes;
    if (memory > l->memory)
        return MAX(g->table_bytes / 2, TABLES_MIN);
    if (memory < l->memory / 2)
        return MIN(g->table_bytes * 2, l->table_bytes);
    return g->table_bytes;
}

bool governor_tell(struct governor *g, int64_t interval_ns, uint64_t spent_ns, size_t memory)
{
    double part = interval_ns > 0 ? (double) spent_ns / (double) interval_ns / MAX(g->limits.cpus, 1u) : 0;
    double weight = MIN((double) interval_ns / WINDOW_NS, 1.0);
    unsigned rate = g->rate;
    size_t tables = g->table_bytes;

    g->cost += (part - g->cost) * weight; /* starts at 0: startup costs more than normal operation */
    g->rate = rate_for(g);
    g->reads = reads_for(g, part);
    g->table_bytes = tables_for(g, memory);
    g->text[0] = 0;
    if (g->rate < g->limits.rate || g->reads < GOVERNOR_READS)
        snprintf(g->text, sizeof g->text, "rate %u of %u%s to stay within %.2g %% CPU", g->rate, g->limits.rate,
                 g->reads < GOVERNOR_READS ? ", few new processes are read" : "", 100 * g->limits.cpu);
    else if (g->table_bytes < g->limits.table_bytes)
        snprintf(g->text, sizeof g->text, "smaller tables to stay within %zu MB", g->limits.memory >> 20);
    return rate != g->rate || tables != g->table_bytes;
}

size_t governor_memory(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    const char *at;

    if (fd_read_file("/proc/self/status", 1 << 16, &b, NULL) < 0 || !buf_cstr(&b))
        return 0;
    at = strstr(b.p, "RssAnon:");
    return at ? strtoul(at + 8, NULL, 10) * 1024 : 0;
}

unsigned governor_waits(unsigned n, double part, double target)
{
    if (part > target)
        return (unsigned) MIN(n * (part / target) + 1, WAITS_MAX);
    return part < target / 2 && n > 1 ? n - n / 4 - 1 : n; /* recover in small steps */
}
