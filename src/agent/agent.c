/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's main loop (agent.h). One round handles the kernel's records about processes first, so that every sample
 * finds its process; then the samples; then it loads what they missed. A sample whose walk ended because a process, a
 * mapping or a page was not loaded comes with the rest of its stack, and is walked to its end here.
 */
#include "agent/agent.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent_caps.h"
#include "agent/agent_stack.h"
#include "agent/agent_state.h"
#include "agent/bpf_side.h"
#include "agent/debug_file.h"
#include "agent/governor.h"
#include "agent/lang/lang.h"
#include "agent/object_lines.h"
#include "agent/perf_map.h"
#include "agent/perf_side.h"
#include "agent/process.h"
#include "agent/process_load.h"
#include "agent/reader/file_reader.h"
#include "agent/row_store.h"
#include "agent/sample_filter.h"
#include "agent/sample_ring.h"
#include "agent/sideband.h"
#include "agent/tally.h"
#include "agent/waits.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "model/batch.h"
#include "proc/far_call.h"

enum {
    SIDEBAND_BYTES = 1 << 22,
    POLL_BUSY_MS = 10,  /* between rounds while stacks are copied and files are new */
    POLL_IDLE_MS = 100, /* the ring is read this often */
    PERF_MAP_PIECE = 256 << 10,
    SPAN_AGAIN = 64, /* samples between two attempts to find a span variable that the loader has not placed yet */
};
static const size_t TABLE_BYTES = 16 << 20, ROW_BYTES = 8 << 20, TALLY_BYTES = 64 << 20, NAME_BYTES = 8 << 20;
static const uint64_t SWEEP_NS = 5ull * NS_PER_S;
static const double LINES_PART = 0.1, BUDGET_DEFAULT = 0.01; /* of the CPU budget, for lines */
static const uint64_t HURRY_NS = 2ull * NS_PER_S;

static void forget_process(void *arg, struct process *p)
{
    struct agent *a = arg;

    tally_forget(a->tally, p);
    far_forget(p->exited ? p->pid : 0);
    if (!a->bpf)
        return;
    process_unload(a->loader, p);
    if (p->exited && (a->options.filter || a->options.n_pids)) /* else the filter is empty */
        bpf_side_unfilter(a->bpf, p->pid);
}

/* --- samples --- */
static void add_sample(struct agent *a, struct process *p, const struct agent_event *e, uint32_t n_kernel,
                       uint32_t n_words, enum agent_end end)
{
    struct tally_sample s = {.event = e,
                             .words = a->words,
                             .n_kernel = MIN(n_kernel, n_words),
                             .n_words = n_words,
                             .end = end,
                             .inferred = a->inferred,
                             .labels = p ? a->labels : (struct str){0},
                             .weigh = a->bpf != NULL, /* without BPF there are no samples in the kernel */
                             .period_ns = NS_PER_S / a->hz};

    a->samples += e->weight;
    if (e->kind == AGENT_EVENT_CPU) {
        a->cpu_ns += e->weight * (uint64_t) s.period_ns;
        if (p && p->foreign == FOREIGN_UNKNOWN && (p->lang || p->samples > 1 || p->exited))
            p->foreign = foreign_find(p);
        if (p)
            a->foreign_ns[p->foreign] += e->weight * (uint64_t) s.period_ns;
    }
    if (tally_add(a->tally, p, &s) < 0)
        a->refused++;
}

/* Keeps the stack of a wait whose duration is reported later. */
static void keep_wait(struct agent *a, const struct agent_event *e, uint32_t n_words, enum agent_end end)
{
    struct wait_stack w = {e->wait_ns, e->tid, MIN(e->n_kernel, n_words), n_words, end, a->inferred, a->words};

    if (!a->waits || waits_keep(a->waits, &w) < 0)
        a->refused++;
}

/* Adds a wait whose stack was sent ahead (AGENT_EVENT_WAIT). */
static void add_kept(struct agent *a, struct process *p, const struct agent_event *e)
{
    const struct wait_stack *w = a->waits ? waits_find(a->waits, e->tid, e->wait_ns) : NULL;

    a->labels = (struct str){0};
    a->inferred = w && w->inferred;
    if (w)
        memcpy(a->words, w->words, w->n_words * sizeof a->words[0]);
    add_sample(a, p, e, w ? w->n_kernel : 0, w ? w->n_words : 0, w ? w->end : AGENT_END_DEPTH);
}

