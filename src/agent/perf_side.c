/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples processes with perf_event_open(2) and converts its records to the agent's events. The body of a sample: { u64
 * ip; u32 pid, tid; u64 time; u32 cpu, res; u64 n, chain[n]; u64 abi, regs[17]; u64 size; u8 stack[size]; u64 used };
 * the chain is only present with kernel frames, regs and used only for user threads.
 */
#include "agent/perf_side.h"

#include <asm/perf_regs.h>
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "agent/bpf/agent_abi.h"
#include "agent/perf_open.h"
#include "agent/perf_rings.h"
#include "agent/sideband.h"
#include "base/bytes.h"
#include "base/fd.h"
#include "base/mem.h"
#include "unwind/remote.h"

/* Every user may have rings of 512 KiB (kernel.perf_event_mlock_kb), larger ones count against RLIMIT_MEMLOCK. A record has
 * room for as much of the stack as is asked for, at most 64 KiB. */
enum { SMALL_RING = 512 << 10, SMALL_STACK = 16 << 10, RING = 2 << 20, STACK = 65528, EVENTS_MAX = 65536 };

#if defined(__x86_64__)
/* The requested registers, in the order in which the kernel writes them, with their DWARF numbers. */
static const struct {
    uint8_t perf, dwarf;
} registers[] = {
    {PERF_REG_X86_AX, 0},   {PERF_REG_X86_BX, 3},   {PERF_REG_X86_CX, 2},   {PERF_REG_X86_DX, 1},
    {PERF_REG_X86_SI, 4},   {PERF_REG_X86_DI, 5},   {PERF_REG_X86_BP, 6},   {PERF_REG_X86_SP, 7},
    {PERF_REG_X86_IP, 16},  {PERF_REG_X86_R8, 8},   {PERF_REG_X86_R9, 9},   {PERF_REG_X86_R10, 10},
    {PERF_REG_X86_R11, 11}, {PERF_REG_X86_R12, 12}, {PERF_REG_X86_R13, 13}, {PERF_REG_X86_R14, 14},
    {PERF_REG_X86_R15, 15},
};
enum { REG_FP = 6, REG_SP = 7, REG_BX = 3, REG_PC = 16 };
#else
#define SAME(n)                                     \
    {n, n}, {(n) + 1, (n) + 1}, {(n) + 2, (n) + 2}, \
    {                                               \
        (n) + 3, (n) + 3                            \
    }
static const struct {
    uint8_t perf, dwarf;
} registers[] = {SAME(0), SAME(4), SAME(8), SAME(12), SAME(16), SAME(20), SAME(24), SAME(28), {32, 32}};
enum { REG_FP = 29, REG_SP = 31, REG_BX = 19, REG_PC = 32 };
#endif

struct perf_side {
    struct perf_rings rings; /* one per online CPU */
    int *ring_cpu;
    int *events; /* further events, whose records go into the rings */
    size_t n_events, cap_events;
    int n_cpus;
    unsigned hz;
    uint32_t stack_bytes; /* that the kernel copies of a stack */
    bool kernel, children;
    unsigned long lost, samples;
    struct agent_event event;
    struct agent_stack stack;
    /* of the current drain */
    struct processes *processes;
    int (*f)(void *arg, void *event, size_t n);
    void *arg;
};

/* Whether the process may have large rings, and leave half of its limit to others. */
static bool has_room(int n_cpus)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur / 2 >= (rlim_t) n_cpus * (RING - SMALL_RING);
}

int perf_side_new(unsigned hz, bool kernel, bool children, struct perf_side **ret, struct err *e)
{
    struct perf_side *s;

    s = mem_zalloc(sizeof *s);
    if (!s)
        return -ENOMEM;
    s->hz = hz;
    s->kernel = kernel;
    s->children = children;
    s->n_cpus = perf_cpus();
    s->stack_bytes = has_room(s->n_cpus) ? STACK : SMALL_STACK;
    perf_rings_init(&s->rings, s->stack_bytes == STACK ? RING : SMALL_RING);
    s->ring_cpu = mem_zalloc_array((size_t) s->n_cpus, sizeof *s->ring_cpu); /* ring of the CPU, + 1 */
    if (!s->ring_cpu) {
        perf_side_free(s);
        return -ENOMEM;
    }
    *ret = s;
    return 0;
}

void perf_side_free(struct perf_side *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_events; i++)
        fd_close(s->events[i]);
    perf_rings_done(&s->rings);
    mem_free(s->events);
    mem_free(s->ring_cpu);
    mem_free(s);
}

