/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See sideband.h. A record as the kernel writes it here: header, body, then the sample id that attr.sample_id_all asks
 * for: { u32 pid, tid; u64 time } (PERF_SAMPLE_TID | PERF_SAMPLE_TIME), so the time is its last 8 bytes.
 */
#include "agent/sideband.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/perf_open.h"
#include "agent/process.h"
#include "agent/process_maps.h"
#include "base/fd.h"
#include "base/mem.h"

enum { RECORD_MAX = 65536, DRAIN_BYTES_MAX = 64 << 20 };

struct ring {
    int fd;
    struct perf_event_mmap_page *page;
};

struct entry {
    uint64_t time;
    uint32_t at; /* in bytes */
};

struct sideband {
    struct ring *rings;
    uint32_t n;
    size_t size; /* of the data part of a ring */
    unsigned long lost;
    struct entry *entries; /* of one drain */
    size_t n_entries, cap_entries;
    struct buf bytes;
};

static int open_cpu(int cpu, bool build_id)
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
                                   .build_id = build_id,
                                   .use_clockid = 1,
                                   .clockid = CLOCK_MONOTONIC,
                                   .watermark = 1,
                                   .wakeup_watermark = 1};

    return perf_open(&attr, -1, cpu);
}

static int open_ring(struct sideband *s, int cpu, bool *build_id, struct err *e)
{
    struct ring *x = &s->rings[s->n];
    void *p;

    x->fd = open_cpu(cpu, *build_id);
    if (x->fd == -EINVAL && *build_id) { /* before Linux 5.12 */
        *build_id = false;
        x->fd = open_cpu(cpu, false);
    }
    if (x->fd < 0)
        return err_set(e, x->fd, "the kernel does not tell about processes: %m");
    s->n++;
    p = mmap(NULL, s->size + (size_t) sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_SHARED, x->fd, 0);
    if (p == MAP_FAILED)
        return err_set(e, -errno, "no memory for the kernel's records of processes (RLIMIT_MEMLOCK): %m");
    x->page = p;
    return 0;
}

int sideband_new(size_t bytes_per_cpu, struct sideband **ret, struct err *e)
{
    struct sideband *s = mem_zalloc(sizeof *s);
    int n = perf_cpus(), r = 0;
    bool build_id = true;

    if (!s)
        return -ENOMEM;
    s->size = bytes_per_cpu;
    s->rings = mem_zalloc_array((size_t) n, sizeof *s->rings);
    if (!s->rings)
        r = -ENOMEM;
    buf_init(&s->bytes, DRAIN_BYTES_MAX);
    for (int cpu = 0; cpu < n && r == 0; cpu++)
        if (perf_cpu_is_online(cpu))
            r = open_ring(s, cpu, &build_id, e);
    if (r < 0) {
        sideband_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

void sideband_free(struct sideband *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->rings[i].page)
            munmap(s->rings[i].page, s->size + (size_t) sysconf(_SC_PAGESIZE));
        fd_close(s->rings[i].fd);
    }
    buf_done(&s->bytes);
    mem_free(s->entries);
    mem_free(s->rings);
    mem_free(s);
}

int sideband_add_to(struct sideband *s, int epoll_fd)
{
    for (uint32_t i = 0; i < s->n; i++) {
        struct epoll_event ev = {.events = EPOLLIN};

        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, s->rings[i].fd, &ev) < 0)
            return -errno;
    }
    return 0;
}

/* --- reading --- */
static void copy_out(const struct ring *x, size_t size, uint64_t from, void *ret, size_t n)
{
    const char *data = (const char *) x->page + x->page->data_offset;
    size_t at = from % size, first = MIN(n, size - at);

    memcpy(ret, data + at, first);
    memcpy((char *) ret + first, data, n - first);
}

static int take_record(struct sideband *s, const struct ring *x, uint64_t from, const struct perf_event_header *h)
{
    struct entry *e;
    char *to = buf_reserve(&s->bytes, ALIGN_UP((size_t) h->size, 8));
    int r = mem_grow((void **) &s->entries, &s->cap_entries, s->n_entries + 1, sizeof *s->entries, 1 << 20);

    if (!to || r < 0)
        return -ENOMEM;
    copy_out(x, s->size, from, to, h->size);
    e = &s->entries[s->n_entries++];
    e->at = (uint32_t) s->bytes.n;
    memcpy(&e->time, to + h->size - 8, 8);
    s->bytes.n += ALIGN_UP((size_t) h->size, 8);
    return 0;
}

