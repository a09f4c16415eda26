/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's main loop (agent.h). One round handles the kernel's records about processes first, so that every sample
 * finds its process; then the samples; then it loads what they missed. A sample whose walk ended because a process, a
 * mapping or a page was not loaded comes with the rest of its stack, and is walked to its end here.
 */
#include "agent/agent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "agent/bpf_side.h"
#include "agent/copy_walk.h"
#include "agent/debug_file.h"
#include "agent/governor.h"
#include "agent/lang/lang.h"
#include "agent/object_lines.h"
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

enum {
    SIDEBAND_BYTES = 1 << 22,
    POLL_BUSY_MS = 10,  /* between rounds while stacks are copied and files are new */
    POLL_IDLE_MS = 100, /* the ring is read this often */
    SPAN_AGAIN = 64,    /* samples between two attempts to find a span variable that the loader has not placed yet */
};
static const size_t TABLE_BYTES = 16 << 20, ROW_BYTES = 8 << 20, TALLY_BYTES = 64 << 20, NAME_BYTES = 8 << 20;
static const uint64_t SWEEP_NS = 5ull * NS_PER_S;
static const double LINES_PART = 0.1, BUDGET_DEFAULT = 0.01; /* of the CPU budget, for lines */
static const uint64_t HURRY_NS = 2ull * NS_PER_S;

struct agent {
    struct agent_options options;
    struct bpf_side *bpf;   /* NULL without BPF; then there are no rows and no sideband either */
    struct perf_side *perf; /* instead */
    struct objects *objects;
    struct processes *processes;
    struct row_store *rows;
    struct sideband *sideband;
    struct tally *tally;
    struct waits *waits;        /* NULL when they are not sampled */
    struct object_lines *lines; /* NULL: only names */
    int epoll_fd, timer_fd;
    unsigned hz;
    size_t ring_bytes;
    uint64_t until_ns; /* later samples are not taken; 0: all are */
    uint64_t now_ns, next_sweep_ns;
    uint64_t begin_until_ns; /* options.begin_rate_hz applies until then; 0: no longer */
    uint64_t cpu_ns, foreign_ns[FOREIGN_KINDS];
    uint64_t samples, refused, left_out, processes_sampled; /* refused: samples that the tally had no room for */
    int64_t cpu_start_ns;
    bool copied;                /* a stack was copied in this round */
    struct agent_stack *stacks; /* the last copy of each CPU */
    int n_cpus;
    uint64_t words[AGENT_WORDS + AGENT_USER_FRAMES]; /* of the current sample */
    uint64_t lang_words[LANG_WORDS_MAX];             /* without BPF: the language's */
    struct str labels;                               /* of the current sample, in the ring */
    uint64_t last_lost;
    unsigned long records_lost; /* records about processes that the kernel lost */
    struct process_loader *loader;
    struct governor governor;
    struct sample_filter filter;
    uint64_t records_ns;              /* when records about processes were last read */
    uint64_t bpf_ns;                  /* as last read from BPF */
    uint64_t n_files, hurry_until_ns; /* files seen so far: a new one may belong to a process that is soon gone */
};

/* The copy that belongs to the event; NULL when there is none. */
static const struct agent_stack *copy_of(const struct agent *a, const struct agent_event *e)
{
    const struct agent_stack *s = e->cpu < (uint32_t) a->n_cpus ? &a->stacks[e->cpu] : NULL;

    return s && s->time_ns == e->time_ns && s->tid == e->tid ? s : NULL;
}

static enum agent_end walk_copy(struct agent *a, struct process *p, const struct agent_event *e, uint32_t *n_words)
{
    struct copy_walk w = {a->processes, a->objects, a->rows, a->now_ns};
    const struct agent_stack *s = copy_of(a, e);

    return s ? copy_walk(&w, p, e, s, a->words, n_words) : e->end;
}

