/* SPDX-License-Identifier: Apache-2.0 */
/* Weighs the samples of a process by the CPU time that the kernel counted for it (process_cpu.h). */
#include "agent/process_cpu.h"

#include <unistd.h>

#include "agent/process.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/macros.h"

enum {
    BAND_PERIODS = 2, /* a smaller difference is chance */
    BAND_PART = 100,  /* or this part of the samples: the clocks of running threads lag by a tick */
    WEIGHT_MAX = 4,   /* the rest is left to later samples */
    HEAD_PERIODS = 4, /* a process that used so many is sampled almost certainly: counting all of them adds no bias */
};
static const uint64_t READ_NS = NS_PER_S / 4;

/* Reads the clock. Returns the CPU time since it was last read; negative when the process is gone, or the pid is another
 * process, which cannot have used what this one has. */
static int64_t advance(struct process *p, uint64_t until_ns)
{
    struct process_cpu *c = &p->cpu;
    int64_t clock = child_cpu_ns((pid_t) p->pid), used = clock - c->clock_ns;
    uint64_t now = (uint64_t) clock_mono(), elapsed = now - c->read_ns;
    static long cpus;

    if (!cpus)
        cpus = sysconf(_SC_NPROCESSORS_CONF);
    if (clock <= 0 || p->until_ns != UINT64_MAX || used < 0 ||
        (uint64_t) used > (elapsed + (uint64_t) NS_PER_S) * (uint64_t) cpus)
        return -1;
    c->clock_ns = clock;
    c->read_ns = now;
    if (until_ns && now > until_ns) /* the part of the time that counts */
        used = now - elapsed < until_ns
                   ? (int64_t) ((double) used * (double) (until_ns - (now - elapsed)) / (double) elapsed)
                   : 0;
    return used;
}

/* The first sample that counts. */
static int64_t begin(struct process *p, int64_t ns, uint64_t until_ns)
{
    struct process_cpu *c = &p->cpu;
    uint64_t now = (uint64_t) clock_mono();
    int64_t pending = c->pending_ns;

    c->pending_ns = 0;
    c->clock_ns = p->until_ns == UINT64_MAX ? child_cpu_ns((pid_t) p->pid) : 0;
    if (c->clock_ns > 0)
        c->base_ns = c->read_ns = now;
    c->is_whole = c->from_start && c->clock_ns >= HEAD_PERIODS * ns && (!until_ns || now <= until_ns);
    c->from_start = false;
    return pending + (c->is_whole ? c->clock_ns : ns);
}

int64_t process_cpu_add(struct process *p, uint64_t time_ns, int64_t ns, uint64_t until_ns)
{
    struct process_cpu *c = &p->cpu;

    if (!c->base_ns)
        return begin(p, ns, until_ns);
    if (time_ns <= c->base_ns)
        return c->is_whole ? 0 : ns;
    c->pending_ns += ns;
    return (uint64_t) clock_mono() - c->read_ns < READ_NS ? 0 : process_cpu_settle(p, until_ns);
}

int64_t process_cpu_settle(struct process *p, uint64_t until_ns)
{
    struct process_cpu *c = &p->cpu;
    int64_t used = c->pending_ns && c->base_ns ? advance(p, until_ns) : -1;

    if (used < 0)
        return c->pending_ns ? process_cpu_stop(p) : 0;
    c->pending_ns = 0;
    return used;
}

int64_t process_cpu_stop(struct process *p)
{
    int64_t pending = p->cpu.pending_ns;

    p->cpu.pending_ns = 0;
    process_cpu_skip(p);
    return pending;
}

void process_cpu_skip(struct process *p)
{
    p->cpu.base_ns = 0;
    p->cpu.from_start = false;
}

int64_t process_cpu_weigh(int64_t *balance_ns, int64_t plain_ns, int64_t period_ns, int64_t used_ns)
{
    int64_t total, band = MAX(BAND_PERIODS * period_ns, plain_ns / BAND_PART);

    *balance_ns += used_ns - plain_ns;
    if (*balance_ns <= band && *balance_ns >= -band)
        return plain_ns;
    total = MIN(MAX(plain_ns + *balance_ns, plain_ns / WEIGHT_MAX), plain_ns * WEIGHT_MAX);
    *balance_ns -= total - plain_ns;
    return total;
}