static void see_process(struct agent *a, struct process *p, const struct agent_event *e)
{
    a->processes_sampled += !p->samples++;
    p->last_sample_ns = MAX(p->last_sample_ns, e->time_ns);
    if (!p->comm[0] && e->tid == e->pid) /* its records were lost, and it is gone */
        memcpy(p->comm, e->comm, sizeof p->comm);
    if (p->mm != e->mm) {
        p->mm = e->mm;
        p->stale = true;
    }
    p->stale |= (p->span_again || p->lang_again) && p->samples % SPAN_AGAIN == 0;
}

/* A process is read only while there is budget: until then it is known by what the kernel reported of it. */
static void begin_sample(struct agent *a, struct process *p, const struct agent_event *e)
{
    const struct agent_stack *s = e->flags & AGENT_EVENT_RESUME ? agent_stack_copy(a, e) : NULL;

    if (s)
        process_seen_take(p, s);
    if (!p->samples || p->brief)
        p->brief = !a->governor.open;
}

/* Records that the kernel has written until now. */
static int read_records(struct agent *a)
{
    int r;

    a->records_ns = (uint64_t) clock_mono();
    r = sideband_drain(a->sideband, a->processes);
    if (sideband_lost(a->sideband) != a->records_lost)
        processes_distrust(a->processes);
    a->records_lost = sideband_lost(a->sideband);
    return r;
}

/* The command that is recorded is still a copy of this process. When records of the kernel were lost, one of them may have been
 * its exec. */
static bool is_before_exec(const struct agent *a, const struct process *p)
{
    return a->options.command && p->pid == (uint32_t) a->options.command && !p->since_ns && !a->records_lost &&
           !(a->perf && perf_side_lost(a->perf));
}

static void on_sample(struct agent *a, const struct agent_event *e, size_t size)
{
    uint32_t room = (uint32_t) ((size - offsetof(struct agent_event, words)) / 8), n = MIN(e->n_words, room);
    enum agent_end end = e->end;
    struct process *p = NULL;
    FAR_FOR(e->pid);

    if (a->until_ns && e->time_ns > a->until_ns)
        return;
    if (a->sideband && e->time_ns > a->records_ns) /* its process may be new, too, or have called exec */
        read_records(a);
    if (!(e->flags & AGENT_EVENT_NO_USER))
        p = processes_get(a->processes, e->pid, e->time_ns);
    memcpy(a->words, e->words, n * sizeof a->words[0]);
    a->inferred = e->flags & AGENT_EVENT_INFERRED;
    if (p && is_before_exec(a, p))
        return;
    if (p)
        begin_sample(a, p, e);
    if (!sample_filter_wants(&a->filter, p, e))
        return;
    if (p) {
        own_profiles_check(p, a->now_ns);
        see_process(a, p, e);
        end = agent_stack_finish(a, p, e, &n);
        if (!p->exe && p->samples <= 2)
            processes_resolve_exe(a->processes, p);
        if (a->bpf && process_load_is_due(p, a->now_ns))
            process_load(a->loader, p, a->now_ns);
    }
    if (e->kind == AGENT_EVENT_WAIT)
        keep_wait(a, e, n, end);
    else if (e->flags & AGENT_EVENT_KEPT)
        add_kept(a, p, e);
    else
        add_sample(a, p, e, e->n_kernel, n, end);
}

/* What names a frame of the next sample. The process is known: its record is loaded. */
static void on_memory(struct agent *a, const struct agent_memory *m, size_t size)
{
    struct process *p = processes_find(a->processes, m->pid, m->time_ns);
    size_t n = 0;

    for (int i = 0; i < AGENT_PIECES; i++)
        n += (size_t) MIN(m->pieces[i].n, (__u64) AGENT_MEMORY_BYTES);
    if (p && p->lang && p->lang->take_memory && n <= size - offsetof(struct agent_memory, bytes))
        p->lang->take_memory(p, m);
}

static int on_event(void *arg, void *data, size_t n)
{
    struct agent *a = arg;
    const struct agent_event *e = data; /* the ring is mapped for reading */

    if (n >= offsetof(struct agent_stack, bytes) && e->kind == AGENT_EVENT_STACK) {
        const struct agent_stack *s = data;

        a->copied = true;
        if (s->cpu < (uint32_t) a->n_cpus && n >= offsetof(struct agent_stack, bytes) + s->n + s->task.n)
            memcpy(&a->stacks[s->cpu], s, offsetof(struct agent_stack, bytes) + s->n + s->task.n);
    } else if (n >= offsetof(struct agent_memory, bytes) && e->kind == AGENT_EVENT_MEMORY) {
        on_memory(a, data, n);
    } else if (n >= offsetof(struct agent_event, words)) {
        on_sample(a, e, n);
    }
    return 0;
}

