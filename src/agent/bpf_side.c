/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the agent's BPF programs with libbpf, attaches them to clocks, tracepoints and the task iterator, and reads
 * their ring buffer and counters. */
#include "agent/bpf_side.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/bpf_refused.h"
#include "agent/lang/lang.h"
#include "agent/perf_events.h"
#include "agent/perf_open.h"
#include "agent_bpf.skel.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

enum { OLD_PAGES = 16384, OLD_CODE_RULES = 4096, OLD_FILTER = 4096, LEFT_OUT_MAX = 8, KERNEL_STACK = 16384 };
static const int64_t MEMORY_NS = 10ll * NS_PER_S;

struct cpu_clock {
    int fd;
    struct bpf_link *link;
};

/* libbpf passes one argument to its callback; this struct holds the caller's function and its argument. */
struct drain {
    int (*f)(void *arg, void *event, size_t n);
    void *arg;
};

struct bpf_side {
    struct agent_bpf *skel;
    struct ring_buffer *ring;
    struct drain drain;
    struct cpu_clock *clocks;   /* by CPU; fd -1: offline */
    struct bpf_link **counters; /* by CPU and event; NULL: offline */
    size_t n_counters;
    int n_cpus;
    unsigned hz;
    bool bounded, off_cpu; /* no bpf_loop; waits are sampled */
    size_t memory;
    int64_t memory_ns; /* when 'memory' was summed */
    struct bpf_refused refused;
    char left_out[LEFT_OUT_MAX][64]; /* programs that the kernel refused */
    unsigned n_left_out;
    char lacks[1024];
};

static int on_event(void *arg, void *data, size_t n)
{
    struct drain *d = arg;

    return d->f ? d->f(d->arg, data, n) : 0;
}

/* BPF programs see pids of the initial namespace; this process may run in another one. */
static void set_namespace(struct agent_bpf *skel)
{
    static const ino_t first = 0xeffffffc; /* PROC_PID_INIT_INO */
    struct stat st;

    if (stat("/proc/self/ns/pid", &st) == 0 && st.st_ino != first) {
        skel->rodata->pid_namespace_device = st.st_dev;
        skel->rodata->pid_namespace_inode = st.st_ino;
    }
}

static const char *release(void)
{
    static struct utsname u;

    return uname(&u) == 0 ? u.release : "";
}

static const char *reason_of(const struct bpf_side *b)
{
    return b->refused.reason[0] ? b->refused.reason : b->refused.first;
}

static int explain(struct bpf_side *b, int r, struct err *e)
{
    if (r == -EPERM) /* -EACCES comes from the verifier */
        return err_set(e, -EPERM, "not permitted to load BPF programs: CAP_BPF and CAP_PERFMON are required");
    if (access("/sys/kernel/btf/vmlinux", R_OK) < 0)
        return err_set(e, -EOPNOTSUPP,
                       "the kernel has no type information (/sys/kernel/btf/vmlinux): BPF cannot be used");
    if (b->refused.program[0])
        return err_set(e, r, "Linux %s refused the BPF program %s: %s", release(), b->refused.program, reason_of(b));
    return err_set(e, r, "cannot load BPF programs: %m%s%s", b->refused.first[0] ? ": " : "", b->refused.first);
}

static void add_lack(struct bpf_side *b, const char *feature, const char *fmt, ...) _printf_(3, 4);

static void add_lack(struct bpf_side *b, const char *feature, const char *fmt, ...)
{
    size_t n = strlen(b->lacks);
    va_list ap;

    n += (size_t) snprintf(b->lacks + n, sizeof b->lacks - n, "%sno %s: ", n ? "; " : "", feature);
    va_start(ap, fmt);
    if (n < sizeof b->lacks)
        vsnprintf(b->lacks + n, sizeof b->lacks - n, fmt, ap);
    va_end(ap);
}

/* What is missing without this program; NULL: everything. */
static const char *feature_of(const char *program, char *room, size_t size)
{
    static const struct {
        const char *prefix, *where;
    } of_languages[] = {
        {"on_tick_", ""}, {"old_tick_", ""}, {"old_step_", " by BPF"}, {"on_switch_", " in off-CPU stacks"}};

    for (size_t i = 0; i < ARRAY_SIZE(of_languages); i++)
        for (uint32_t k = 0; k < LANGS; k++) {
            size_t n = strlen(of_languages[i].prefix);

            if (strncmp(program, of_languages[i].prefix, n) != 0 || strcmp(program + n, lang_words[k]) != 0)
                continue;
            snprintf(room, size, "%s%s", langs[k]->in_bpf ? langs[k]->in_bpf : lang_words[k], of_languages[i].where);
            return room;
        }
    if (strcmp(program, "on_switch") == 0 || strcmp(program, "on_task") == 0)
        return "off-CPU time";
    return strcmp(program, "on_fork") == 0 ? "processes that start later" : NULL;
}

