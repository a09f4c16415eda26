/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens perf events for records about processes and passes the records to struct processes. A record as the kernel
 * writes it here: header, body, then the sample id that attr.sample_id_all requests: { u32 pid, tid; u64 time }
 * (PERF_SAMPLE_TID | PERF_SAMPLE_TIME), so the time is its last 8 bytes.
 */
#include "agent/sideband.h"

#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/agent_caps.h"
#include "agent/perf_open.h"
#include "agent/perf_rings.h"
#include "agent/process.h"
#include "agent/process_maps.h"
#include "base/mem.h"
#include "proc/proc_path.h"

struct sideband {
    struct perf_rings rings;
    unsigned long lost;
    struct processes *processes; /* of the current drain */
};

/* Records are needed when a sample of their process is read, and each round reads them before the samples. They wake the
 * agent only when a buffer has filled to this part (1/n): short processes that are never sampled wake nothing. */
enum { WAKE_PART = 4 };

/* On a busy machine the agent may wait for its turn for a second, in which compilers and shells write hundreds of KiB. */
enum { RING_MIN = 1 << 17, RING_MAX = 1 << 19 };

/* attr.build_id is not set: the kernel (6.18) would then mark the records of other readers as having a build id, too,
 * and those readers would take device and inode for a build id. */
static int open_ring(struct sideband *s, uint32_t watermark, int cpu, struct err *e)
{
    struct perf_event_attr attr = {.size = sizeof attr,
                                   .type = PERF_TYPE_SOFTWARE,
                                   .config = PERF_COUNT_SW_DUMMY,
                                   .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
                                   .sample_id_all = 1,
                                   .mmap = 1,
                                   .mmap2 = 1,
                                   .comm = 1,
                                   .comm_exec = 1,
                                   .task = 1,
                                   .use_clockid = 1,
                                   .clockid = CLOCK_MONOTONIC,
                                   .watermark = 1,
                                   .wakeup_watermark = watermark};
    int fd = perf_open(&attr, -1, cpu);

    if ((fd == -EACCES || fd == -EPERM) && agent_cap_has(CAP_PERFMON) && perf_paranoid() > 2)
        return err_set(
            e, fd,
            "kernel.perf_event_paranoid is %ld: this kernel allows perf events only with CAP_SYS_ADMIN, which "
            "the process does not have: start it with that capability, or: sysctl kernel.perf_event_paranoid=2",
            perf_paranoid());
    if (fd == -EACCES || fd == -EPERM)
        return err_set(e, fd,
                       "sampling other processes requires CAP_BPF and CAP_PERFMON: run it as root; your own programs "
                       "need no privileges: 'wick record -- CMD', 'wick run CMD'; see also 'wick doctor'");
    if (fd < 0)
        return err_set(e, fd, "cannot receive process events from the kernel: %m");
    return perf_rings_add(&s->rings, fd, e);
}

static int open_rings(struct sideband *s, int cpus, size_t bytes_per_cpu, struct err *e)
{
    int r = 0;

    perf_rings_init(&s->rings, bytes_per_cpu);
    for (int cpu = 0; cpu < cpus && r == 0; cpu++)
        if (perf_cpu_is_online(cpu))
            r = open_ring(s, (uint32_t) (bytes_per_cpu / WAKE_PART), cpu, e);
    if (r < 0)
        perf_rings_done(&s->rings);
    return r;
}

int sideband_new(size_t bytes, struct sideband **ret, struct err *e)
{
    struct sideband *s = mem_zalloc(sizeof *s);
    int cpus = perf_cpus(), r;
    size_t each = RING_MAX;

    if (!s)
        return -ENOMEM;
    while (each > RING_MIN && each * (size_t) cpus > bytes)
        each /= 2;
    r = open_rings(s, cpus, each, e);
    if ((r == -EPERM || r == -ENOMEM) && each > RING_MIN) { /* RLIMIT_MEMLOCK */
        if (e)
            *e = (struct err){0};
        r = open_rings(s, cpus, RING_MIN, e);
    }
    if (r < 0) {
        mem_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

void sideband_free(struct sideband *s)
{
    if (!s)
        return;
    perf_rings_done(&s->rings);
    mem_free(s);
}

int sideband_add_to(struct sideband *s, int epoll_fd)
{
    return perf_rings_add_to(&s->rings, epoll_fd);
}

/* --- records --- */
struct record_mmap2 {
    struct perf_event_header header;
    uint32_t pid, tid;
    uint64_t start, length, offset;
    uint32_t major, minor;
    uint64_t inode, generation;
    uint32_t protection, flags;
    char path[];
};

static void on_mmap(struct processes *p, const struct record_mmap2 *m, uint64_t time)
{
    struct process_mapping new = {.start = m->start, .end = m->start + m->length, .offset = m->offset};
    size_t room = m->header.size - offsetof(struct record_mmap2, path);
    char path[PATH_MAX];
    struct str s;

    if (m->header.size <= offsetof(struct record_mmap2, path) || strnlen(m->path, room) == room || m->start >> 63)
        return;
    s = str_from(m->path);
    new.deleted = proc_path_cut_deleted(&s); /* a program may be started from a file that was replaced */
    snprintf(path, sizeof path, "%.*s", (int) s.n, s.p);
    new.anonymous = process_maps_is_anonymous(path);
    new.path = new.anonymous ? NULL : path;
    new.key = (struct object_key){m->inode, m->generation, m->major, m->minor};
    processes_mmap(p, m->pid, &new, time);
}

unsigned long sideband_record(struct processes *p, const struct perf_event_header *h, uint64_t time)
{
    const uint32_t *body = (const uint32_t *) (h + 1);
    uint64_t lost = 0;

    switch (h->type) {
    case PERF_RECORD_FORK: /* pid, ppid, tid, ptid */
        if (body[0] != body[1] && body[0] == body[2])
            processes_fork(p, body[0], body[1], time);
        break;
    case PERF_RECORD_EXIT:
        if (body[0] == body[2])
            processes_exit(p, body[0], time);
        break;
    case PERF_RECORD_COMM: /* pid, tid, name */
        if (h->misc & PERF_RECORD_MISC_COMM_EXEC)
            processes_exec(p, body[0], (const char *) (body + 2), time);
        else if (body[0] == body[1])
            processes_comm(p, body[0], (const char *) (body + 2), time);
        break;
    case PERF_RECORD_MMAP2:
        on_mmap(p, (const struct record_mmap2 *) h, time);
        break;
    case PERF_RECORD_LOST: /* id, lost */
        memcpy(&lost, body + 2, sizeof lost);
        break;
    default:
        break;
    }
    return lost;
}

static uint64_t time_of(const struct perf_event_header *h)
{
    uint64_t time;

    memcpy(&time, (const char *) h + h->size - 8, sizeof time);
    return time;
}

static void hand_on(void *arg, const struct perf_event_header *h, uint64_t time)
{
    struct sideband *s = arg;

    s->lost += sideband_record(s->processes, h, time);
}

int sideband_drain(struct sideband *s, struct processes *p)
{
    s->processes = p;
    return perf_rings_drain(&s->rings, time_of, hand_on, s);
}

unsigned long sideband_lost(const struct sideband *s)
{
    return s->lost;
}

size_t sideband_memory(const struct sideband *s)
{
    return s->rings.n * s->rings.size;
}