/* --- life --- */
static int open_fds(struct agent *a, struct err *e)
{
    struct epoll_event ev = {.events = EPOLLIN};

    a->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    a->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (a->epoll_fd < 0 || a->timer_fd < 0 || epoll_ctl(a->epoll_fd, EPOLL_CTL_ADD, a->timer_fd, &ev) < 0)
        return err_set(e, -errno, "cannot create a timer: %m");
    if (a->bpf &&
        epoll_ctl(a->epoll_fd, EPOLL_CTL_ADD, bpf_side_fd(a->bpf), &(struct epoll_event){EPOLLIN | EPOLLET, {0}}) < 0)
        return err_set(e, -errno, "cannot poll the sample buffer: %m");
    return a->perf ? perf_side_add_to(a->perf, a->epoll_fd) : sideband_add_to(a->sideband, a->epoll_fd);
}

static void set_timer(struct agent *a, int ms)
{
    struct itimerspec t = {.it_value = {ms / 1000, (long) (ms % 1000) * 1000000}};

    timerfd_settime(a->timer_fd, 0, &t, NULL);
}

static int load_bpf(struct agent *a, bool old, struct err *e)
{
    const struct agent_options *o = &a->options;
    struct bpf_side_options side = {.ring_bytes = sample_ring_bytes(o, a->n_cpus),
                                    .off_cpu = o->off_cpu,
                                    .counts = o->events.n > 0,
                                    .old_kernel = old};
    int r = bpf_side_new(&side, &a->bpf, e);

    while (r == -ENOMEM && sample_ring_less(&side.ring_bytes))
        r = bpf_side_new(&side, &a->bpf, e);
    a->ring_bytes = side.ring_bytes;
    if (r == 0 && o->off_cpu && o->no_cpu && !o->events.n && !bpf_side_has_off_cpu(a->bpf))
        return err_set(e, -EOPNOTSUPP, "%s", bpf_side_lacks(a->bpf));
    return r < 0 ? r : process_loader_new(a->bpf, a->processes, &a->loader);
}

static int start_bpf(struct agent *a, bool old, struct err *e)
{
    const struct agent_options *o = &a->options;
    struct agent_control *control;
    struct row_store_maps maps;
    int r = load_bpf(a, old, e);

    if (r < 0)
        return r;
    control = bpf_side_control(a->bpf);
    control->take_unknown = o->n_pids == 0;
    control->inherit = o->inherit;
    control->no_kernel = o->no_kernel;
    control->copy_all = o->copy_stacks;
    control->copy_room = (uint32_t) a->ring_bytes / 2;
    control->wake = !o->copy_stacks;
    control->off_cpu_n = bpf_side_has_off_cpu(a->bpf);
    control->off_cpu_min_ns = (uint64_t) o->off_cpu_threshold_ns;
    maps = bpf_side_row_maps(a->bpf);
    r = row_store_new(&maps, a->objects, ROW_BYTES, &a->rows, e);
    if (r == 0 && o->inherit)
        r = bpf_side_follow_forks(a->bpf, e);
    for (size_t i = 0; r == 0 && i < o->n_pids; i++)
        r = agent_add_pid(a, o->pids[i]);
    if (r == 0 && control->off_cpu_n)
        r = waits_new(a->bpf, o->cpu_budget / 2, (unsigned) sysconf(_SC_NPROCESSORS_ONLN), &a->waits);
    if (r == 0 && control->off_cpu_n)
        r = bpf_side_off_cpu(a->bpf, e);
    if (r == 0 && !o->no_cpu)
        r = bpf_side_sample(a->bpf, a->hz, e);
    if (r == 0 && o->events.n)
        r = bpf_side_count(a->bpf, &o->events, a->hz, e);
    return r;
}

/* Without BPF: only the processes in options.pids, each with all its threads. */
static int start_perf(struct agent *a, struct err *e)
{
    const struct agent_options *o = &a->options;
    int r;

    if (o->events.n)
        return err_set(e, -EPERM, "sampling by events requires BPF (CAP_BPF and CAP_PERFMON): run it as root");
    if (!o->n_pids || o->off_cpu)
        return err_set(e, -EPERM,
                       "without BPF, only given processes (-p, or a command) can be sampled, and only on CPU");
    r = perf_side_new(a->hz, !o->no_kernel, o->inherit, &a->perf, e);
    for (size_t i = 0; r == 0 && i < o->n_pids; i++)
        r = perf_side_add_pid(a->perf, o->pids[i], e);
    return r;
}

