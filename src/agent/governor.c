/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the sampling rate, when new processes may be read, and the memory for tables from measured costs. */
#include "agent/governor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"

static const size_t TABLES_MIN = 2 << 20;
static const double WAITS_MAX = 1 << 16;
/* A batch is made in one go, and what it costs is known only afterwards: this part of the budget is left for it. */
static const double USED_PART = 0.8, BEFORE_PART = 0.6;
enum {
    SPREAD = 20, /* 1/n of the unused budget may be spent in a second */
    LOOK = 10,   /* seconds by which the rate is judged: at least one batch is among them */
    SOON = 3,    /* after this many seconds already, if the cost is more than twice the share */
    RARELY = 10, /* new processes are hardly read if that is allowed in one of so many reports */
};

static struct governor_second *second_at(struct governor *g, uint64_t second)
{
    return &g->seconds[second % GOVERNOR_SECONDS];
}

static uint64_t sum_of(const struct governor *g)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < GOVERNOR_SECONDS; i++)
        sum += g->seconds[i].spent_ns;
    return sum;
}

/* Nanoseconds of CPU time that may be spent in a minute. */
static double usable(const struct governor_limits *l)
{
    return USED_PART * l->cpu * MAX(l->cpus, 1u) * GOVERNOR_SECONDS * (double) NS_PER_S;
}

/* What the second that now begins may cost. Its entry is still the one of the second 60 seconds before. */
static uint64_t share_of(const struct governor *g, const struct governor_second *leaves)
{
    double share = (double) leaves->spent_ns + (usable(&g->limits) - (double) sum_of(g)) / SPREAD;

    return share > 0 ? (uint64_t) share : 0;
}

/* The time before the start counts as if a part of the budget had been spent in it. Else the first seconds could use up the
 * budget of the whole minute. */
void governor_init(struct governor *g, const struct governor_limits *l, uint64_t now_ns)
{
    *g = (struct governor){
        .limits = *l, .rate = l->rate, .open = true, .begin_ns = now_ns, .table_bytes = l->table_bytes};
    for (size_t i = 1; i < GOVERNOR_SECONDS; i++)
        g->seconds[i].spent_ns = (uint64_t) (BEFORE_PART * usable(l) / GOVERNOR_SECONDS);
    g->seconds[0].share_ns = (uint64_t) ((1 - BEFORE_PART) * usable(l) / 2);
}

/* Judges the last LOOK seconds, or SOON, in all of which the rate was the same. */
static unsigned rate_for(struct governor *g)
{
    unsigned lowest = MIN(g->limits.rate, (unsigned) GOVERNOR_RATE_MIN);
    unsigned look = g->second < g->changed + LOOK ? SOON : LOOK;
    double spent = 0, share = 0, room;
    unsigned reports = 0, open = 0;

    if (g->second < g->changed + SOON)
        return g->rate;
    for (unsigned i = 1; i <= look; i++) {
        const struct governor_second *s = second_at(g, g->second - i);

        spent += (double) s->spent_ns;
        share += (double) s->share_ns;
        reports += s->reports;
        open += s->open_reports;
    }
    room = share / MAX(spent, 1.0); /* above 1: part of the budget is unused */
    if (look == SOON && room >= 0.5)
        return g->rate;
    if (room < 1 && open * RARELY <= reports)
        return MAX((unsigned) ((double) g->rate * MAX(room, 0.5) * 0.9), lowest);
    if (room > 1.5 && open == reports &&
        g->rate < g->limits.rate) /* in small steps: the cost at the new rate is not known yet */
        return MIN(g->rate + MAX(g->rate / 4, 1u), g->limits.rate);
    return g->rate;
}

static bool was_closed(struct governor *g)
{
    bool closed = false;

    for (unsigned i = 0; i < LOOK && i <= g->second; i++) {
        const struct governor_second *s = second_at(g, g->second - i);

        closed |= s->open_reports < s->reports;
    }
    return closed;
}

static void say(struct governor *g)
{
    const char *fewer = was_closed(g) ? "few new processes are read" : "";

    g->text[0] = 0;
    if (g->rate < g->limits.rate)
        snprintf(g->text, sizeof g->text, "rate %u of %u%s%s to stay within %.2g %% CPU", g->rate, g->limits.rate,
                 fewer[0] ? ", " : "", fewer, 100 * g->limits.cpu);
    else if (fewer[0])
        snprintf(g->text, sizeof g->text, "%s to stay within %.2g %% CPU", fewer, 100 * g->limits.cpu);
    else if (g->table_bytes < g->limits.table_bytes)
        snprintf(g->text, sizeof g->text, "smaller tables to stay within %zu MB", g->limits.memory >> 20);
}

static uint64_t second_of(const struct governor *g, uint64_t now_ns)
{
    return now_ns > g->begin_ns ? (now_ns - g->begin_ns) / (uint64_t) NS_PER_S : 0;
}

bool governor_is_due(const struct governor *g, uint64_t now_ns)
{
    return second_of(g, now_ns) != g->second;
}

bool governor_spent(struct governor *g, uint64_t now_ns, uint64_t total_ns)
{
    uint64_t now = second_of(g, now_ns), changed = g->changed;
    struct governor_second *s = second_at(g, g->second);

    s->spent_ns += total_ns - MIN(g->total_ns, total_ns);
    g->total_ns = MAX(g->total_ns, total_ns);
    if (g->limits.cpu <= 0)
        return false;
    while (g->second < now) {
        unsigned rate;

        s = second_at(g, ++g->second);
        *s = (struct governor_second){.share_ns = share_of(g, s)};
        rate = rate_for(g);
        g->changed = rate == g->rate ? g->changed : g->second;
        g->rate = rate;
    }
    g->open = s->spent_ns < s->share_ns;
    s->reports++;
    s->open_reports += g->open;
    say(g);
    return changed != g->changed;
}

bool governor_used(struct governor *g, size_t memory)
{
    const struct governor_limits *l = &g->limits;
    size_t tables = g->table_bytes;

    if (l->memory && memory > l->memory)
        g->table_bytes = MAX(tables / 2, TABLES_MIN);
    else if (l->memory && memory < l->memory / 2)
        g->table_bytes = MIN(tables * 2, l->table_bytes);
    return tables != g->table_bytes;
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
