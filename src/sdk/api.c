/* SPDX-License-Identifier: Apache-2.0 */
/* The provider functions of wick.h, and the single provider of the process. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "sdk/ending.h"
#include "sdk/ext_frames.h"
#include "sdk/frame_table.h"
#include "sdk/heap.h"
#include "sdk/heap_view.h"
#include "sdk/last_error.h"
#include "sdk/mem_sdk.h"
#include "sdk/modules.h"
#include "sdk/provider.h"
#include "sdk/span.h"
#include "sdk/start.h"
#include "sdk/sys.h"
#include "sdk/thread_hooks.h"

static struct wick_provider *current;
static pthread_mutex_t one_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the current provider, and start and stop */
static bool atfork_done;

struct wick_provider *provider_current(void)
{
    return __atomic_load_n(&current, __ATOMIC_ACQUIRE);
}

static struct wick_provider *given(struct wick_provider *p)
{
    struct wick_provider *c = provider_current();

    if (!c || (p && p != c))
        last_error_set(WICK_ESTATE, "no provider exists");
    return !p || p == c ? c : NULL;
}

/* --- the background thread --- */
int provider_start_thread(struct wick_provider *p, struct err *e)
{
    int r;

    atomic_store(&p->stop, false);
    p->ended = false;
    p->alone_ms = 1;
    pthread_sigmask(SIG_SETMASK, NULL, &p->host_mask);
    r = thread_start(&p->thread, "wick", background_main, p, e);
    atomic_store(&p->thread_running, r == 0);
    return r;
}

/* pthread_join() returns a moment before the kernel has one thread less. Who asks for a user namespace in that moment would still be
 * refused it. */
static void wait_until_gone(int tid)
{
    struct timespec nap = {0, 50 * NS_PER_US};

    for (int i = 0; i < 2000 && sys_call(SYS_tgkill, getpid(), tid, 0, 0) == 0; i++)
        sys_call(SYS_nanosleep, (long) &nap, 0, 0, 0);
}

/* The thread may be inside the system's resolver, which cannot be interrupted: then it is left running. */
void provider_stop_thread(struct wick_provider *p)
{
    int64_t until = clock_mono() + (p->s.stop_ms + 2000) * NS_PER_MS;
    bool ended;

    if (!atomic_load(&p->thread_running))
        return;
    atomic_store(&p->stop, true);
    handler_wake();
    pthread_mutex_lock(&p->lock);
    while (!p->ended && thread_wait(&p->changed, &p->lock, until) == 0)
        ;
    ended = p->ended;
    pthread_mutex_unlock(&p->lock);
    if (!ended)
        return;
    pthread_join(p->thread, NULL);
    wait_until_gone(atomic_load(&p->thread_id));
    atomic_store(&p->thread_running, false);
}

int provider_run(struct wick_provider *p, int (*f)(struct wick_provider *, void *), void *arg)
{
    int r;

    if (!atomic_load(&p->thread_running))
        return -ESHUTDOWN;
    pthread_mutex_lock(&p->lock);
    while (p->job || p->job_arg) /* the job of another caller */
        pthread_cond_wait(&p->changed, &p->lock);
    p->job = f;
    p->job_arg = arg;
    p->job_done = false;
    handler_wake();
    while (!p->job_done)
        pthread_cond_wait(&p->changed, &p->lock);
    r = p->job_result;
    p->job_arg = NULL;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return r;
}

/* --- fork --- */
static void before_fork(void)
{
    pthread_mutex_lock(&one_lock);
    ext_frames_fork_prepare();
    modules_fork_prepare();
    heap_fork_prepare();
    mem_sdk_fork_prepare();
}

static void after_fork_parent(void)
{
    mem_sdk_fork_done();
    heap_fork_done();
    modules_fork_done();
    ext_frames_fork_done();
    pthread_mutex_unlock(&one_lock);
}

static uint64_t all_samples(void)
{
    uint64_t sum = heap_samples();

    for (int i = 0; i < N_TYPES; i++)
        sum += atomic_load(&core.samples[i]);
    for (uint32_t i = 0, n = atomic_load(&core.n_thrs); i < n; i++)
        sum += thr_at(i) ? atomic_load_explicit(&thr_at(i)->samples, memory_order_relaxed) : 0;
    return sum;
}