static int open_event(struct perf_side *s, pid_t tid, int cpu)
{
    struct perf_event_attr attr = {.size = sizeof attr,
                                   .type = PERF_TYPE_SOFTWARE,
                                   .config = PERF_COUNT_SW_TASK_CLOCK,
                                   .sample_period = 1000000000ull / s->hz,
                                   .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
                                                  PERF_SAMPLE_CPU | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
                                   .sample_stack_user = s->stack_bytes,
                                   .sample_id_all = 1,
                                   .inherit = 1, /* by new threads, and by child processes */
                                   .inherit_thread = !s->children,
                                   .mmap = 1,
                                   .mmap2 = 1,
                                   .comm = 1,
                                   .comm_exec = 1,
                                   .task = 1,
                                   .exclude_kernel = !s->kernel,
                                   .exclude_hv = 1,
                                   .use_clockid = 1,
                                   .clockid = CLOCK_MONOTONIC,
                                   .wakeup_events = 1}; /* languages' frames are read while the sample is fresh */
    int fd;

    for (size_t i = 0; i < ARRAY_SIZE(registers); i++)
        attr.sample_regs_user |= 1ull << registers[i].perf;
    if (s->kernel) {
        attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
        attr.exclude_callchain_user = 1;
    }
    fd = perf_open(&attr, tid, cpu);
    if (fd == -EINVAL && attr.inherit_thread) { /* before Linux 5.13: children are included */
        attr.inherit_thread = 0;
        fd = perf_open(&attr, tid, cpu);
    }
    return fd;
}

/* The first event of a CPU gets a ring; later ones write into the same ring. */
static int keep_event(struct perf_side *s, int fd, int cpu, struct err *e)
{
    int r;

    if (!s->ring_cpu[cpu]) {
        r = perf_rings_add(&s->rings, fd, e);
        if (r == 0)
            s->ring_cpu[cpu] = (int) s->rings.n;
        return r;
    }
    r = array_reserve(s->events, s->cap_events, s->n_events + 1, EVENTS_MAX);
    if (r == 0 && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, s->rings.v[s->ring_cpu[cpu] - 1].fd) < 0)
        r = -errno;
    if (r < 0)
        fd_close(fd);
    else
        s->events[s->n_events++] = fd;
    return r;
}

static int add_thread(struct perf_side *s, pid_t tid, struct err *e)
{
    int r = 0;

    for (int cpu = 0; cpu < s->n_cpus && r == 0; cpu++) {
        int fd;

        if (!perf_cpu_is_online(cpu))
            continue;
        fd = open_event(s, tid, cpu);
        if (fd == -EACCES && s->kernel) { /* perf_event_paranoid */
            s->kernel = false;
            fd = open_event(s, tid, cpu);
        }
        r = fd < 0 ? fd : keep_event(s, fd, cpu, e);
    }
    return r;
}

int perf_side_add_pid(struct perf_side *s, pid_t pid, struct err *e)
{
    char path[64];
    DIR *d;
    int r = 0;

    snprintf(path, sizeof path, "/proc/%d/task", (int) pid);
    d = opendir(path);
    if (!d)
        return err_set(e, -errno, "no such process: %d", (int) pid);
    for (struct dirent *t; r == 0 && (t = readdir(d));) {
        uint64_t tid;

        if (str_to_u64(str_from(t->d_name), 10, &tid) == 0)
            r = add_thread(s, (pid_t) tid, e);
        if (r == -ESRCH) /* a thread that just ended */
            r = 0;
    }
    closedir(d);
    if (r == -EACCES || r == -EPERM)
        return err_set(
            e, r,
            "not permitted to sample process %d: it belongs to another user, or kernel.perf_event_paranoid forbids it (use "
            "'wick run' then)",
            (int) pid);
    return r < 0 && e && !e->code ? err_set(e, r, "cannot sample process %d: %m", (int) pid) : r;
}

int perf_side_add_to(struct perf_side *s, int epoll_fd)
{
    return perf_rings_add_to(&s->rings, epoll_fd);
}

/* --- samples --- */
static bool take(struct cursor *c, void *ret, size_t n)
{
    const uint8_t *p = get_raw(c, n);

    if (p)
        memcpy(ret, p, n);
    return p;
}

static bool take_chain(struct cursor *c, struct agent_event *ev)
{
    uint64_t n, word;

    if (!take(c, &n, sizeof n) || n > 65536)
        return false;
    for (uint64_t i = 0; i < n; i++) {
        if (!take(c, &word, sizeof word))
            return false;
        if (word < PERF_CONTEXT_MAX && word >> 63 && ev->n_kernel < AGENT_KERNEL_FRAMES)
            ev->words[ev->n_kernel++] = word;
    }
    ev->n_words = ev->n_kernel;
    return true;
}

