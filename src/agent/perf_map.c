/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the names of one process's perf map and reads the file again when it has grown; proc/jit_names.c parses it. */
#include "agent/perf_map.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "agent/process.h"
#include "base/clock.h"
#include "base/mem.h"
#include "proc/jit_names.h"

/* Every sample of unnamed code looks for its name: the file is read again at this interval at most. */
#define AGAIN_NS (2 * NS_PER_S)

struct perf_map {
    struct addr_names names;
    int64_t read_ns;
};

int perf_map_new(const struct process *p, struct perf_map **ret, struct err *e)
{
    struct perf_map *m = mem_zalloc(sizeof *m);
    int r;

    if (!m)
        return -ENOMEM;
    m->names = ADDR_NAMES_INIT;
    r = jit_names_read("/proc", (int) p->pid, &m->names, e);
    if (r < 0) {
        perf_map_free(m);
        return r;
    }
    m->read_ns = clock_mono();
    *ret = m;
    return 0;
}

void perf_map_free(struct perf_map *m)
{
    if (!m)
        return;
    addr_names_done(&m->names);
    mem_free(m);
}

/* The old table is kept when the new one cannot be read. */
static bool read_again(struct perf_map *m, const struct process *p)
{
    struct addr_names more = ADDR_NAMES_INIT;
    int64_t now = clock_mono();

    if (now - m->read_ns < AGAIN_NS || p->exited)
        return false;
    m->read_ns = now;
    if (jit_names_read("/proc", (int) p->pid, &more, NULL) < 0) {
        addr_names_done(&more);
        return false;
    }
    addr_names_done(&m->names);
    m->names = more;
    return true;
}

void perf_map_expire(struct perf_map *m)
{
    m->read_ns = INT64_MIN / 2;
}

size_t perf_map_count(const struct perf_map *m)
{
    return m->names.n;
}

bool perf_map_find(struct perf_map *m, const struct process *p, uint64_t address, struct str *ret, uint64_t *ret_start)
{
    return addr_names_find(&m->names, address, ret, ret_start) ||
           (read_again(m, p) && addr_names_find(&m->names, address, ret, ret_start));
}
