/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The background thread: drains the rings into sums, updates the lists of modules and threads, exports at its interval,
 * serves requests, and keeps the overhead within the budget.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "sdk/ending.h"
#include "sdk/frame_table.h"
#include "sdk/heap.h"
#include "sdk/heap_view.h"
#include "sdk/lock.h"
#include "sdk/modules.h"
#include "sdk/provider.h"
#include "sdk/start.h"
#include "sdk/sys.h"

/* At 100 Hz and 36 frames, a busy thread fills two thirds of its ring in one tick; above that its handler wakes us. */
enum {
    TICK_MS = 250,
    IDLE_TICK_MS = 500,
    WALL_TICK_MS = 200,
    EXT_WALL_TICK_MS = 100,
    WALL_OFTEN = 10,
    SCAN_NS = 1000000000
};
enum { SCAN_SHARE = 4000, SCAN_MAX = 8 }; /* looking for new threads may use 1/SCAN_SHARE of a core, up to SCAN_MAX s */

/* Limits of the governor */
#define GOVERN_NS (10 * NS_PER_S) /* maximum time between two checks */
#define LIGHT 10                  /* a process counts as using at least 1/LIGHT of a core */
#define ROOM 0.4                  /* below this share of the budget, twice the rate fits into it */
enum { RATE_MIN = 19, WALL_MAX_MS = 5000 };

/* --- draining --- */
static void add_to_all(struct wick_provider *p, int type, const struct ring_record *r, const uint32_t *ids, uint32_t n,
                       const int64_t v[2])
{
    bool wanted = p->s.types & (1u << type); /* otherwise a request to /debug/pprof turned it on */

    if (p->s.exporting && wanted)
        agg_add(&p->export[type], r, ids, n, v[0], v[1]);
    if ((p->s.file && wanted) || type == TYPE_LOCK)
        agg_add(&p->file_totals[type], r, ids, n, v[0], v[1]);
    for (struct provider_session *s = p->sessions; s; s = s->next)
        if (s->type == type)
            agg_add(&s->agg, r, ids, n, v[0], v[1]);
}

static void keep_last(struct thr *t, const struct ring_record *r)
{
    size_t size = sizeof *r + r->n * sizeof r->pc[0];
    struct ring_record *copy = mem_realloc(t->last, size);

    if (!copy)
        return;
    memcpy(copy, r, size);
    copy->attrs = 0;
    t->last = copy;
}

static void take_record(struct wick_provider *p, struct thr *t, const struct ring_record *r)
{
    uint32_t ids[CORE_DEPTH_MAX + 1],
        n = frames_resolve(r->pc, MIN(r->n, (uint16_t) CORE_DEPTH_MAX), r->generation, ids);

    p->export[TYPE_CPU].thread = t->tid;
    if (r->flags & (RECORD_CUT_DEPTH | RECORD_CUT_RULE))
        ids[n++] = FRAME_CUT;
    switch (atomic_load(&r->kind)) {
    case RECORD_CPU:
        if (core.types & WICK_CPU)
            add_to_all(p, TYPE_CPU, r, ids, n, (int64_t[]){(int64_t) r->value, (int64_t) (r->value * r->count)});
        if (core.types & WICK_WALL || p->server || atomic_load_explicit(&t->owed, memory_order_relaxed))
            keep_last(t, r);
        if (core.types & WICK_WALL) {
            add_to_all(p, TYPE_WALL, r, ids, n, (int64_t[]){(int64_t) r->value, (int64_t) (r->value * r->count)});
        }
        break;
    case RECORD_WALL:
        add_to_all(p, TYPE_WALL, r, ids, n, (int64_t[]){(int64_t) (r->count >> 16), (int64_t) r->value});
        break;
    case RECORD_LOCK:
        add_to_all(p, TYPE_LOCK, r, ids, n, (int64_t[]){(int64_t) ((r->count + 32768) >> 16), (int64_t) r->value});
        break;
    case RECORD_EXT_CPU:
        add_to_all(p, TYPE_CPU, r, ids, n, (int64_t[]){(int64_t) r->count, (int64_t) r->value});
        break;
    case RECORD_EXT_WALL:
        add_to_all(p, TYPE_WALL, r, ids, n, (int64_t[]){(int64_t) r->count, (int64_t) r->value});
        break;
    case RECORD_EXT_LOCK:
        add_to_all(p, TYPE_LOCK, r, ids, n, (int64_t[]){(int64_t) r->count, (int64_t) r->value});
        break;
    default:
        break;
    }
}

