/* SPDX-License-Identifier: Apache-2.0 */
/* Wall-clock profiles (wall.h): hooks publish the stack of a blocked thread, and the background thread accounts for all
 * waiting time. */
#include "sdk/wall.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "sdk/frame_table.h"
#include "sdk/modules.h"
#include "sdk/provider.h"
#include "sdk/sleeping.h"
#include "sdk/sys.h"
#include "sdk/wait_sample.h"

enum { AWAKE_MAX = 200 }; /* looks that find a thread awake though it waits in between: then it is not known where */
enum { WORTH = 16 };  /* a thread that waits less than this part of the time is not looked at more often than others */
enum { SMOOTH = 32 }; /* looks over which a difference between what is owed and what was added is made up for */

_Atomic bool wall_on;
static _Atomic uint64_t period_ns = 10000000;

void wall_start(unsigned rate)
{
    if (rate)
        period_ns = 1000000000u / rate;
    atomic_store(&wall_on, rate != 0);
}

/* --- on the host's threads --- */
struct thr *wall_enter(uint64_t leaf, uint64_t pc, uint64_t sp, uint64_t fp, uint64_t bx)
{
    struct thr *t = thr_self;

    if (!t || atomic_load_explicit(&t->block_seq, memory_order_relaxed) & 1 ||
        !atomic_load_explicit(&core.sampling, memory_order_relaxed))
        return NULL;
    t->block_leaf = leaf + 1;
    t->block_pc = pc;
    t->block_sp = sp;
    t->block_fp = fp;
    t->block_bx = bx;
    handler_keep_context(t);
    atomic_store_explicit(&t->block_since, sys_clock_ns(CLOCK_MONOTONIC), memory_order_relaxed);
    atomic_fetch_add_explicit(&t->block_seq, 1, memory_order_release);
    return t;
}

void wall_leave(struct thr *t)
{
    int saved = errno;
    int64_t now = sys_clock_ns(CLOCK_MONOTONIC), ns;
    uint64_t value, count;

    atomic_fetch_add_explicit(&t->block_seq, 1, memory_order_acq_rel);
    ns = now - atomic_load(&t->block_since); /* the part that the background thread has not accounted for */
    atomic_fetch_add_explicit(&t->hooked_ns, (uint64_t) MAX(ns, (int64_t) 0), memory_order_relaxed);
    if (!t->wall_countdown) /* a new thread: draw a number before counting */
        wait_is_sampled(t, &t->wall_countdown, 1, period_ns, &value, &count);
    if (wait_is_sampled(t, &t->wall_countdown, ns, period_ns, &value, &count)) {
        atomic_fetch_add_explicit(&core.samples[TYPE_WALL], 1, memory_order_relaxed);
        handler_sample_here(t, RECORD_WALL, value, count, t->block_leaf);
    }
    errno = saved;
}

/* --- on the background thread --- */
static void add(struct wick_provider *p, const struct ring_record *r, const uint32_t *ids, uint32_t n, int64_t ns)
{
    int64_t period = (int64_t) atomic_load(&period_ns), count = (p->wall_uncounted + ns) / period;

    p->wall_uncounted += ns - count * period;
    atomic_fetch_add_explicit(&core.samples[TYPE_WALL], 1, memory_order_relaxed);
    if (p->s.exporting)
        agg_add(&p->export[TYPE_WALL], r, ids, n, count, ns);
    if (p->s.file)
        agg_add(&p->file_totals[TYPE_WALL], r, ids, n, count, ns);
    for (struct provider_session *s = p->sessions; s; s = s->next)
        if (s->type == TYPE_WALL)
            agg_add(&s->agg, r, ids, n, count, ns);
}

uint32_t wall_blocked_stack(const struct thr *t, uint64_t *pc, uint8_t *ret_flags, uint32_t *ret_generation)
{
    struct walk_start from = {t->block_pc, t->block_sp, t->block_fp, t->block_bx, false};

    pc[0] = t->block_leaf;
    return 1 + handler_walk_at(&from, pc + 1, core.max_depth - 1, ret_flags, ret_generation);
}