static void forget_process(void *arg, struct process *p)
{
    struct agent *a = arg;

    tally_forget(a->tally, p);
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

/* Reads the stack of a thread that waits, as if the BPF program had copied it. */
static bool ask_for_stack(struct agent *a, struct process *p, const struct agent_event *e)
{
    return e->cpu < (uint32_t) a->n_cpus && waits_read_stack(p, e, &a->stacks[e->cpu]);
}

/* Walks on where the BPF program could not, and puts a language's frames between the native ones. */
static enum agent_end finish_stack(struct agent *a, struct process *p, const struct agent_event *e, uint32_t *n)
{
    uint32_t native = MIN(e->n_kernel, *n), lang;
    const __u64 *tail = e->words;
    enum agent_end end = e->end;

    while (native < *n && AGENT_WORD_KIND(a->words[native]) < AGENT_WORD_LANG)
        native++;
    lang = *n - native, tail += native;
    if (a->perf && e->flags & AGENT_EVENT_RESUME) {
        lang = MIN(lang_read(a->processes, p, e->tid, e->resume.sp, a->lang_words), 1024u * AGENT_LANG_WORDS);
        tail = (const __u64 *) a->lang_words;
    }
    if (e->flags & AGENT_EVENT_RESUME || (e->flags & AGENT_EVENT_ASK && ask_for_stack(a, p, e)))
        end = walk_copy(a, p, e, &native);
    if (native > e->n_kernel)
        end = copy_walk_judge(a->processes, p, a->words[native - 1], end);
    *n = native;
    a->labels = (struct str){0};
    if (!lang || !p->lang || !p->lang->merge)
        return end;
    if (p->lang->labels)
        a->labels = p->lang->labels((const uint64_t *) tail, lang);
    memcpy(a->words + native, tail, lang * sizeof a->words[0]);
    *n = p->lang->merge(p, a->words, e->n_kernel, native, native + lang, end == AGENT_END_ROOT);
    return end == AGENT_END_ROOT && e->flags & AGENT_EVENT_LANG_CUT ? AGENT_END_DEPTH : end;
}

/* Keeps the stack of a wait whose duration is reported later. */
static void keep_wait(struct agent *a, const struct agent_event *e, uint32_t n_words, enum agent_end end)
{
    struct wait_stack w = {e->wait_ns, e->tid, MIN(e->n_kernel, n_words), n_words, end, a->words};

    if (!a->waits || waits_keep(a->waits, &w) < 0)
        a->refused++;
}

/* Adds a wait whose stack was sent ahead (AGENT_EVENT_WAIT). */
static void add_kept(struct agent *a, struct process *p, const struct agent_event *e)
{
    const struct wait_stack *w = a->waits ? waits_find(a->waits, e->tid, e->wait_ns) : NULL;

    a->labels = (struct str){0};
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
    p->stale |= p->span_again && p->samples % SPAN_AGAIN == 0;
}

/* True if the process itself sends profiles of this sample's type. */
static bool is_own(struct agent *a, struct process *p, const struct agent_event *e)
{
    own_profiles_check(p, a->now_ns);
    if (!a->options.leave_own || !own_profiles_cover(&p->own, e->kind, e->time_ns))
        return false;
    if (e->kind == AGENT_EVENT_CPU)
        process_cpu_skip(p);
    a->left_out += e->kind == AGENT_EVENT_WAIT ? 0 : e->weight;
    return true;
}

/* A process is read only while there is budget: until then it is known by what the kernel reported of it. */
static void begin_sample(struct agent *a, struct process *p, const struct agent_event *e)
{
    const struct agent_stack *s = e->flags & AGENT_EVENT_RESUME ? copy_of(a, e) : NULL;

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

static void on_sample(struct agent *a, const struct agent_event *e, size_t size)
{
    uint32_t room = (uint32_t) ((size - offsetof(struct agent_event, words)) / 8), n = MIN(e->n_words, room);
    enum agent_end end = e->end;
    struct process *p = NULL;

    if (a->until_ns && e->time_ns > a->until_ns)
        return;
    if (a->sideband && e->time_ns > a->records_ns) /* its process may be new, too, or have called exec */
        read_records(a);
    if (!(e->flags & AGENT_EVENT_NO_USER))
        p = processes_get(a->processes, e->pid, e->time_ns);
    memcpy(a->words, e->words, n * sizeof a->words[0]);
    if (p)
        begin_sample(a, p, e);
    if (!sample_filter_wants(&a->filter, p, e) || (p && is_own(a, p, e)))
        return;
    if (p) {
        see_process(a, p, e);
        end = finish_stack(a, p, e, &n);
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

static int on_event(void *arg, void *data, size_t n)
{
    struct agent *a = arg;
    const struct agent_event *e = data; /* the ring is mapped for reading */

    if (n >= offsetof(struct agent_stack, bytes) && e->kind == AGENT_EVENT_STACK) {
        const struct agent_stack *s = data;

        a->copied = true;
        if (s->cpu < (uint32_t) a->n_cpus && n >= offsetof(struct agent_stack, bytes) + s->n + s->task.n)
            memcpy(&a->stacks[s->cpu], s, offsetof(struct agent_stack, bytes) + s->n + s->task.n);
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

static int start_bpf(struct agent *a, struct err *e)
{
    const struct agent_options *o = &a->options;
    struct bpf_side_options side = {.ring_bytes = sample_ring_bytes(o, a->n_cpus),
                                    .off_cpu = o->off_cpu,
                                    .counts = o->events.n > 0,
                                    .old_kernel = o->via == AGENT_VIA_OLD_BPF};
    struct agent_control *control;
    struct row_store_maps maps;
    int r = bpf_side_new(&side, &a->bpf, e);

    while (r == -ENOMEM && sample_ring_less(&side.ring_bytes))
        r = bpf_side_new(&side, &a->bpf, e);
    a->ring_bytes = side.ring_bytes;
    if (r == 0)
        r = process_loader_new(a->bpf, a->processes, &a->loader);
    if (r < 0)
        return r;
    control = bpf_side_control(a->bpf);
    control->take_unknown = o->n_pids == 0;
    control->inherit = o->inherit;
    control->no_kernel = o->no_kernel;
    control->copy_all = o->copy_stacks;
    control->copy_room = (uint32_t) side.ring_bytes / 2;
    control->wake = !o->copy_stacks;
    control->off_cpu_n = o->off_cpu;
    control->off_cpu_min_ns = (uint64_t) o->off_cpu_threshold_ns;
    maps = bpf_side_row_maps(a->bpf);
    r = row_store_new(&maps, a->objects, ROW_BYTES, &a->rows, e);
    if (r == 0 && o->inherit)
        r = bpf_side_follow_forks(a->bpf, e);
    for (size_t i = 0; r == 0 && i < o->n_pids; i++)
        r = agent_add_pid(a, o->pids[i]);
    if (r == 0 && o->off_cpu)
        r = waits_new(a->bpf, o->cpu_budget / 2, (unsigned) sysconf(_SC_NPROCESSORS_ONLN), &a->waits);
    if (r == 0 && o->off_cpu)
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

static int start_sampling(struct agent *a, struct err *e)
{
    int r = -EPERM;

    if (a->options.via != AGENT_VIA_PERF) {
        r = sideband_new(SIDEBAND_BYTES, &a->sideband, e);
        if (r == 0 && !a->options.n_pids && a->options.cpu_budget <= 0)
            processes_read_running(a->processes);
        if (r == 0)
            r = start_bpf(a, e);
        if (r == 0 || a->options.via != AGENT_VIA_AUTO || !a->options.n_pids || (r != -EPERM && r != -EACCES))
            return r;
        row_store_free(TAKE(a->rows));
        process_loader_free(TAKE(a->loader));
        waits_free(TAKE(a->waits));
        bpf_side_free(TAKE(a->bpf));
        sideband_free(TAKE(a->sideband));
        *e = (struct err){0};
    }
    return start_perf(a, e);
}

static int start_lines(struct agent *a)
{
    double budget = a->options.cpu_budget > 0 ? a->options.cpu_budget : BUDGET_DEFAULT;
    struct object_lines_options o = {.symbolizer = a->options.symbolizer, .cpu = LINES_PART * budget * a->n_cpus};

    o.credit_ns = (int64_t) (o.cpu * GOVERNOR_SECONDS * (double) NS_PER_S);
    return a->options.symbolizer && !a->options.no_names ? object_lines_new(&o, &a->lines) : 0;
}

int agent_new(const struct agent_options *o, struct agent **ret, struct err *e)
{
    struct tally_options tally = {.no_names = o->no_names,
                                  .pprof = o->pprof,
                                  .ranges = o->ranges,
                                  .leave_own = o->leave_own,
                                  .memory = TALLY_BYTES};
    struct agent *a = mem_zalloc(sizeof *a);
    int r;

    if (!a)
        return -ENOMEM;
    a->options = *o;
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

static uint64_t own_cpu_ns(const struct agent *a)
{
    return (uint64_t) (clock_cpu() - a->cpu_start_ns + file_reader_cpu_ns(a->options.reader)) +
           (a->lines && !a->options.wait_for_lines ? object_lines_cpu_ns(a->lines) : 0);
}

static uint64_t bpf_time(const struct agent_stats *st)
{
    return st->ns + st->switch_ns + st->switches * WAITS_SWITCH_NS;
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
        a->bpf_ns = bpf_time(&st);
    if (!governor_spent(&a->governor, a->now_ns, own_cpu_ns(a) + a->bpf_ns) || a->governor.rate == a->hz)
        return 0;
    return set_rate(a, a->governor.rate, e);
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
    if (objects_memory(a->objects) > a->governor.table_bytes)
        objects_sweep(a->objects, a->now_ns);
    if (a->now_ns >= a->next_sweep_ns) {
        processes_sweep(a->processes, a->now_ns, forget_process, a);
        objects_sweep(a->objects, a->now_ns);
        a->next_sweep_ns = a->now_ns + SWEEP_NS;
    }
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
                                 .governor = c.governor};
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

static size_t kernel_memory(struct agent *a)
{
    return a->perf ? perf_side_memory(a->perf)
                   : bpf_side_memory(a->bpf) + row_store_memory(a->rows) + sideband_memory(a->sideband);
}

void agent_counts(struct agent *a, struct agent_counts *ret)
{
    struct agent_stats st = {0};
    struct tally_counts t;

    if (a->bpf)
        bpf_side_stats(a->bpf, &st);
    tally_counts(a->tally, &t);
    *ret = (struct agent_counts){.samples = a->samples,
                                 .left_out = a->left_out + t.left_out,
                                 .lost = st.lost + a->refused + (a->perf ? perf_side_lost(a->perf) : 0),
                                 .frames = t.frames,
                                 .frames_named = t.frames_named,
                                 .stacks_whole = t.whole,
                                 .stacks_cut = t.cut,
                                 .bpf_ns = bpf_time(&st),
                                 .bpf_runs = st.samples,
                                 .bpf_frames = st.frames,
                                 .stack_copies = st.copies,
                                 .stacks_uncopied = st.uncopied,
                                 .switches = st.switches,
                                 .switch_ns = st.switch_ns,
                                 .switch_samples = st.switch_samples,
                                 .own_cpu_ns = own_cpu_ns(a),
                                 .maps_left_out = processes_maps_left_out(a->processes),
                                 .processes_sampled = a->processes_sampled,
                                 .objects = objects_count(a->objects),
                                 .map_bytes = kernel_memory(a),
                                 .ring_bytes = a->ring_bytes,
                                 .reader_deaths = file_reader_deaths(a->options.reader),
                                 .rate_hz = a->hz,
                                 .governor = a->governor.text,
                                 .cpu_ns = a->cpu_ns,
                                 .used_ns = perf_side_used(a->perf),
                                 .by_perf = a->perf != NULL};
    memcpy(ret->foreign_ns, a->foreign_ns, sizeof ret->foreign_ns);
}