/* Returns true if there were records. */
static bool drain_thread(struct wick_provider *p, struct thr *t)
{
    uint32_t tail = atomic_load_explicit(&t->tail, memory_order_relaxed);
    uint32_t head = atomic_load_explicit(&t->head, memory_order_acquire);
    bool any = tail != head;

    while (tail != head) {
        struct ring_record *r = (struct ring_record *) (t->ring + (tail & (THR_RING - 1)));
        uint32_t kind = atomic_load_explicit(&r->kind, memory_order_acquire), size;

        if (kind == RECORD_NONE) /* not committed yet */
            break;
        size = r->size;
        if (kind != RECORD_PAD)
            take_record(p, t, r);
        memset(r, 0, size);
        tail += size;
        atomic_store_explicit(&t->tail, tail, memory_order_release);
    }
    return any;
}

/* The last CPU record in the ring; NULL if there is none. */
static struct ring_record *last_cpu_record(struct thr *t)
{
    uint32_t tail = atomic_load_explicit(&t->tail, memory_order_relaxed);
    uint32_t head = atomic_load_explicit(&t->head, memory_order_acquire);
    struct ring_record *last = NULL;

    while (tail != head) {
        struct ring_record *r = (struct ring_record *) (t->ring + (tail & (THR_RING - 1)));
        uint32_t kind = atomic_load_explicit(&r->kind, memory_order_acquire);

        if (kind == RECORD_NONE)
            break;
        if (kind == RECORD_CPU)
            last = r;
        tail += r->size;
    }
    return last;
}

/* The ring of a busy thread was full, because this thread did not get its turn, and no further record will include what
 * did not fit: it is added to the last stack that is known. */
static void settle_owed(struct wick_provider *p, struct thr *t)
{
    struct ring_record *r = last_cpu_record(t), *copy;
    uint64_t owed = atomic_exchange(&t->owed, 0);

    if (r) {
        r->value += owed;
    } else if (t->last) {
        size_t size = sizeof *copy + t->last->n * sizeof copy->pc[0];

        copy = mem_alloc(size);
        if (!copy)
            return;
        memcpy(copy, t->last, size);
        copy->value = owed;
        take_record(p, t, copy);
        mem_free(copy);
    }
}

static void free_thread(struct thr *t)
{
    mem_free(t->last);
    mem_free(t->asleep);
    t->last = t->asleep = NULL;
    t->created_n = 0;
    atomic_store(&t->head, 0);
    atomic_store(&t->tail, 0);
    atomic_store_explicit(&t->state, THR_FREE, memory_order_release);
}

bool background_drain(struct wick_provider *p)
{
    bool any = false;

    for (uint32_t i = 0, n = atomic_load(&core.n_thrs); i < n; i++) {
        struct thr *t = thr_at(i);
        uint32_t state = t ? atomic_load_explicit(&t->state, memory_order_acquire) : THR_FREE;

        if (state != THR_ACTIVE && state != THR_EXITED && state != THR_HELPER)
            continue;
        if (atomic_load_explicit(&t->owed, memory_order_relaxed) &&
            (state == THR_EXITED || !atomic_load(&core.sampling)))
            settle_owed(p, t);
        any |= drain_thread(p, t);
        if (state == THR_EXITED) {
            wall_end(p, t);
            free_thread(t);
        }
    }
    if (core.types & (WICK_ALLOC | WICK_HEAP))
        heap_view_update();
    return any;
}

/* --- governor --- */
static void set_rate(unsigned rate)
{
    thr_disarm_all();
    atomic_store(&core.rate, rate);
    if (atomic_load(&core.sampling))
        thr_arm_all();
}

/* What was used since the last check, in nanoseconds of CPU. */
struct usage {
    int64_t all, wall, samples; /* by us: in all, for looking at waiting threads, for CPU samples */
    int64_t process, passed;
};

/* False if that is too little to judge by: then the observation is extended. */
static bool take_usage(struct wick_provider *p, struct usage *ret)
{
    int64_t cpu = sys_clock_ns(CLOCK_PROCESS_CPUTIME_ID), own = sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    int64_t now = clock_mono(), handlers = (int64_t) atomic_load(&core.handler_ns);
    int64_t samples = p->samples_cost + handlers, helpers = (int64_t) atomic_load(&core.helper_ns);
    int64_t wall = p->wall_cost + helpers;
    bool first = !p->gov_mono; /* building the tables of the objects loaded at the start is a one-time cost */

    atomic_store(&p->background_ns, (uint64_t) (own + helpers));
    own += handlers + helpers;
    *ret = (struct usage){own - p->gov_own, wall - p->gov_wall, samples - p->gov_samples, cpu - p->gov_cpu,
                          now - p->gov_mono};
    if (!first && ret->process < NS_PER_S / 2 && ret->passed < GOVERN_NS &&
        (double) ret->all < (double) GOVERN_NS / LIGHT * p->s.cpu_budget) /* otherwise it is certain to be too much */
        return false;
    p->gov_mono = now;
    p->gov_own = own;
    p->gov_cpu = cpu;
    p->gov_wall = wall;
    p->gov_samples = samples;
    return !first;
}