static void stop_bpf(struct agent *a)
{
    row_store_free(TAKE(a->rows));
    process_loader_free(TAKE(a->loader));
    waits_free(TAKE(a->waits));
    bpf_side_free(TAKE(a->bpf));
}

/* By the programs for this kernel, else, if they may be replaced, by those for old ones. */
static int start_some_bpf(struct agent *a, struct err *e)
{
    bool old = a->options.via == AGENT_VIA_OLD_BPF;
    int r;

    if (!a->options.n_pids && a->options.cpu_budget <= 0)
        processes_read_running(a->processes);
    r = start_bpf(a, old, e);
    if (r == 0 && !old && bpf_side_is_old(a->bpf))
        snprintf(a->why, sizeof a->why, "this kernel has no bpf_loop, which Linux 5.17 and later have");
    if (r == 0 || a->options.via != AGENT_VIA_AUTO || r == -EPERM || r == -ENOMEM || r == -EOPNOTSUPP ||
        (a->bpf && bpf_side_is_old(a->bpf)))
        return r;
    snprintf(a->why, sizeof a->why, "%s", err_message(e, r));
    stop_bpf(a);
    r = start_bpf(a, true, NULL);
    return r < 0 ? err_set(e, r, "%s", a->why) : 0;
}

/* The best way that works, or the one that was asked for; why it is not the best is kept. */
static int start_sampling(struct agent *a, struct err *e)
{
    struct err first = {0};
    int r;

    if (a->options.via == AGENT_VIA_PERF)
        return start_perf(a, e);
    r = sideband_new(SIDEBAND_BYTES, &a->sideband, &first);
    if (r == 0)
        r = start_some_bpf(a, &first);
    if (r == 0)
        return 0;
    if (a->options.via != AGENT_VIA_AUTO || !a->options.n_pids || r == -ENOMEM)
        return err_set(e, r, "%s", err_message(&first, r));
    stop_bpf(a);
    sideband_free(TAKE(a->sideband));
    if ((r == -EPERM || r == -EACCES) && !(agent_cap_has(CAP_BPF) && agent_cap_has(CAP_PERFMON)))
        snprintf(a->why, sizeof a->why, "not permitted to use BPF (CAP_BPF, CAP_PERFMON)");
    else
        snprintf(a->why, sizeof a->why, "%s", err_message(&first, r));
    r = start_perf(a, e);
    return r < 0 ? err_prefix(e, r, "%s; ", a->why) : 0;
}

static int start_lines(struct agent *a)
{
    double budget = a->options.cpu_budget > 0 ? a->options.cpu_budget : BUDGET_DEFAULT;
    struct object_lines_options o = {.symbolizer = a->options.symbolizer, .cpu = LINES_PART * budget * a->n_cpus};

    o.credit_ns = (int64_t) (o.cpu * GOVERNOR_SECONDS * (double) NS_PER_S);
    return a->options.symbolizer && !a->options.no_names ? object_lines_new(&o, &a->lines) : 0;
}

/* Reading programs may cost a sixth of the CPU budget, or, of many programs that want more, about half (far_call.h); names of
 * JITs have a quarter of the memory. */
static void limit_reading(const struct agent_options *o, int n_cpus)
{
    far_budget((int64_t) (o->cpu_budget / 6 * n_cpus * GOVERNOR_SECONDS * (double) NS_PER_S));
    perf_maps_limit(o->memory_budget / 4, o->cpu_budget > 0 ? PERF_MAP_PIECE : 0);
}