static bool is_left_out(const struct bpf_side *b, const char *program)
{
    for (unsigned i = 0; i < b->n_left_out; i++)
        if (strcmp(b->left_out[i], program) == 0)
            return true;
    return false;
}

/* True if the load is to be tried again without the program that the kernel refused. */
static bool leave_out(struct bpf_side *b, int r)
{
    const char *program = b->refused.program, *feature;
    char room[128];

    if (r == -ENOMEM || r == -EPERM || !program[0] || b->n_left_out == LEFT_OUT_MAX || is_left_out(b, program))
        return false;
    feature = feature_of(program, room, sizeof room);
    if (!feature)
        return false;
    add_lack(b, feature, "Linux %s refused the BPF program %s: %s", release(), program, reason_of(b));
    snprintf(b->left_out[b->n_left_out++], sizeof b->left_out[0], "%s", program);
    return true;
}

static void set_preallocated(struct bpf_map *map, uint32_t entries)
{
    bpf_map__set_map_flags(map, 0);
    bpf_map__set_max_entries(map, entries);
}

static bool is_kernel_before(unsigned major, unsigned minor)
{
    struct utsname u;
    unsigned v[2] = {0};

    return uname(&u) == 0 && sscanf(u.release, "%u.%u", &v[0], &v[1]) == 2 &&
           (v[0] < major || (v[0] == major && v[1] < minor));
}

static bool starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* Selects the programs by name, with those of the languages (on_tick_NAME, old_tick_NAME, old_step_NAME, on_switch_NAME). */
static void choose_programs(struct bpf_side *b, const struct bpf_side_options *o)
{
    struct bpf_program *p;

    bpf_object__for_each_program(p, b->skel->obj)
    {
        const char *name = bpf_program__name(p);

        if (starts_with(name, "on_tick"))
            bpf_program__set_autoload(p, !b->bounded);
        else if (starts_with(name, "old_"))
            bpf_program__set_autoload(p, b->bounded);
        else if (starts_with(name, "on_switch") || strcmp(name, "on_task") == 0)
            bpf_program__set_autoload(p, b->off_cpu);
        else if (strcmp(name, "on_counted") == 0)
            bpf_program__set_autoload(p, o->counts);
        if (is_left_out(b, name))
            bpf_program__set_autoload(p, false);
    }
}

/* Without bpf_loop (before 5.17) the programs with plain loops are loaded. Before 6.1 programs of perf events may not
 * use maps that allocate on demand: then the maps are preallocated, with as many entries as the agent uses. */
static int fit_to_kernel(struct bpf_side *b, const struct bpf_side_options *o, struct err *e)
{
    bool old = o->old_kernel, has_loop = libbpf_probe_bpf_helper(BPF_PROG_TYPE_PERF_EVENT, BPF_FUNC_loop, NULL) == 1;
    struct agent_bpf *s = b->skel;

    b->bounded = old || !has_loop;
    s->rodata->no_code_rules = b->bounded;
    b->off_cpu = o->off_cpu && !b->bounded && !is_left_out(b, "on_switch") && !is_left_out(b, "on_task");
    if (b->bounded && o->off_cpu && !b->lacks[0])
        add_lack(b, "off-CPU time", "off-CPU profiles require Linux 5.17 or later");
    if (b->bounded && o->counts)
        return err_set(e, -EOPNOTSUPP, "sampling by events requires Linux 5.17 or later");
    bpf_map__set_autocreate(s->maps.tick_parts, b->bounded);
    if (old || is_kernel_before(6, 1)) {
        set_preallocated(s->maps.processes, AGENT_PROCESSES);
        set_preallocated(s->maps.langs, AGENT_PROCESSES);
        set_preallocated(s->maps.pages, OLD_PAGES);
        set_preallocated(s->maps.code_rules, b->bounded ? 1 : OLD_CODE_RULES);
        set_preallocated(s->maps.filter, OLD_FILTER);
    }
    return 0;
}