bool provider_has_samples(const struct wick_provider *p)
{
    return all_samples() > p->samples_before;
}

static void reset_numbers(struct wick_provider *p)
{
    for (int i = 0; i < N_TYPES; i++) {
        agg_reset(&p->export[i]);
        agg_reset(&p->file_totals[i]);
    }
    p->sessions = NULL;
    memset(p->snapshots, 0, sizeof p->snapshots);
    p->gov_mono = p->gov_cpu = p->gov_own = p->gov_wall = p->gov_samples = 0;
    p->wall_cost = p->samples_cost = p->wall_next = p->wall_soon = p->scan_next = 0;
    atomic_store(&p->wall_last, 0);
    p->lines_ns = 0;
    p->samples_before = all_samples();
    server_forget(p);
    p->first_wall = p->interval_start_wall = clock_wall();
    p->first_mono = p->interval_start_mono = clock_mono();
    p->pid = getpid();
}

/* The child has one thread, no timers, no background thread, and a copy of all memory. */
static void after_fork_child(void)
{
    struct wick_provider *p = current;

    mem_sdk_fork_done();
    heap_fork_done();
    modules_fork_done();
    ext_frames_fork_done();
    pthread_mutex_init(&one_lock, NULL);
    if (!p)
        return;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    p->job = NULL;
    p->job_arg = NULL;
    p->flush_done = p->flush_wanted;
    ending_reset();
    thr_reset_child();
    span_reset_child();
    reset_numbers(p);
    atomic_store(&core.wake, 0);
    if (!atomic_load(&core.running))
        return;
    atomic_store(&p->thread_running, false);
    start_child_file(p);
    provider_start_thread(p, NULL);
    thr_begin_process();
    if (thr_self && atomic_load(&core.sampling))
        thr_arm(thr_self);
}

/* --- start and stop --- */
static int64_t other_distance;

static void *measure_distance(void *arg)
{
    other_distance = span_context_distance();
    return NULL;
}

static void find_context_distance(void)
{
    pthread_t t;

    if (core.context_static || thread_start(&t, "wick", measure_distance, NULL, NULL) < 0)
        return;
    pthread_join(t, NULL);
    core.context_static = other_distance == span_context_distance();
}

static void find_self(void)
{
    uint64_t here = (uint64_t) (uintptr_t) find_self;
    const struct module_set *set = atomic_load(&core.modules);
    const struct module *m = set ? modules_find(set, here) : NULL;

    if (m && !core.self_lo) { /* set only once, because handlers read it */
        core.self_hi = m->hi;
        core.self_lo = m->lo;
    }
}

static void main_stack(uint64_t *lo, uint64_t *hi)
{
    struct rlimit limit;
    uint64_t size = 8 << 20;
    extern void *__libc_stack_end;

    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < size)
        size = limit.rlim_cur;
    *hi = (uint64_t) (uintptr_t) __libc_stack_end;
    *lo = *hi - size;
}

/* Registers the calling thread if it is the first of the process; others are found by scanning. */
static void enter_main(void)
{
    uint64_t lo = 0, hi = 0;

    if (getpid() == gettid())
        main_stack(&lo, &hi);
    if (!thr_self)
        thr_enter(lo, hi);
    else if (lo) {
        thr_self->own_lo = lo;
        thr_self->own_hi = hi;
    }
    if (thr_self)
        thread_hooks_watch_end(thr_self);
    thr_begin_process();
}

