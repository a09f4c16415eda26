/* SPDX-License-Identifier: Apache-2.0 */
/* Reads /tmp/perf-PID.map of this process (jit_frames.h). Any user can write to /tmp: only a regular file of this user is
 * read. */
#include "sdk/jit_frames.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "proc/addr_names.h"
#include "proc/jit_names.h"
#include "proc/proc_path.h"

static const int64_t KEPT_NS = NS_PER_S / 10; /* stacks of a heap profile are named one by one */

static struct addr_names names;
static const char *hint; /* the name of code that is not in the map; NULL: none */
static int64_t read_ns;

static int read_map(struct addr_names *t)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    _cleanup_(fd_closep) int fd = -1;
    char path[64];
    struct stat st;
    size_t used;
    int r;

    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int) getpid());
    fd = fd_open(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
        return -EPERM;
    r = fd_read_all(fd, JIT_NAMES_FILE_MAX, &b);
    if (r == 0)
        r = jit_names_parse(buf_str(&b), &used, t);
    if (r == 0)
        addr_names_sort(t);
    return r;
}

void jit_frames_refresh(void)
{
    int64_t now = clock_mono();
    char exe[4096];
    struct str rest = proc_path_of_exe("/proc/self/exe", exe, sizeof exe), base = rest;
    bool has_map;

    if (read_ns && now - read_ns < KEPT_NS)
        return;
    addr_names_done(&names);
    names = ADDR_NAMES_INIT;
    has_map = read_map(&names) == 0;
    while (rest.n)
        base = str_cut(&rest, '/');
    hint = jit_names_hint(base, has_map);
    read_ns = now;
}

struct str jit_frames_find(uint64_t address)
{
    struct str name;
    uint64_t start;

    if (addr_names_find(&names, address, &name, &start))
        return name;
    return hint ? str_from(hint) : (struct str){0};
}
