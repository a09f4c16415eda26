/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a helper process (spawn.h). The helper is a grandchild: its parent, created without an exit signal, ends at
 * once, so that init inherits the helper and the host's wait() sees neither. Both share our memory until they end or
 * exec (as with vfork()), so the host's pages are not copied.
 */
#include "sdk/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "sdk/ending.h"
#include "sdk/sys.h"

enum { STACK = 64 << 10, READ_SIZE = 65536, SLICE_MS = 100, ENV_MAX = 4 };

struct spawn_plan {
    const char *const *argv;
    const char *env[ENV_MAX];
    int out;
    char *stack; /* top of the grandchild's stack */
    int pid, error;
};

/* Calls no libc function that could lock or allocate. */
static int grandchild(void *arg)
{
    struct spawn_plan *p = arg;
    uint64_t none = 0;
    int null = (int) sys_call(SYS_openat, AT_FDCWD, (long) "/dev/null", O_RDWR, 0);

    if (null >= 0) {
        sys_call(SYS_dup3, null, 0, 0, 0);
        sys_call(SYS_dup3, null, 2, 0, 0);
    }
    sys_call(SYS_dup3, p->out, 1, 0, 0);
    sys_call(SYS_setsid, 0, 0, 0, 0);
    sys_call(SYS_rt_sigprocmask, SIG_SETMASK, (long) &none, 0, 8);
    p->error = (int) -sys_call(SYS_execve, (long) p->argv[0], (long) p->argv, (long) p->env, 0);
    sys_call(SYS_exit_group, 127, 0, 0, 0);
    return 0;
}

static int between(void *arg)
{
    struct spawn_plan *p = arg;

    p->pid = clone(grandchild, p->stack, CLONE_VM | CLONE_VFORK | SIGCHLD, p);
    sys_call(SYS_exit_group, 0, 0, 0, 0);
    return 0;
}

static void keep_variable(struct spawn_plan *p, size_t *n, const char *name, char *to, size_t size)
{
    const char *v = secure_getenv(name);

    if (v && snprintf(to, size, "%s=%s", name, v) < (int) size)
        p->env[(*n)++] = to;
}

static int start(const char *const *argv, int out, int *ret_pid)
{
    char *stacks = mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    struct spawn_plan p = {.argv = argv, .out = out};
    char path[2048], library_path[2048];
    size_t n = 0;
    int pid;

    if (stacks == MAP_FAILED)
        return -ENOMEM;
    keep_variable(&p, &n, "PATH", path, sizeof path);
    keep_variable(&p, &n, "LD_LIBRARY_PATH", library_path, sizeof library_path);
    p.stack = stacks + STACK;
    pid = clone(between, stacks + 2 * STACK, CLONE_VM | CLONE_VFORK, &p);
    if (pid > 0)
        while (sys_call(SYS_wait4, pid, 0, (long) (int) __WCLONE, 0) == -EINTR)
            ;
    *ret_pid = p.pid;
    munmap(stacks, 2 * STACK);
    if (pid < 0)
        return -errno;
    return p.pid < 0 ? -EAGAIN : -p.error;
}

static int read_all(int fd, size_t limit, int64_t deadline, void (*pump)(void), struct buf *out)
{
    for (;;) {
        struct pollfd f = {.fd = fd, .events = POLLIN};
        char *room = buf_reserve(out, READ_SIZE);
        ssize_t n;

        if (!room)
            return -ENOMEM;
        if (clock_mono() >= ending_deadline(deadline))
            return -ETIMEDOUT;
        if (poll(&f, 1, SLICE_MS) <= 0) {
            if (pump)
                pump();
            continue;
        }
        n = read(fd, room, READ_SIZE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        out->n += (size_t) n;
        if (out->n > limit)
            return -E2BIG;
    }
}

int spawn_read(const char *const *argv, size_t limit, int64_t deadline, void (*pump)(void), struct buf *out,
               struct err *e)
{
    int fds[2], pid = 0, r;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_set(e, -errno, "cannot create a pipe: %m");
    r = start(argv, fds[1], &pid);
    close(fds[1]);
    if (r < 0) {
        err_set(e, r, "cannot run '%s': %m", argv[0]);
    } else {
        r = read_all(fds[0], limit, deadline, pump, out);
        if (r < 0) {
            err_set(e, r, "'%s' does not respond: %m", argv[0]);
            kill(pid, SIGKILL);
        }
        sys_call(SYS_wait4, pid, 0, WNOHANG, 0); /* it is our child only if the host adopts orphans */
    }
    close(fds[0]);
    return r;
}
