/* SPDX-License-Identifier: Apache-2.0 */
/* Maps perf's ring buffers and reads their records merged by time. */
#include "agent/perf_rings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

enum { DRAIN_BYTES_MAX = 64 << 20, RINGS_MAX = 65536, ENTRIES_MAX = 1 << 20 };

struct perf_rings_entry {
    uint64_t time;
    uint32_t at; /* in bytes */
};

void perf_rings_init(struct perf_rings *r, size_t bytes_per_cpu)
{
    *r = (struct perf_rings){.size = bytes_per_cpu};
    buf_init(&r->bytes, DRAIN_BYTES_MAX);
}

void perf_rings_done(struct perf_rings *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        munmap(r->v[i].page, r->size + (size_t) sysconf(_SC_PAGESIZE));
        fd_close(r->v[i].fd);
    }
    buf_done(&r->bytes);
    mem_free(r->entries);
    mem_free(r->v);
    *r = (struct perf_rings){0};
}

int perf_rings_add(struct perf_rings *r, int fd, struct err *e)
{
    int k = array_reserve(r->v, r->cap, r->n + 1u, RINGS_MAX);
    void *p = MAP_FAILED;

    if (k == 0) {
        p = mmap(NULL, r->size + (size_t) sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        k = p == MAP_FAILED ? err_set(e, -errno, "cannot allocate memory for perf buffers (RLIMIT_MEMLOCK): %m") : 0;
    }
    if (k < 0) {
        fd_close(fd);
        return k;
    }
    r->v[r->n++] = (struct perf_ring){fd, p};
    return 0;
}

int perf_rings_add_to(struct perf_rings *r, int epoll_fd)
{
    for (uint32_t i = 0; i < r->n; i++) {
        struct epoll_event ev = {.events = EPOLLIN};

        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, r->v[i].fd, &ev) < 0)
            return -errno;
    }
    return 0;
}

static void copy_out(const struct perf_ring *x, size_t size, uint64_t from, void *ret, size_t n)
{
    const char *data = (const char *) x->page + x->page->data_offset;
    size_t at = from % size, first = MIN(n, size - at);

    memcpy(ret, data + at, first);
    memcpy((char *) ret + first, data, n - first);
}

static int take_record(struct perf_rings *r, const struct perf_ring *x, uint64_t from,
                       const struct perf_event_header *h, uint64_t (*time_of)(const struct perf_event_header *h))
{
    char *to = buf_reserve(&r->bytes, ALIGN_UP((size_t) h->size, 8));
    struct perf_rings_entry *e;

    if (!to || array_reserve(r->entries, r->cap_entries, r->n_entries + 1, ENTRIES_MAX) < 0)
        return -ENOMEM;
    copy_out(x, r->size, from, to, h->size);
    e = &r->entries[r->n_entries++];
    e->at = (uint32_t) r->bytes.n;
    e->time = time_of((const struct perf_event_header *) to);
    r->bytes.n += ALIGN_UP((size_t) h->size, 8);
    return 0;
}

static int drain_ring(struct perf_rings *r, const struct perf_ring *x,
                      uint64_t (*time_of)(const struct perf_event_header *h))
{
    uint64_t head = __atomic_load_n(&x->page->data_head, __ATOMIC_ACQUIRE), tail = x->page->data_tail;
    int k = 0;

    while (tail < head && k == 0) {
        struct perf_event_header h;

        copy_out(x, r->size, tail, &h, sizeof h);
        if (h.size < sizeof h || h.size > head - tail)
            break;
        k = take_record(r, x, tail, &h, time_of);
        tail += h.size;
    }
    __atomic_store_n(&x->page->data_tail, head, __ATOMIC_RELEASE);
    return k;
}

static int by_time(const void *a, const void *b)
{
    const struct perf_rings_entry *x = a, *y = b;

    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

int perf_rings_drain(struct perf_rings *r, uint64_t (*time_of)(const struct perf_event_header *h),
                     void (*f)(void *arg, const struct perf_event_header *h, uint64_t time), void *arg)
{
    int k = 0;

    r->n_entries = 0;
    buf_reset(&r->bytes);
    for (uint32_t i = 0; i < r->n && k == 0; i++)
        k = drain_ring(r, &r->v[i], time_of);
    if (r->n_entries)
        qsort(r->entries, r->n_entries, sizeof *r->entries, by_time);
    for (size_t i = 0; i < r->n_entries; i++)
        f(arg, (const struct perf_event_header *) (r->bytes.p + r->entries[i].at), r->entries[i].time);
    return k < 0 ? k : (int) r->n_entries;
}