static int begin_sampling(struct wick_provider *p, struct err *e)
{
    int r = 0;

    core.types = p->s.types;
    atomic_store(&core.rate, p->s.rate);
    core.max_depth = p->s.max_depth;
    r = modules_refresh();
    if (r < 0)
        return err_set(e, r, "out of memory for unwind tables");
    find_self();
    if (core.types & (WICK_CPU | WICK_WALL))
        r = handler_install(p->s.signal);
    if (r < 0)
        return err_set(e, r, "cannot install a handler for signal %d: %m", p->s.signal);
    if (core.types & (WICK_ALLOC | WICK_HEAP))
        r = heap_start(p->s.alloc_interval, core.types & WICK_HEAP);
    if (r < 0)
        return err_set(e, r, "out of memory for heap tables");
    start_hooks();
    lock_start(p->s.lock_interval_ns, core.types & WICK_LOCK);
    wall_start(core.types & WICK_WALL ? p->s.rate : 0);
    p->first_wall = p->interval_start_wall = clock_wall();
    p->first_mono = p->interval_start_mono = clock_mono();
    atomic_store(&p->wall_last, 0);
    atomic_store(&core.running, true);
    atomic_store(&core.sampling, !p->s.paused);
    return 0;
}

static int start_locked(struct wick_provider *p, struct err *e)
{
    int r;

    if (atomic_load(&p->thread_running)) /* see provider_stop_thread() */
        return err_set(e, -EBUSY, "the previous export is still in progress");
    ending_reset();
    if (!atfork_done)
        atfork_done = pthread_atfork(before_fork, after_fork_parent, after_fork_child) == 0;
    find_context_distance();
    r = begin_sampling(p, e);
    if (r < 0)
        return r;
    enter_main();
    if (atomic_load(&core.sampling)) {
        if (thr_self)
            thr_arm(thr_self);
        thr_scan();
    }
    r = provider_start_thread(p, e);
    heap_begin_thread();
    if (r < 0) {
        atomic_store(&core.running, false);
        atomic_store(&core.sampling, false);
        thr_disarm_all();
    }
    return r;
}

/* Publishes to readers outside the process which service this is and which profile types it sends. */
static void publish(struct wick_provider *p)
{
    static const char *const names[N_TYPES] = {"cpu", "wall", "alloc", "heap", "lock"};
    bool sends = p->s.exporting && atomic_load(&core.running) && atomic_load(&core.sampling);
    char types[64] = "";

    for (int i = 0; sends && i < N_TYPES; i++)
        if (p->s.types & (1u << i)) {
            strncat(types, types[0] ? "," : "", sizeof types - strlen(types) - 1);
            strncat(types, names[i], sizeof types - strlen(types) - 1);
        }
    span_publish_process(p->s.service_name, p->s.service_version, types);
}

static void stop_locked(struct wick_provider *p)
{
    if (!atomic_load(&core.running))
        return;
    atomic_store(&core.running, false);
    lock_start(0, false);
    wall_start(0);
    thr_disarm_all();
    ending_hurry((unsigned) p->s.stop_ms);
    pthread_mutex_lock(&p->lock);
    p->flush_wanted++; /* a last export, by the background thread as it ends */
    pthread_mutex_unlock(&p->lock);
    provider_stop_thread(p);
    atomic_store(&core.sampling, false);
    heap_stop();
    if (core.types & (WICK_CPU | WICK_WALL))
        handler_remove();
    publish(p);
}

struct wick_provider *wick_provider_new(const struct wick_options *options)
{
    struct wick_provider *p;
    struct err e = {0};
    int r;

    pthread_mutex_lock(&one_lock);
    if (current) {
        pthread_mutex_unlock(&one_lock);
        last_error_set(WICK_EBUSY, "this process already has a provider");
        return NULL;
    }
    p = mem_zalloc(sizeof *p);
    r = p ? settings_read(&p->s, options, &e) : -ENOMEM;
    if (r == 0) {
        mem_sdk_set_budget(p->s.memory_budget);
        pthread_mutex_init(&p->lock, NULL);
        pthread_cond_init(&p->changed, NULL);
        p->pid = getpid();
        gethostname(p->host, sizeof p->host - 1);
        for (int i = 0; i < N_TYPES; i++) {
            agg_init(&p->export[i], p -> s.max_samples);
            agg_init(&p->file_totals[i], p->s.max_samples);
        }
        p->export[TYPE_CPU].timed = true;
        __atomic_store_n(&current, p, __ATOMIC_RELEASE);
        r = start_locked(p, &e);
        if (r < 0)
            __atomic_store_n(&current, NULL, __ATOMIC_RELEASE);
    }
    if (r == 0)
        publish(p);
    pthread_mutex_unlock(&one_lock);
    if (r == 0)
        return p;
    last_error_from(r, &e);
    if (p)
        settings_done(&p->s);
    mem_free(p);
    return NULL;
}

