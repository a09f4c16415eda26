/* SPDX-License-Identifier: Apache-2.0 */
/* Reads memory sizes and limits (meminfo.h) from /proc, control groups and the allocator. */
#include "base/meminfo.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"

static uint64_t read_number(const char *path)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    uint64_t v;

    if (fd_read_file(path, 4096, &b, NULL) < 0 || str_to_u64(str_trim(buf_str(&b)), 10, &v) < 0)
        return UINT64_MAX; /* "max", or the file does not exist */
    return v;
}

/* The smallest limit of the group and its ancestors. In a container the host's path may not exist. */
static uint64_t group_limit(const char *root, struct str group, const char *file)
{
    char path[4200], dir[2048];
    uint64_t least = UINT64_MAX, v;

    snprintf(dir, sizeof dir, "%.*s", STR_FMT(group));
    for (;;) {
        char *slash = strrchr(dir, '/');

        snprintf(path, sizeof path, "%s%s/%s", root, strcmp(dir, "/") == 0 ? "" : dir, file);
        v = read_number(path);
        least = MIN(least, v);
        if (!slash || !dir[0])
            return least;
        *slash = 0;
    }
}

uint64_t meminfo_total(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    uint64_t least = (uint64_t) sysconf(_SC_PHYS_PAGES) * (uint64_t) sysconf(_SC_PAGESIZE);
    struct str rest;

    if (fd_read_file("/proc/self/cgroup", 1 << 16, &b, NULL) < 0)
        return least;
    rest = buf_str(&b);
    while (rest.n) {
        struct str line = str_cut(&rest, '\n'), controllers;

        str_cut(&line, ':');
        controllers = str_cut(&line, ':');
        if (!controllers.n)
            least = MIN(least, group_limit("/sys/fs/cgroup", line, "memory.max"));
        else if (str_is(controllers, "memory"))
            least = MIN(least, group_limit("/sys/fs/cgroup/memory", line, "memory.limit_in_bytes"));
    }
    return least;
}

size_t meminfo_limit(int64_t configured)
{
    uint64_t limit = configured > 0 ? (uint64_t) configured : meminfo_total() / 4;

    return (size_t) MAX(limit, (uint64_t) 64 << 20);
}

/* The n-th number of /proc/self/statm, in bytes. */
static uint64_t read_statm(int n)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct str text;
    uint64_t pages = 0;

    if (fd_read_file("/proc/self/statm", 4096, &b, NULL) < 0)
        return 0;
    text = buf_str(&b);
    while (n-- > 0)
        str_cut(&text, ' ');
    if (str_to_u64(str_cut(&text, ' '), 10, &pages) < 0)
        return 0;
    return pages * (uint64_t) sysconf(_SC_PAGESIZE);
}

uint64_t meminfo_resident(void)
{
    return read_statm(1);
}

uint64_t meminfo_used(void)
{
    uint64_t shared = read_statm(2), resident = read_statm(1);

    return resident > shared ? resident - shared : 0;
}

void meminfo_trim(void)
{
    malloc_trim(0);
}