static int64_t wall_base(void)
{
    return (atomic_load(&core.walker) ? EXT_WALL_TICK_MS : WALL_TICK_MS) * NS_PER_MS; /* an extension has no hooks */
}

static void slow_wall(double over)
{
    double factor = over > 8 ? 8 : over > 2 ? over : 2;

    double longer = (double) atomic_load(&core.wall_interval) * factor;

    atomic_store(&core.wall_interval, MIN((int64_t) longer, WALL_MAX_MS * NS_PER_MS));
}

/*
 * Compares our own CPU time (handlers and this thread) with that of the process. Each type is governed by a lever of its
 * own: looking at waiting threads by the time between two looks, CPU samples by their rate, which is halved, but not
 * below RATE_MIN. When there is room again, both go back. Part of the cost depends on neither: a process that uses
 * little CPU is judged as if it used 1/LIGHT of a core.
 */
static void govern(struct wick_provider *p)
{
    unsigned rate = atomic_load(&core.rate), low = MIN((unsigned) RATE_MIN, p->s.rate);
    bool wall = core.types & WICK_WALL && atomic_load(&core.wall_interval) < WALL_MAX_MS * NS_PER_MS;
    struct usage u;
    int64_t used;
    double budget;

    if (!take_usage(p, &u))
        return;
    used = MAX(u.process, u.passed / LIGHT);
    budget = (double) used * p->s.cpu_budget;
    if ((double) u.all > budget) {
        if (p->wall_often > 1 && (u.wall > u.samples || rate <= low))
            p->wall_often /= 2;
        else if (wall && (u.wall > u.samples || rate <= low))
            slow_wall(2 * (double) u.wall / budget);
        else if (rate > low)
            set_rate(MAX(rate / 2, low));
        else
            return;
        atomic_fetch_add(&p->governor, 1);
    } else if ((double) u.all < budget * ROOM) {
        if (rate < p->s.rate)
            set_rate(MIN(2 * rate, p->s.rate));
        else if (atomic_load(&core.wall_interval) > wall_base())
            atomic_store(&core.wall_interval, MAX(atomic_load(&core.wall_interval) / 2, wall_base()));
        else
            p->wall_often = MIN(2 * p->wall_often, (int64_t) WALL_OFTEN);
    }
}

/* --- periodic work --- */
static void check_signal(void)
{
    if (!atomic_load(&core.sampling) || !(core.types & (WICK_CPU | WICK_WALL)) || handler_is_ours())
        return;
    thr_disarm_all(); /* the host has taken over the signal: leave it to the host and use another one */
    if (handler_install(0) == 0)
        thr_arm_all();
}

static void every_second(struct wick_provider *p, int64_t now)
{
    if (now >= p->scan_next) {
        int64_t from = sys_clock_ns(CLOCK_THREAD_CPUTIME_ID), cost;

        thr_scan();
        cost = sys_clock_ns(CLOCK_THREAD_CPUTIME_ID) - from;
        p->scan_next = now + MIN(cost * SCAN_SHARE, SCAN_MAX * NS_PER_S);
    }
    check_signal();
    govern(p);
}

static bool drain_measured(struct wick_provider *p)
{
    int64_t from = sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    bool any = background_drain(p);

    p->samples_cost += sys_clock_ns(CLOCK_THREAD_CPUTIME_ID) - from;
    return any;
}

/* Looks are at irregular times, so that a thread that works in step with them is seen at each of its places. */
static int64_t about(int64_t now, int64_t interval)
{
    return now + interval * 3 / 4 + (now >> 10) % (interval / 2);
}

/* A thread that ran lately may be somewhere else soon: it is looked at more often than the others, where the budget has room for it,
 * but not more often than the rate that was asked for. */
static void look_at_waiting(struct wick_provider *p, int64_t now)
{
    int64_t from = sys_clock_ns(CLOCK_THREAD_CPUTIME_ID), interval = atomic_load(&core.wall_interval);
    bool all = now >= p->wall_next;

    if (wall_look(p, now, all) && p->wall_often > 1)
        p->wall_soon = about(now, MAX(interval / p->wall_often, NS_PER_S / (int64_t) p->s.rate));
    else
        p->wall_soon = INT64_MAX;
    if (all)
        p->wall_next = about(now, interval);
    p->wall_cost += sys_clock_ns(CLOCK_THREAD_CPUTIME_ID) - from;
}

static int64_t next_look(const struct wick_provider *p)
{
    return MIN(p->wall_next, p->wall_soon);
}

