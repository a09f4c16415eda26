/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the stack of a sleeping thread (sleeping.h). /proc/self/task/TID/syscall is "running", or "NR ARG... SP PC" in
 * hexadecimal, where NR is -1 outside of system calls. A thread that used no CPU time between two checks has not run,
 * so its stack as read in between is consistent.
 */
#include "sdk/sleeping.h"

#include <fcntl.h>
#include <stdio.h>

#include "base/str.h"
#include "sdk/sys.h"

/* A file of the thread's folder in /proc, as much of it as there is room for; empty if it cannot be read. */
static struct str read_task(int tid, const char *name, char *text, size_t size)
{
    char path[64];
    long got;
    int fd;

    snprintf(path, sizeof path, "/proc/self/task/%d/%s", tid, name);
    fd = (int) sys_call(SYS_openat, AT_FDCWD, (long) path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return (struct str){0};
    got = sys_call(SYS_read, fd, (long) text, (long) size, 0);
    sys_call(SYS_close, fd, 0, 0, 0);
    return (struct str){text, got > 0 ? (uint32_t) got : 0};
}

int64_t sleeping_ready_ns(int tid)
{
    char text[128];
    struct str rest = read_task(tid, "schedstat", text, sizeof text);
    int64_t ns;

    str_cut(&rest, ' '); /* its CPU time */
    return str_to_i64(str_cut(&rest, ' '), 10, &ns) < 0 ? -1 : ns;
}

static bool read_registers(int tid, struct walk_start *ret)
{
    char text[256];
    struct str rest = read_task(tid, "syscall", text, sizeof text);
    uint64_t v = 0, n = 0;

    ret->after = !str_starts(rest, STR("-1 ")); /* it waits in a system call, not for a page */
    for (; rest.n; n++) {
        struct str one = str_trim(str_cut(&rest, ' '));

        if (n && str_to_u64(str_starts(one, STR("0x")) ? str_slice(one, 2, one.n) : one, 16, &v) < 0)
            return false;
        ret->sp = ret->pc;
        ret->pc = v;
    }
    return n >= 3 && ret->sp && ret->pc;
}

uint32_t sleeping_walk(const struct thr *t, uint64_t *pc, uint32_t max, uint8_t *ret_flags, uint32_t *ret_generation)
{
    int64_t before = thr_cpu_ns(t->tid);
    struct walk_start from = {0};
    uint32_t n;

    if (before < 0 || !read_registers(t->tid, &from))
        return 0;
    n = handler_walk_at(&from, pc, max, ret_flags, ret_generation);
    return thr_cpu_ns(t->tid) == before ? n : 0;
}