/* Puts the programs PREFIX + language into an array for tail calls, from `first` on. */
static int link_languages(struct bpf_side *b, struct bpf_map *array, uint32_t first, const char *prefix)
{
    for (uint32_t i = 0; i < LANGS; i++) {
        uint32_t at = first + i;
        char name[64];
        int fd;

        snprintf(name, sizeof name, "%s%s", prefix, lang_words[i]);
        if (is_left_out(b, name)) /* without it, stacks end with the native frames */
            continue;
        fd = bpf_program__fd(bpf_object__find_program_by_name(b->skel->obj, name));
        if (fd < 0)
            return -ENOENT;
        if (bpf_map_update_elem(bpf_map__fd(array), &at, &fd, BPF_ANY) < 0)
            return -errno;
    }
    return 0;
}

static int link_programs(struct bpf_side *b, struct err *e)
{
    uint32_t zero = 0;
    int part = bpf_program__fd(b->skel->progs.old_tick_part), r = 0;

    if (b->bounded && bpf_map_update_elem(bpf_map__fd(b->skel->maps.tick_parts), &zero, &part, BPF_ANY) < 0)
        r = -errno;
    if (r == 0 && b->bounded)
        r = link_languages(b, b->skel->maps.tick_parts, 1, "old_step_");
    if (r == 0)
        r = link_languages(b, b->skel->maps.tick_langs, 0, b->bounded ? "old_tick_" : "on_tick_");
    if (r == 0 && b->off_cpu)
        r = link_languages(b, b->skel->maps.switch_langs, 0, "on_switch_");
    return r < 0 ? err_set(e, r, "cannot set up tail calls between BPF programs: %m") : 0;
}

static int load_once(struct bpf_side *b, const struct bpf_side_options *o, struct err *e)
{
    int r;

    b->skel = agent_bpf__open();
    if (!b->skel)
        return explain(b, -errno, e);
    set_namespace(b->skel);
    b->skel->rodata->kernel_stack = (uint32_t) MAX(KERNEL_STACK, sysconf(_SC_PAGESIZE)); /* 64 KiB pages: arm64 */
    r = fit_to_kernel(b, o, e);
    if (r < 0)
        return r;
    choose_programs(b, o);
    bpf_map__set_autocreate(b->skel->maps.waits, b->off_cpu);
    bpf_map__set_autocreate(b->skel->maps.switch_langs, b->off_cpu);
    bpf_map__set_autocreate(b->skel->maps.task_scratch, b->off_cpu);
    bpf_map__set_max_entries(b->skel->maps.events, (uint32_t) o->ring_bytes);
    bpf_map__set_max_entries(b->skel->maps.stacks, (uint32_t) b->n_cpus);
    r = agent_bpf__load(b->skel);
    return r < 0 ? explain(b, r, e) : 0;
}

/* Once, and again for each program that can be left out. */
static int load(struct bpf_side *b, const struct bpf_side_options *o, struct err *e)
{
    int r;

    for (;;) {
        bpf_refused_collect(&b->refused);
        r = load_once(b, o, e);
        bpf_refused_collect(NULL);
        if (r == 0 || !leave_out(b, r))
            return r < 0 ? r : link_programs(b, e);
        agent_bpf__destroy(TAKE(b->skel));
    }
}

int bpf_side_new(const struct bpf_side_options *o, struct bpf_side **ret, struct err *e)
{
    struct bpf_side *b = mem_zalloc(sizeof *b);
    int r;

    if (!b)
        return -ENOMEM;
    b->n_cpus = perf_cpus();
    b->clocks = mem_zalloc_array((size_t) b->n_cpus, sizeof *b->clocks);
    for (int i = 0; b->clocks && i < b->n_cpus; i++)
        b->clocks[i].fd = -1;
    r = b->clocks ? load(b, o, e) : -ENOMEM;
    if (r == 0) {
        b->ring = ring_buffer__new(bpf_map__fd(b->skel->maps.events), on_event, &b->drain, NULL);
        r = b->ring ? 0 : err_set(e, -errno, "cannot map the sample buffer: %m");
    }
    if (r < 0) {
        bpf_side_free(b);
        return r;
    }
    *ret = b;
    return 0;
}

static void stop_clocks(struct bpf_side *b)
{
    for (int i = 0; b->clocks && i < b->n_cpus; i++) {
        bpf_link__destroy(b->clocks[i].link); /* closes the descriptor as well */
        b->clocks[i] = (struct cpu_clock){.fd = -1};
    }
}