/* A thread inside a blocking call: its time up to now is added to the stack that it published. */
static void account_blocked(struct wick_provider *p, struct thr *t, int64_t now)
{
    uint64_t room[(sizeof(struct ring_record) + CORE_ATTRS_MAX) / 8 + 1] = {0};
    struct ring_record *context = (struct ring_record *) room;
    uint32_t seq = atomic_load_explicit(&t->block_seq, memory_order_acquire), n, ids[CORE_DEPTH_MAX + 1], generation;
    int64_t since = atomic_load(&t->block_since), ns = now - since;
    uint64_t pc[CORE_DEPTH_MAX];
    uint8_t flags;

    if (!(seq & 1) || ns < (int64_t) period_ns)
        return;
    n = wall_blocked_stack(t, pc, &flags, &generation);
    handler_add_context(t, context);
    if (!atomic_compare_exchange_strong(&t->block_since, &since, now))
        return;
    if (atomic_load(&t->block_seq) != seq) { /* it resumed in the meantime: it may or may not have counted this time */
        atomic_store(&t->block_since, since);
        return;
    }
    atomic_fetch_add(&t->hooked_ns, (uint64_t) ns);
    n = frames_resolve(pc, n, generation, ids);
    if (flags & (RECORD_CUT_DEPTH | RECORD_CUT_RULE))
        ids[n++] = FRAME_CUT;
    add(p, context, ids, n, ns);
}

/* Memory for a record of a thread's sleep, with room for all frames and attributes. */
static struct ring_record *new_asleep(const uint64_t *pc, uint32_t n, uint8_t flags, uint32_t generation)
{
    struct ring_record *r = mem_zalloc(sizeof *r + core.max_depth * sizeof r->pc[0] + CORE_ATTRS_MAX);

    if (!r)
        return NULL;
    r->n = (uint16_t) n;
    r->flags = flags;
    r->generation = generation;
    memcpy(r->pc, pc, n * sizeof *pc);
    return r;
}

const struct ring_record *wall_asleep(struct thr *t, int64_t cpu)
{
    uint64_t pc[CORE_DEPTH_MAX];
    uint32_t n, generation = 0;
    struct ring_record *r;
    uint8_t flags = 0;

    if (t->asleep && t->asleep_cpu == cpu)
        return t->asleep;
    n = sleeping_walk(t, pc, core.max_depth, &flags, &generation);
    r = n ? new_asleep(pc, n, flags, generation) : NULL;
    if (!r)
        return NULL;
    handler_ask_walker(r, core.max_depth, t->tid);
    if (atomic_load_explicit(&t->context_kept, memory_order_relaxed))
        handler_add_context(t, r);
    if (thr_cpu_ns(t->tid) != cpu) { /* it ran meanwhile */
        mem_free(r);
        return NULL;
    }
    mem_free(t->asleep);
    t->asleep = r;
    t->asleep_cpu = cpu;
    return r;
}

static void add_asleep(struct wick_provider *p, const struct ring_record *asleep, int64_t ns)
{
    uint32_t ids[CORE_DEPTH_MAX + 1], n = frames_resolve(asleep->pc, asleep->n, asleep->generation, ids);

    if (asleep->flags & (RECORD_CUT_DEPTH | RECORD_CUT_RULE))
        ids[n++] = FRAME_CUT;
    add(p, asleep, ids, n, ns);
}

/* Waiting that was not seen: added to where the thread ran last. */
static void add_parked(struct wick_provider *p, const struct thr *t, int64_t ns)
{
    static const struct ring_record plain;
    uint32_t ids[CORE_DEPTH_MAX + 1], n = 0;

    ids[n++] = FRAME_PARKED;
    if (t->last)
        n += frames_resolve(t->last->pc, MIN(t->last->n, (uint16_t) CORE_DEPTH_MAX), t->last->generation, ids + 1);
    add(p, t->last ? t->last : &plain, ids, n, ns);
}

/*
 * Adds the time since the last look that the thread did not run, and that no hook measured, to what is owed: waiting, or being ready
 * to run without a CPU. Hooks measure the latter as well, and the CPU time in their calls. Returns false if it has hardly waited.
 */