int agent_new(const struct agent_options *o, struct agent **ret, struct err *e)
{
    struct tally_options tally = {.no_names = o->no_names,
                                  .pprof = o->pprof,
                                  .ranges = o->ranges,
                                  .mark_own = o->mark_own,
                                  .memory = TALLY_BYTES};
    struct agent *a = mem_zalloc(sizeof *a);
    int r;

    if (!a)
        return -ENOMEM;
    a->options = *o;
    far_start();
    limit_reading(o, (int) sysconf(_SC_NPROCESSORS_ONLN));
    tally.events = &a->options.events;
    a->epoll_fd = a->timer_fd = -1;
    a->hz = MAX(o->begin_rate_hz ? o->begin_rate_hz : o->rate_hz, 1u);
    a->begin_until_ns = o->begin_rate_hz ? (uint64_t) (clock_mono() + o->begin_ns) : 0;
    a->n_cpus = (int) sysconf(_SC_NPROCESSORS_CONF);
    a->cpu_start_ns = clock_cpu();
    a->stacks = mem_zalloc_array((size_t) a->n_cpus, sizeof *a->stacks);
    r = a->stacks ? objects_new(TABLE_BYTES, o->reader, &a->objects) : -ENOMEM;
    if (r == 0)
        r = processes_new(a->objects, &a->processes);
    if (r == 0)
        r = tally_new(&tally, &a->tally);
    if (r == 0)
        r = start_lines(a);
    if (r == 0)
        r = start_sampling(a, e);
    if (r == 0)
        r = open_fds(a, e);
    if (r < 0) {
        agent_free(a);
        return r;
    }
    a->filter = (struct sample_filter){o->filter, a->bpf, o->n_pids > 0};
    processes_watch_exec(a->processes, sample_filter_exec, &a->filter);
    governor_init(&a->governor,
                  &(struct governor_limits){.cpu = o->cpu_budget,
                                            .memory = o->memory_budget,
                                            .cpus = (unsigned) sysconf(_SC_NPROCESSORS_ONLN),
                                            .rate = a->hz,
                                            .table_bytes = TABLE_BYTES},
                  (uint64_t) clock_mono());
    a->hurry_until_ns = (uint64_t) clock_mono() + HURRY_NS;
    tally_begin(a->tally, clock_mono());
    set_timer(a, POLL_BUSY_MS);
    *ret = a;
    return 0;
}

void agent_free(struct agent *a)
{
    if (!a)
        return;
    row_store_free(a->rows);
    process_loader_free(a->loader);
    bpf_side_free(a->bpf);
    perf_side_free(a->perf);
    sideband_free(a->sideband);
    waits_free(a->waits);
    tally_free(a->tally);
    object_lines_free(a->lines);
    processes_free(a->processes);
    objects_free(a->objects);
    fd_close(a->timer_fd);
    fd_close(a->epoll_fd);
    mem_free(a->stacks);
    mem_free(a);
    far_stop();
}

struct objects *agent_objects(struct agent *a)
{
    return a->objects;
}

int agent_fd(const struct agent *a)
{
    return a->epoll_fd;
}

/* True while new files come up: the process that has one may be gone soon, and with it the way to the file. Else copied
 * stacks can wait for the next round, and do not wake the agent. */
static bool hurry(struct agent *a)
{
    if (objects_count(a->objects) != a->n_files)
        a->hurry_until_ns = a->now_ns + HURRY_NS;
    a->n_files = objects_count(a->objects);
    if (a->bpf)
        bpf_side_control(a->bpf)->wake =
            !a->options.copy_stacks && (a->options.n_pids || a->now_ns < a->hurry_until_ns);
    return a->options.n_pids || a->now_ns < a->hurry_until_ns;
}

static int set_rate(struct agent *a, unsigned hz, struct err *e)
{
    int r = 0;

    if (a->perf)
        return err_set(e, -EOPNOTSUPP, "without BPF, the rate cannot be changed");
    r = bpf_side_drain(a->bpf, on_event, a); /* samples so far are of the old rate */
    if (r >= 0)
        r = bpf_side_sample(a->bpf, hz, e);
    if (r == 0)
        a->hz = hz;
    return r;
}

/* The time spent in BPF is read once a second. */
static int govern(struct agent *a, struct err *e)
{
    struct agent_stats st;

    if (a->perf || a->options.cpu_budget <= 0)
        return 0;
    if (governor_is_due(&a->governor, a->now_ns) && bpf_side_stats(a->bpf, &st) == 0)
        a->bpf_ns = agent_bpf_ns(&st);
    if (!governor_spent(&a->governor, a->now_ns, agent_own_cpu_ns(a) + a->bpf_ns) || a->governor.rate == a->hz)
        return 0;
    return set_rate(a, a->governor.rate, e);
}

/* Files that are closed may be on a file system that does not answer. */
static void sweep(struct agent *a)
{
    FAR_FOR(FAR_FILES);

    if (objects_memory(a->objects) > a->governor.table_bytes)
        objects_sweep(a->objects, a->now_ns);
    if (a->now_ns < a->next_sweep_ns)
        return;
    processes_sweep(a->processes, a->now_ns, forget_process, a);
    objects_sweep(a->objects, a->now_ns);
    a->next_sweep_ns = a->now_ns + SWEEP_NS;
}