void wick_provider_free(struct wick_provider *p)
{
    pthread_mutex_lock(&one_lock);
    if (!p || p != current) {
        pthread_mutex_unlock(&one_lock);
        return;
    }
    stop_locked(p);
    if (atomic_load(&p->thread_running)) { /* the old thread still uses its tables, and a second one would share them */
        pthread_mutex_unlock(&one_lock);
        return;
    }
    server_free(p);
    __atomic_store_n(&current, NULL, __ATOMIC_RELEASE);
    for (int i = 0; i < N_TYPES; i++) {
        agg_done(&p->export[i]);
        agg_done(&p->file_totals[i]);
    }
    while (p->sessions)
        session_end(p, p->sessions);
    settings_done(&p->s);
    mem_free(p);
    pthread_mutex_unlock(&one_lock);
}

int wick_start(struct wick_provider *p)
{
    struct err e = {0};
    int r = 0;

    if (!(p = given(p)))
        return WICK_ESTATE;
    pthread_mutex_lock(&one_lock);
    if (!atomic_load(&core.running))
        r = start_locked(p, &e);
    if (r == 0)
        publish(p);
    pthread_mutex_unlock(&one_lock);
    return r < 0 ? last_error_from(r, &e) : 0;
}

int wick_stop(struct wick_provider *p)
{
    int r;

    if (!(p = given(p)))
        return WICK_ESTATE;
    pthread_mutex_lock(&one_lock);
    stop_locked(p);
    pthread_mutex_lock(&p->lock); /* another thread may have stopped it, whose join says nothing to this one */
    r = p->flush_result;
    pthread_mutex_unlock(&p->lock);
    pthread_mutex_unlock(&one_lock);
    return r < 0 ? last_error_set(last_error_code(r), "%s", p->flush_error) : 0;
}

int wick_pause(struct wick_provider *p)
{
    if (!(p = given(p)))
        return WICK_ESTATE;
    pthread_mutex_lock(&one_lock);
    atomic_store(&core.sampling, false);
    thr_disarm_all();
    publish(p);
    pthread_mutex_unlock(&one_lock);
    return 0;
}

int wick_resume(struct wick_provider *p)
{
    if (!(p = given(p)) || !atomic_load(&core.running))
        return last_error_set(WICK_ESTATE, "no provider exists, or it is stopped");
    pthread_mutex_lock(&one_lock);
    atomic_store(&p->wall_last, 0);
    atomic_store(&core.sampling, true);
    thr_arm_all();
    thr_scan();
    heap_begin_thread();
    publish(p);
    pthread_mutex_unlock(&one_lock);
    return 0;
}

int wick_flush(struct wick_provider *p, unsigned timeout_ms)
{
    int64_t until = clock_mono();
    uint64_t mine;
    int r = 0;

    if (!(p = given(p)) || !atomic_load(&p->thread_running))
        return last_error_set(WICK_ESTATE, "no provider exists, or it is stopped");
    if (!timeout_ms) /* the timeout of the export, plus time to report its error */
        timeout_ms = (unsigned) p->s.timeout_ms + 1000;
    until += timeout_ms * NS_PER_MS;
    pthread_mutex_lock(&p->lock);
    mine = ++p->flush_wanted;
    handler_wake();
    while (p->flush_done < mine && r == 0)
        r = thread_wait(&p->changed, &p->lock, until);
    r = p->flush_done >= mine ? p->flush_result : -ETIMEDOUT;
    if (r < 0)
        r = last_error_set(last_error_code(r), "%s",
                           p->flush_error[0] ? p->flush_error : "the export did not finish in time");
    pthread_mutex_unlock(&p->lock);
    return r;
}