static void run_job(struct wick_provider *p)
{
    int (*job)(struct wick_provider *, void *);

    pthread_mutex_lock(&p->lock);
    job = p->job;
    p->job = NULL;
    pthread_mutex_unlock(&p->lock);
    if (!job)
        return;
    p->job_result = job(p, p->job_arg);
    pthread_mutex_lock(&p->lock);
    p->job_done = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void run_flush(struct wick_provider *p, int64_t now)
{
    struct err e = {0};
    uint64_t wanted;
    bool due = p->s.exporting && now >= p->next_export, last = ending_flush_wanted();
    int r;

    pthread_mutex_lock(&p->lock);
    wanted = p->flush_wanted;
    pthread_mutex_unlock(&p->lock);
    if (wanted == p->flush_done && !due && !last)
        return;
    r = export_now(p, &e);
    if (wanted != p->flush_done || last) {
        int w = export_write_files(p, r < 0 ? NULL : &e); /* whether or not the export succeeded */

        r = r < 0 ? r : w;
    }
    if (r < 0)
        start_report(e.message);
    pthread_mutex_lock(&p->lock);
    memcpy(p->last_error, e.message, sizeof p->last_error - 1);
    if (r == 0)
        p->last_error[0] = 0;
    memcpy(p->flush_error, e.message, sizeof p->flush_error);
    p->flush_result = r;
    p->flush_done = wanted;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    if (last)
        ending_flushed();
}

/* --- the last thread --- */
/* If no known thread is left, look again soon: either the last one is about to end, or there is one that was not
 * known. */
static int64_t tick_ms(struct wick_provider *p, bool busy)
{
    int64_t tick = busy ? TICK_MS : IDLE_TICK_MS, wall = (next_look(p) - clock_mono()) / NS_PER_MS + 1;

    if (core.types & WICK_WALL)
        tick = MIN(tick, MAX(wall, (int64_t) 1));
    if (atomic_load(&core.live) > 0) {
        p->alone_ms = 1;
        return tick;
    }
    p->alone_ms = MIN(p->alone_ms * 2, (int64_t) IDLE_TICK_MS);
    return MIN(tick, p->alone_ms);
}

/* All threads of the host have ended, the first one by pthread_exit(). Without us the last one would have ended the
 * process with status 0, so we do the same. */
static _Noreturn void end_process(struct wick_provider *p)
{
    ending_hurry(ENDING_EXPORT_MS);
    pthread_mutex_lock(&p->lock);
    p->flush_wanted++;
    pthread_mutex_unlock(&p->lock);
    run_flush(p, clock_mono());
    atomic_store(&p->thread_running, false); /* a caller that stops the provider at exit must not wait for us */
    pthread_sigmask(SIG_SETMASK, &p->host_mask, NULL);
    exit(0);
}

void *background_main(void *arg)
{
    struct wick_provider *p = arg;
    int64_t now = clock_mono();
    bool busy = true, alone = false;

    atomic_store(&p->thread_id, sys_gettid());
    heap_exclude_thread();
    lock_exclude_thread();
    p->next_export = now + p->s.export_interval_ms * NS_PER_MS;
    atomic_store(&core.wall_interval, wall_base());
    p->wall_often = 1;
    for (int type = TYPE_CPU; type <= TYPE_WALL; type++) /* without an exporter, samples are only used by snapshots */
        if (!p->s.exporting && !p->s.file && core.types & (1u << type) && !p->snapshots[type])
            p->snapshots[type] = session_begin(p, type);
    while (!atomic_load(&p->stop) && !alone) {
        int64_t tick = tick_ms(p, busy);
        int64_t left = p->s.exporting ? (p->next_export - now) / NS_PER_MS + 1 : tick;

        server_poll(p, (int) MAX(MIN(left, tick), (int64_t) 0));
        if (!atomic_load(&p->stop) && !ending_flush_wanted())
            modules_make_tables();
        if (modules_refresh() > 0) /* before samples from newly loaded objects are named */
            start_hooks();
        busy = drain_measured(p);
        now = clock_mono();
        alone = (atomic_load(&core.live) <= 0 || now >= p->next_scan) && ending_alone();
        if (core.types & WICK_WALL && atomic_load(&core.sampling) && now >= next_look(p))
            look_at_waiting(p, now);
        if (now >= p->next_scan) {
            p->next_scan = now + SCAN_NS;
            every_second(p, now);
        }
        run_job(p);
        run_flush(p, now);
        if (now >= p->next_export)
            p->next_export = now + p->s.export_interval_ms * NS_PER_MS;
    }
    modules_refresh();
    background_drain(p);
    if (alone)
        end_process(p);
    run_flush(p, now);
    atomic_store(&p->background_ns, (uint64_t) sys_clock_ns(CLOCK_THREAD_CPUTIME_ID));
    pthread_mutex_lock(&p->lock);
    p->ended = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}