static bool owe(struct thr *t, int64_t now, int64_t cpu)
{
    int64_t hooked = (int64_t) atomic_load(&t->hooked_ns), ready = -1, parked = 0;
    int64_t passed = now - t->wall_seen, off = hooked - t->off_seen, rest = passed - (cpu - t->cpu_seen) - off;

    if (cpu != t->cpu_seen) /* otherwise it slept all the time */
        ready = sleeping_ready_ns(t->tid);
    if (off && rest < 0)
        rest = 0;
    if (ready >= 0)
        parked = off ? MIN(ready - t->ready_seen, rest) : ready - t->ready_seen;
    t->rest_owed += rest - parked;
    t->parked_owed += parked;
    t->active = cpu != t->cpu_seen && rest - parked > off + passed / WORTH;
    t->wall_seen = now;
    t->cpu_seen = cpu;
    t->off_seen = hooked;
    t->ready_seen = ready >= 0 ? ready : t->ready_seen;
    return rest > passed / 256;
}

static void pay_parked(struct wick_provider *p, struct thr *t)
{
    if (t->parked_owed < (int64_t) atomic_load(&period_ns))
        return;
    add_parked(p, t, t->parked_owed);
    t->parked_owed = 0;
}

/*
 * Waiting that no hook saw. A look that finds the thread asleep stands for the time since the look before: each place where the thread
 * sleeps gets its share, however long or short its sleeps are. What it waited in all is known from the clocks: the difference is
 * made up for by the next looks.
 */
static void account_rest(struct wick_provider *p, struct thr *t, int64_t now, int64_t cpu)
{
    int64_t passed = now - t->looked, ns;
    const struct ring_record *asleep;

    t->looked = now;
    if (atomic_load(&t->block_seq) & 1) /* its call is not over: its time is taken into account at the next look */
        return;
    asleep = owe(t, now, cpu) ? wall_asleep(t, cpu) : NULL;
    if (asleep) {
        ns = MAX(passed + (t->rest_owed - passed) / SMOOTH, (int64_t) 0);
        if (ns)
            add_asleep(p, asleep, ns);
        t->rest_owed -= ns;
        t->awake = 0;
    } else if (t->rest_owed > 0 && ++t->awake > AWAKE_MAX) {
        t->parked_owed += t->rest_owed;
        t->rest_owed = t->awake = 0;
    }
    pay_parked(p, t);
}

void wall_end(struct wick_provider *p, struct thr *t)
{
    if (!(core.types & WICK_WALL))
        return;
    if (t->rest_owed > 0 && t->asleep)
        add_asleep(p, t->asleep, t->rest_owed);
    else if (t->rest_owed > 0)
        t->parked_owed += t->rest_owed;
    pay_parked(p, t);
}

/*
 * The first look at a thread. Waiting after the last look at a thread is never seen, and a thread that lives shorter than
 * the time between two looks is mostly not seen at all; so one that is found asleep at its first look stands for the
 * whole time since the previous looks. The sum over many threads is right, however long they live.
 */
static void begin_thread(struct wick_provider *p, struct thr *t, int64_t since_last, int64_t now, int64_t cpu)
{
    bool hooked = atomic_load(&t->block_seq) & 1; /* its call is measured by itself */
    const struct ring_record *asleep = since_last && !hooked ? wall_asleep(t, cpu) : NULL;

    t->looked = t->wall_seen = now;
    t->cpu_seen = cpu;
    t->off_seen = (int64_t) atomic_load(&t->hooked_ns);
    t->ready_seen = MAX(sleeping_ready_ns(t->tid), (int64_t) 0);
    t->rest_owed = t->parked_owed = 0;
    t->awake = 0;
    t->active = true;
    if (asleep)
        add_asleep(p, asleep, since_last);
}

bool wall_look(struct wick_provider *p, int64_t now, bool all)
{
    int64_t last = atomic_load(&p->wall_last);
    bool active = false;

    for (uint32_t i = 0, n = atomic_load(&core.n_thrs); i < n; i++) {
        struct thr *t = thr_at(i);
        int64_t cpu;

        if (!t || atomic_load(&t->state) != THR_ACTIVE || !(all || t->active) || (cpu = thr_cpu_ns(t->tid)) < 0)
            continue;
        if (t->wall_seen && last) {
            account_blocked(p, t, now);
            account_rest(p, t, now, cpu);
        } else if (all) {
            begin_thread(p, t, last ? now - last : 0, now, cpu);
        }
        active |= t->active;
    }
    if (all)
        atomic_store(&p->wall_last, now);
    return active;
}