static int drain_ring(struct sideband *s, const struct ring *x)
{
    uint64_t head = __atomic_load_n(&x->page->data_head, __ATOMIC_ACQUIRE), tail = x->page->data_tail;
    int r = 0;

    while (tail < head && r == 0) {
        struct perf_event_header h;

        copy_out(x, s->size, tail, &h, sizeof h);
        if (h.size < sizeof h || h.size > head - tail)
            break;
        r = take_record(s, x, tail, &h);
        tail += h.size;
    }
    __atomic_store_n(&x->page->data_tail, head, __ATOMIC_RELEASE);
    return r;
}

static int by_time(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

/* --- handing on --- */
struct record_mmap2 {
    struct perf_event_header header;
    uint32_t pid, tid;
    uint64_t start, length, offset;
    union {
        struct {
            uint32_t major, minor;
            uint64_t inode, generation;
        };
        struct {
            uint8_t build_id_size, pad[3];
            uint8_t build_id[20];
        };
    };
    uint32_t protection, flags;
    char path[];
};

static void on_mmap(struct processes *p, const struct record_mmap2 *m, uint64_t time)
{
    struct process_mapping new = {.start = m->start, .end = m->start + m->length, .offset = m->offset};
    size_t room = m->header.size - offsetof(struct record_mmap2, path);

    if (m->header.size <= offsetof(struct record_mmap2, path) || strnlen(m->path, room) == room || m->start >> 63)
        return;
    new.anonymous = process_maps_is_anonymous(m->path);
    new.path = new.anonymous ? NULL : (char *) m->path;
    if (m->header.misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
        new.key.build_id_size = MIN(m->build_id_size, (uint8_t) sizeof new.key.build_id);
        memcpy(new.key.build_id, m->build_id, new.key.build_id_size);
    } else {
        new.key.inode = m->inode;
        new.key.major = m->major;
        new.key.minor = m->minor;
    }
    processes_mmap(p, m->pid, &new, time);
}

static void hand_on(struct sideband *s, struct processes *p, const struct entry *e)
{
    const struct perf_event_header *h = (const void *) (s->bytes.p + e->at);
    const uint32_t *body = (const uint32_t *) (h + 1);
    uint64_t lost;

    switch (h->type) {
    case PERF_RECORD_FORK: /* pid, ppid, tid, ptid */
        if (body[0] != body[1] && body[0] == body[2])
            processes_fork(p, body[0], body[1], e->time);
        break;
    case PERF_RECORD_EXIT:
        if (body[0] == body[2])
            processes_exit(p, body[0], e->time);
        break;
    case PERF_RECORD_COMM: /* pid, tid, name */
        if (h->misc & PERF_RECORD_MISC_COMM_EXEC)
            processes_exec(p, body[0], (const char *) (body + 2), e->time);
        else if (body[0] == body[1])
            processes_comm(p, body[0], (const char *) (body + 2), e->time);
        break;
    case PERF_RECORD_MMAP2:
        on_mmap(p, (const struct record_mmap2 *) h, e->time);
        break;
    case PERF_RECORD_LOST: /* id, lost */
        memcpy(&lost, body + 2, sizeof lost);
        s->lost += lost;
        break;
    default:
        break;
    }
}

int sideband_drain(struct sideband *s, struct processes *p)
{
    int r = 0;

    s->n_entries = 0;
    buf_reset(&s->bytes);
    for (uint32_t i = 0; i < s->n && r == 0; i++)
        r = drain_ring(s, &s->rings[i]);
    if (s->n_entries)
        qsort(s->entries, s->n_entries, sizeof *s->entries, by_time);
    for (size_t i = 0; i < s->n_entries; i++)
        hand_on(s, p, &s->entries[i]);
    return r < 0 ? r : (int) s->n_entries;
}

unsigned long sideband_lost(const struct sideband *s)
{
    return s->lost;
}

size_t sideband_memory(const struct sideband *s)
{
    return s->n * s->size;
}