int wick_get_stats(struct wick_provider *p, struct wick_stats *ret)
{
    struct wick_stats s = WICK_STATS_INIT;

    if (!(p = given(p)))
        return WICK_ESTATE;
    if (ret->size < sizeof ret->size)
        return last_error_set(WICK_EINVAL, "stats.size is not set: use WICK_STATS_INIT");
    for (int i = 0; i < N_TYPES; i++)
        s.samples[i] = atomic_load(&core.samples[i]);
    s.samples[TYPE_ALLOC] = heap_samples();
    s.samples[TYPE_HEAP] = core.types & WICK_HEAP ? heap_samples() : 0;
    s.lost = atomic_load(&core.lost) + heap_lost();
    s.truncated = atomic_load(&core.truncated);
    for (int i = 0; i < N_TYPES; i++)
        s.overflow += p->export[i].overflow;
    s.live = heap_live_samples();
    for (uint32_t i = 0, n = atomic_load(&core.n_thrs); i < n; i++) {
        const struct thr *t = thr_at(i);

        s.threads += t && atomic_load(&t->state) == THR_ACTIVE && t->timer >= 0;
        s.samples[TYPE_CPU] += t ? atomic_load_explicit(&t->samples, memory_order_relaxed) : 0;
    }
    s.modules = atomic_load(&core.modules) ? atomic_load(&core.modules)->n : 0;
    s.handler_ns = atomic_load(&core.handler_ns);
    s.background_ns = atomic_load(&p->background_ns);
    s.memory = mem_sdk_held();
    s.exports = atomic_load(&p->exports);
    s.failed_exports = atomic_load(&p->failed);
    s.exported_bytes = atomic_load(&p->exported_bytes);
    s.rate = atomic_load(&core.rate);
    s.governor = atomic_load(&p->governor);
    pthread_mutex_lock(&p->lock);
    memcpy(s.last_error, p->last_error, sizeof s.last_error);
    pthread_mutex_unlock(&p->lock);
    s.size = ret->size;
    memcpy(ret, &s, MIN(ret->size, sizeof s));
    return 0;
}

/* --- on request --- */
struct counts {
    int type;
    struct buf out;
    struct err e;
};

static int take_snapshot(struct wick_provider *p, void *arg)
{
    struct counts *s = arg;
    struct provider_session *was = p->snapshots[s->type],
                            once = {.type = s->type, .start_wall = p->first_wall, .start_mono = p->first_mono};
    int r = session_pprof(p, was ? was : &once, &s->out, &s->e);

    if (was)
        session_end(p, was);
    p->snapshots[s->type] = s->type == TYPE_CPU || s->type == TYPE_WALL ? session_begin(p, s->type) : NULL;
    return r;
}

int wick_snapshot(struct wick_provider *p, unsigned type, void **ret, size_t *ret_size)
{
    struct counts s = {.out = BUF_INIT};
    int r;

    if (!(p = given(p)))
        return WICK_ESTATE;
    if (!type || type & (type - 1) || !(type & p->s.types))
        return last_error_set(WICK_EINVAL, "type 0x%x is not being sampled", type);
    s.type = type == WICK_ALLOC ? TYPE_HEAP : __builtin_ctz(type);
    r = provider_run(p, take_snapshot, &s);
    if (r < 0)
        return last_error_from(r, &s.e);
    *ret = buf_take(&s.out, ret_size);
    return *ret ? 0 : last_error_set(WICK_ENOMEM, "out of memory for a snapshot");
}

void wick_snapshot_free(void *p, size_t size)
{
    mem_free(p);
}

struct listening {
    const char *address;
    struct err e;
};

static int start_listening(struct wick_provider *p, void *arg)
{
    struct listening *l = arg;

    return server_listen(p, l->address, &l->e);
}

int wick_serve_pprof(struct wick_provider *p, const char *address)
{
    struct listening l = {.address = address};
    int r;

    if (!(p = given(p)))
        return WICK_ESTATE;
    r = provider_run(p, start_listening, &l);
    return r < 0 ? last_error_from(r, &l.e) : r;
}
