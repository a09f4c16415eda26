/* SPDX-License-Identifier: Apache-2.0 */
/* perf's ring buffers, one per CPU, whose records are read together in order of time. For use by one thread. */
#ifndef AGENT_PERF_RINGS_H
#define AGENT_PERF_RINGS_H

#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct perf_ring {
    int fd;
    struct perf_event_mmap_page *page;
};

struct perf_rings {
    struct perf_ring *v;
    uint32_t n;
    size_t cap;
    size_t size;                      /* of the data part of each */
    struct perf_rings_entry *entries; /* of one drain */
    size_t n_entries, cap_entries;
    struct buf bytes;
};

void perf_rings_init(struct perf_rings *r, size_t bytes_per_cpu);
void perf_rings_done(struct perf_rings *r); /* closes the descriptors */
/* Maps the buffer of an event; fd is taken over, also on failure. */
int perf_rings_add(struct perf_rings *r, int fd, struct err *e);
int perf_rings_add_to(struct perf_rings *r, int epoll_fd);
/* Calls f for each available record, oldest first; returns their number, or -ENOMEM. time_of returns the time of a
 * record, which is contiguous and aligned to 8 bytes. */
int perf_rings_drain(struct perf_rings *r, uint64_t (*time_of)(const struct perf_event_header *h),
                     void (*f)(void *arg, const struct perf_event_header *h, uint64_t time), void *arg);

#endif