static bool take_user(struct cursor *c, struct agent_event *ev, struct agent_stack *st)
{
    uint64_t abi, v[ARRAY_SIZE(registers)], by_dwarf[REG_PC + 1] = {0}, size, used = 0;

    if (!take(c, &abi, sizeof abi) || abi != PERF_SAMPLE_REGS_ABI_64 || !take(c, v, sizeof v) ||
        !take(c, &size, sizeof size) || (uint64_t) (c->end - c->p) < size + 8 || size > sizeof st->bytes)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(registers); i++)
        by_dwarf[registers[i].dwarf] = v[i];
    memcpy(st->bytes, c->p, size);
    c->p += size;
    take(c, &used, sizeof used);
    ev->resume = (struct agent_regs){.pc = by_dwarf[REG_PC],
                                     .sp = by_dwarf[REG_SP],
                                     .fp = by_dwarf[REG_FP],
                                     .bx = by_dwarf[REG_BX],
                                     .exact = !remote_after_syscall(by_dwarf, by_dwarf[REG_PC]),
                                     .is_leaf = 1};
    memcpy(ev->resume.leaf, by_dwarf, sizeof ev->resume.leaf);
    st->n = (uint32_t) MIN(used, size);
    st->sp = by_dwarf[REG_SP];
    return true;
}

static void on_sample(struct perf_side *s, const struct perf_event_header *h)
{
    struct cursor c = cursor_of(h + 1, h->size - sizeof *h);
    struct agent_event *ev = &s->event;
    struct agent_stack *st = &s->stack;
    uint64_t ip;
    uint32_t ids[2], cpu[2];

    memset(ev, 0, offsetof(struct agent_event, words));
    if (!take(&c, &ip, sizeof ip) || !take(&c, ids, sizeof ids) || !take(&c, &ev->time_ns, sizeof ev->time_ns) ||
        !take(&c, cpu, sizeof cpu) || (s->kernel && !take_chain(&c, ev)))
        return;
    ev->kind = AGENT_EVENT_CPU;
    ev->cpu = cpu[0];
    ev->pid = ids[0];
    ev->tid = ids[1];
    ev->weight = 1;
    ev->end = AGENT_END_NO_PROCESS;
    s->samples++;
    if (take_user(&c, ev, st)) {
        ev->flags = AGENT_EVENT_RESUME;
        st->kind = AGENT_EVENT_STACK;
        st->cpu = ev->cpu;
        st->time_ns = ev->time_ns;
        st->tid = ev->tid;
        s->f(s->arg, st, offsetof(struct agent_stack, bytes) + st->n);
    } else {
        ev->flags = AGENT_EVENT_NO_USER;
        ev->end = AGENT_END_NONE;
    }
    s->f(s->arg, ev, offsetof(struct agent_event, words) + ev->n_words * 8u);
}

static uint64_t time_of(const struct perf_event_header *h)
{
    uint64_t time;

    if (h->type == PERF_RECORD_SAMPLE)
        memcpy(&time, (const char *) h + sizeof *h + 16, sizeof time);
    else /* { pid, tid, time, cpu, res } at its end */
        memcpy(&time, (const char *) h + h->size - 16, sizeof time);
    return time;
}

static void on_record(void *arg, const struct perf_event_header *h, uint64_t time)
{
    struct perf_side *s = arg;

    if (h->type == PERF_RECORD_SAMPLE)
        on_sample(s, h);
    else
        s->lost += sideband_record(s->processes, h, time);
}

int perf_side_drain(struct perf_side *s, struct processes *p, int (*f)(void *arg, void *event, size_t n), void *arg)
{
    s->processes = p;
    s->f = f;
    s->arg = arg;
    return perf_rings_drain(&s->rings, time_of, on_record, s);
}

/* The count of an event is its thread's, with those of the threads that inherited it. */
static uint64_t count_of(int fd)
{
    uint64_t v;

    return read(fd, &v, sizeof v) == sizeof v ? v : 0;
}

uint64_t perf_side_used(const struct perf_side *s)
{
    uint64_t sum = 0;

    for (size_t i = 0; s && i < s->n_events; i++)
        sum += count_of(s->events[i]);
    for (uint32_t i = 0; s && i < s->rings.n; i++)
        sum += count_of(s->rings.v[i].fd);
    return sum;
}

unsigned long perf_side_lost(const struct perf_side *s)
{
    return s->lost;
}

size_t perf_side_memory(const struct perf_side *s)
{
    return s->rings.n * s->rings.size;
}
