/* SPDX-License-Identifier: Apache-2.0 */
/* The user side of off-CPU sampling: adapts how many waits are sampled, keeps stacks that were sent ahead, and reads
 * stacks of waiting threads. */
#include "agent/waits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/bpf_side.h"
#include "agent/governor.h"
#include "agent/process.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

enum { PLACES = 2048 };
static const double PART_DEFAULT = 0.02;
static const uint64_t GOVERN_NS = NS_PER_S / 10, LOOK_NS = NS_PER_S;

struct waits {
    struct bpf_side *bpf;
    double part;
    unsigned cpus;
    uint64_t next_look_ns;
    uint64_t governed_ns, spent_ns, switches; /* when the rate was last adapted, and the counters at that time */
    struct wait_stack places[PLACES];         /* by tid */
};

int waits_new(struct bpf_side *bpf, double part, unsigned cpus, struct waits **ret)
{
    struct waits *s = mem_zalloc(sizeof *s);

    if (!s)
        return -ENOMEM;
    s->bpf = bpf;
    s->part = part > 0 ? part : PART_DEFAULT;
    s->cpus = MAX(cpus, 1u);
    s->governed_ns = (uint64_t) clock_mono();
    *ret = s;
    return 0;
}

void waits_free(struct waits *s)
{
    for (size_t i = 0; s && i < PLACES; i++)
        mem_free(s->places[i].words);
    mem_free(s);
}

/* Adapts how many waits are sampled; the cost of switches that are skipped counts as well. */
static void govern(struct waits *s, uint64_t now_ns)
{
    struct agent_control *c = bpf_side_control(s->bpf);
    double machine = (double) (now_ns - s->governed_ns) * s->cpus, target;
    struct agent_stats st;

    if (now_ns - s->governed_ns < GOVERN_NS || bpf_side_stats(s->bpf, &st) < 0)
        return;
    target = s->part - (double) ((st.switches - s->switches) * WAITS_SWITCH_NS) / machine;
    c->off_cpu_n =
        governor_waits(c->off_cpu_n, (double) (st.switch_ns - s->spent_ns) / machine, MAX(target, s->part / 8));
    s->governed_ns = now_ns;
    s->spent_ns = st.switch_ns;
    s->switches = st.switches;
}

void waits_round(struct waits *s, uint64_t now_ns, bool flush)
{
    if (flush || now_ns >= s->next_look_ns) {
        bpf_side_look(s->bpf);
        s->next_look_ns = now_ns + LOOK_NS;
    }
    govern(s, now_ns);
}

int waits_keep(struct waits *s, const struct wait_stack *one)
{
    struct wait_stack *at = &s->places[one->tid % PLACES];
    uint64_t *words = mem_dup(one->words, one->n_words * sizeof *words);

    if (!words && one->n_words)
        return -ENOMEM;
    mem_free(at->words);
    *at = *one;
    at->words = words;
    return 0;
}

const struct wait_stack *waits_find(const struct waits *s, uint32_t tid, uint64_t wait_ns)
{
    const struct wait_stack *at = &s->places[tid % PLACES];

    return at->tid == tid && at->wait_ns == wait_ns ? at : NULL;
}

/* The number after a name in /proc/PID/status. */
static uint64_t number_of(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* The number of switches of a thread: while it does not change, the thread is still in the same wait. */
static uint64_t count_switches(const struct agent_event *e)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    char path[64];

    snprintf(path, sizeof path, "/proc/%u/task/%u/status", e->pid, e->tid);
    if (fd_read_file(path, 1 << 16, &b, NULL) < 0 || !buf_cstr(&b))
        return UINT64_MAX;
    return number_of(b.p, "\nvoluntary_ctxt_switches:") + number_of(b.p, "\nnonvoluntary_ctxt_switches:");
}

bool waits_read_stack(const struct process *p, const struct agent_event *e, struct agent_stack *ret)
{
    ssize_t n;

    ret->cpu = e->cpu;
    ret->time_ns = e->time_ns;
    ret->tid = e->tid;
    ret->sp = e->resume.sp - AGENT_RED_ZONE;
    ret->n = 0;
    ret->task = (struct agent_task){0};
    do { /* up to the first page that is not mapped */
        size_t chunk = 4096 - (ret->sp + ret->n) % 4096;

        n = process_read(p, ret->sp + ret->n, ret->bytes + ret->n, MIN(chunk, sizeof ret->bytes - ret->n));
        ret->n += n > 0 ? (uint32_t) n : 0;
    } while (n > 0 && ret->n < sizeof ret->bytes);
    return count_switches(e) == e->value_ns;
}
