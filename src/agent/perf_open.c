/* SPDX-License-Identifier: Apache-2.0 */
/* Wraps perf_event_open(2) and reads the lists of possible and online CPUs. */
#include "agent/perf_open.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/perf_opener.h"
#include "base/fd.h"
#include "base/str.h"

int perf_open_here(struct perf_event_attr *attr, pid_t pid, int cpu)
{
    long fd = syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

    return fd < 0 ? -errno : (int) fd;
}

int perf_open(struct perf_event_attr *attr, pid_t pid, int cpu)
{
    int fd = perf_open_here(attr, pid, cpu);

    return (fd == -EACCES || fd == -EPERM) && pid < 0 && perf_opener_fd() >= 0 ? perf_opener_ask(attr, cpu) : fd;
}

long perf_paranoid(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    int64_t v;

    if (fd_read_file("/proc/sys/kernel/perf_event_paranoid", 64, &b, NULL) < 0 ||
        str_to_i64(str_trim(buf_str(&b)), 10, &v) < 0)
        return -1;
    return (long) v;
}

/* Whether cpu is in a list such as "0-3,8"; the largest number + 1 in *ret_n. */
static bool in_list(const char *path, int cpu, int *ret_n)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct str rest;
    bool found = false;

    *ret_n = 0;
    if (fd_read_file(path, 4096, &b, NULL) < 0)
        return false;
    rest = str_trim(buf_str(&b));
    while (rest.n) {
        struct str part = str_cut(&rest, ','), first = str_cut(&part, '-');
        uint64_t a, z;

        if (str_to_u64(first, 10, &a) < 0 || (part.n && str_to_u64(part, 10, &z) < 0))
            continue;
        if (!part.n)
            z = a;
        found |= cpu >= 0 && (uint64_t) cpu >= a && (uint64_t) cpu <= z;
        *ret_n = MAX(*ret_n, (int) z + 1);
    }
    return found;
}

int perf_cpus(void)
{
    int n;

    in_list("/sys/devices/system/cpu/possible", -1, &n);
    return n ? n : (int) sysconf(_SC_NPROCESSORS_CONF);
}

bool perf_cpu_is_online(int cpu)
{
    int n;
    bool found = in_list("/sys/devices/system/cpu/online", cpu, &n);

    return n ? found : cpu < (int) sysconf(_SC_NPROCESSORS_ONLN);
}