static int one_round(struct agent *a, bool flush, struct err *e)
{
    int r;

    a->now_ns = (uint64_t) clock_mono();
    a->copied = false;
    if (a->waits)
        waits_round(a->waits, a->now_ns, flush);
    if (a->perf) {
        r = perf_side_drain(a->perf, a->processes, on_event, a);
    } else {
        r = read_records(a);
        if (r >= 0)
            r = bpf_side_drain(a->bpf, on_event, a);
    }
    if (r < 0)
        return err_set(e, r, "cannot read samples: %m");
    sweep(a);
    if (a->lines && !a->options.wait_for_lines && a->governor.open)
        object_lines_step(a->lines, a->objects, a->now_ns);
    set_timer(a, hurry(a) && a->copied ? POLL_BUSY_MS : POLL_IDLE_MS);
    return govern(a, e);
}

int agent_poll(struct agent *a, int timeout_ms, struct err *e)
{
    struct epoll_event ev;
    struct timespec pause = {0, POLL_BUSY_MS * 1000000l / 2};
    int n = epoll_wait(a->epoll_fd, &ev, 1, timeout_ms);

    if (n < 0 && errno != EINTR)
        return err_set(e, -errno, "cannot wait for samples: %m");
    if (n <= 0)
        return 0;
    nanosleep(&pause, NULL); /* a new process causes many records at once: handle them together */
    return one_round(a, false, e);
}

/* The first minute is over. */
static int end_beginning(struct agent *a, struct err *e)
{
    unsigned rate = MAX(a->options.rate_hz, 1u);

    if (!a->begin_until_ns || a->now_ns < a->begin_until_ns)
        return 0;
    a->begin_until_ns = 0;
    a->governor.limits.rate = rate;
    a->governor.rate = MIN(a->governor.rate, rate);
    return agent_set_rate(a, a->governor.rate, e);
}

int agent_take(struct agent *a, struct batch **ret, struct err *e)
{
    struct agent_counts c;
    struct tally_scope scope;
    int64_t end_ns;
    int r = one_round(a, true, e);

    *ret = NULL;
    if (r < 0)
        return r;
    end_ns = clock_mono(); /* not what it takes to find names */
    end_ns = a->until_ns ? MIN(end_ns, (int64_t) a->until_ns) : end_ns;
    tally_update(a->tally, a->now_ns);
    tally_name(a->tally, a->now_ns);
    if (a->lines && a->options.wait_for_lines)
        object_lines_all(a->lines, a->objects);
    else if (a->lines)
        object_lines_wake(a->lines);
    agent_counts(a, &c);
    scope = (struct tally_scope){.rate = a->hz,
                                 .lost = (int64_t) (c.lost - a->last_lost),
                                 .cpu_ns = (int64_t) (c.bpf_ns + c.own_cpu_ns),
                                 .end_ns = end_ns,
                                 .governor = c.governor,
                                 .via = c.via,
                                 .why = c.why,
                                 .lacks = c.lacks};
    a->last_lost = c.lost;
    r = tally_batch(a->tally, &scope, ret, e);
    objects_limit_names(a->objects, a->now_ns, NAME_BYTES);
    if (governor_used(&a->governor, governor_memory() + c.map_bytes))
        objects_set_budget(a->objects, a->governor.table_bytes);
    return r < 0 || a->perf ? r : end_beginning(a, e);
}

int agent_add_pid(struct agent *a, pid_t pid)
{
    struct process *p;
    FAR_FOR((uint32_t) pid);

    if (a->perf)
        return perf_side_add_pid(a->perf, pid, NULL);
    p = processes_get(a->processes, (uint32_t) pid, (uint64_t) clock_mono()); /* read before its first sample */
    if (p)
        process_load_given(a->loader, p, a->rows, ROW_BYTES / 2);
    return bpf_side_filter(a->bpf, (uint32_t) pid, 1);
}

void agent_until(struct agent *a, int64_t time_ns)
{
    a->until_ns = (uint64_t) time_ns;
    tally_until(a->tally, time_ns);
}

bool agent_next_file(struct agent *a, char ret[PATH_MAX])
{
    return debug_file_next(a->objects, ret);
}

int agent_set_rate(struct agent *a, unsigned hz, struct err *e)
{
    int r = one_round(a, false, e);

    return r == 0 ? set_rate(a, hz, e) : r;
}