void bpf_side_free(struct bpf_side *b)
{
    if (!b)
        return;
    stop_clocks(b);
    for (size_t i = 0; i < b->n_counters; i++)
        bpf_link__destroy(b->counters[i]);
    mem_free(b->counters);
    ring_buffer__free(b->ring);
    agent_bpf__destroy(b->skel);
    mem_free(b->clocks);
    mem_free(b);
}

static int start_clock(struct bpf_side *b, int cpu, unsigned hz, struct err *e)
{
    struct perf_event_attr attr = {.size = sizeof attr,
                                   .type = PERF_TYPE_SOFTWARE,
                                   .config = PERF_COUNT_SW_CPU_CLOCK,
                                   .sample_period = 1000000000ull / hz,
                                   .exclude_idle = 1};
    struct cpu_clock *c = &b->clocks[cpu];
    int r;

    c->fd = perf_open(&attr, -1, cpu);
    if (c->fd < 0)
        return err_set(e, c->fd, "cannot open a clock on CPU %d (CAP_PERFMON is required): %m", cpu);
    c->link = bpf_program__attach_perf_event(b->bounded ? b->skel->progs.old_tick : b->skel->progs.on_tick, c->fd);
    if (!c->link) {
        r = -errno;
        fd_close(c->fd);
        c->fd = -1;
        return err_set(e, r, "cannot attach the sampling program: %m");
    }
    return 0;
}

int bpf_side_sample(struct bpf_side *b, unsigned hz, struct err *e)
{
    uint64_t period = 1000000000ull / hz;
    int r = 0;

    for (int cpu = 0; cpu < b->n_cpus && r == 0; cpu++) {
        if (b->clocks[cpu].link)
            r = ioctl(b->clocks[cpu].fd, PERF_EVENT_IOC_PERIOD, &period) < 0 ? -errno : 0;
        else if (perf_cpu_is_online(cpu))
            r = start_clock(b, cpu, hz, e);
    }
    b->hz = hz;
    return r;
}

/* Takes fd, which may be an error. */
static int start_counter(struct bpf_side *b, int fd, const struct perf_events *events, uint32_t i,
                         struct bpf_link **ret, struct err *e)
{
    LIBBPF_OPTS(bpf_perf_event_opts, opts, .bpf_cookie = i);
    int r;

    if (fd < 0)
        return fd;
    *ret = bpf_program__attach_perf_event_opts(b->skel->progs.on_counted, fd, &opts);
    if (*ret)
        return 0;
    r = -errno;
    fd_close(fd);
    return err_set(e, r, "cannot attach the program that samples '%s': %m", events->v[i].name);
}

int bpf_side_count(struct bpf_side *b, const struct perf_events *events, unsigned hz, struct err *e)
{
    int r = 0;

    b->n_counters = (size_t) b->n_cpus * events->n;
    b->counters = mem_zalloc_array(b->n_counters, sizeof *b->counters);
    if (!b->counters) {
        b->n_counters = 0;
        return -ENOMEM;
    }
    for (size_t i = 0; i < b->n_counters && r == 0; i++) {
        int cpu = (int) (i / events->n);
        uint32_t k = (uint32_t) (i % events->n);

        if (perf_cpu_is_online(cpu))
            r = start_counter(b, perf_events_open(&events->v[k], cpu, hz, e), events, k, &b->counters[i], e);
    }
    return r;
}

bool bpf_side_is_old(const struct bpf_side *b)
{
    return b->bounded;
}

const char *bpf_side_lacks(const struct bpf_side *b)
{
    return b->lacks;
}

bool bpf_side_has_off_cpu(const struct bpf_side *b)
{
    return b->off_cpu;
}

int bpf_side_follow_forks(struct bpf_side *b, struct err *e)
{
    if (is_left_out(b, "on_fork"))
        return 0;
    b->skel->links.on_fork = bpf_program__attach(b->skel->progs.on_fork);
    if (!b->skel->links.on_fork)
        return err_set(e, -errno, "cannot trace new processes: %m");
    return 0;
}

int bpf_side_off_cpu(struct bpf_side *b, struct err *e)
{
    b->skel->links.on_switch = bpf_program__attach(b->skel->progs.on_switch);
    if (!b->skel->links.on_switch)
        return err_set(e, -errno, "cannot sample off-CPU time: %m");
    if (!b->skel->rodata->pid_namespace_inode) /* on_task only knows pids of the initial namespace */
        b->skel->links.on_task = bpf_program__attach_iter(b->skel->progs.on_task, NULL);
    return 0;
}

void bpf_side_look(struct bpf_side *b)
{
    _cleanup_(fd_closep) int fd = b->skel->links.on_task ? bpf_iter_create(bpf_link__fd(b->skel->links.on_task)) : -1;
    uint64_t now = (uint64_t) clock_mono();
    char none[8];

    while (fd >= 0 && read(fd, none, sizeof none) > 0) /* the iterator writes no output: one read visits all tasks */
        ;
    b->skel->data->control.last_look_ns = now;
}

struct agent_control *bpf_side_control(struct bpf_side *b)
{
    return &b->skel->data->control;
}

struct row_store_maps bpf_side_row_maps(struct bpf_side *b)
{
    return (struct row_store_maps){bpf_map__fd(b->skel->maps.shards), bpf_map__fd(b->skel->maps.rules),
                                   bpf_map__fd(b->skel->maps.pages),
                                   bpf_side_is_old(b) ? -1 : bpf_map__fd(b->skel->maps.code_rules)};
}

int bpf_side_fd(const struct bpf_side *b)
{
    return bpf_map__fd(b->skel->maps.events);
}

int bpf_side_drain(struct bpf_side *b, int (*f)(void *arg, void *event, size_t n), void *arg)
{
    int r;

    b->drain = (struct drain){f, arg};
    r = ring_buffer__consume(b->ring);
    b->drain = (struct drain){0};
    return r;
}

int bpf_side_load_process(struct bpf_side *b, uint32_t pid, const struct agent_process *p,
                          const struct agent_lang *lang)
{
    if (lang && bpf_map_update_elem(bpf_map__fd(b->skel->maps.langs), &pid, lang, BPF_ANY) < 0)
        return -errno;
    return bpf_map_update_elem(bpf_map__fd(b->skel->maps.processes), &pid, p, BPF_ANY) < 0 ? -errno : 0;
}

void bpf_side_forget(struct bpf_side *b, uint32_t pid)
{
    bpf_map_delete_elem(bpf_map__fd(b->skel->maps.processes), &pid);
    bpf_map_delete_elem(bpf_map__fd(b->skel->maps.langs), &pid);
}

int bpf_side_filter(struct bpf_side *b, uint32_t pid, uint32_t weight)
{
    return bpf_map_update_elem(bpf_map__fd(b->skel->maps.filter), &pid, &weight, BPF_ANY) < 0 ? -errno : 0;
}

void bpf_side_unfilter(struct bpf_side *b, uint32_t pid)
{
    bpf_map_delete_elem(bpf_map__fd(b->skel->maps.filter), &pid);
}

int bpf_side_stats(struct bpf_side *b, struct agent_stats *ret)
{
    struct agent_stats *v = mem_zalloc_array((size_t) b->n_cpus, sizeof *v);
    uint32_t zero = 0;
    int r = v ? 0 : -ENOMEM;

    if (v && bpf_map_lookup_elem(bpf_map__fd(b->skel->maps.stats), &zero, v) < 0)
        r = -errno;
    *ret = (struct agent_stats){0};
    for (int i = 0; r == 0 && i < b->n_cpus; i++) {
        uint64_t *sum = (uint64_t *) ret;
        const uint64_t *one = (const uint64_t *) &v[i];

        for (size_t k = 0; k < sizeof *ret / sizeof *sum; k++)
            sum[k] += one[k];
    }
    mem_free(v);
    return r;
}

/* The memlock line of a map's fdinfo. */
static size_t map_memory(const struct bpf_map *map)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    char path[64], *at;

    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", bpf_map__fd(map));
    if (fd_read_file(path, 4096, &b, NULL) < 0 || !buf_cstr(&b))
        return 0;
    at = strstr(b.p, "memlock:");
    return at ? (size_t) strtoul(at + 8, NULL, 10) : 0;
}

size_t bpf_side_memory(struct bpf_side *b)
{
    struct bpf_map *map;
    int64_t now = clock_mono();

    if (b->memory && now - b->memory_ns < MEMORY_NS)
        return b->memory;
    b->memory = 0;
    b->memory_ns = now;
    bpf_object__for_each_map(map, b->skel->obj) b->memory += map_memory(map);
    return b->memory;
}
