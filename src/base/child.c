/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and runs other programs (child.h) with posix_spawn(); their output is read through a pipe, or they talk over a
 * socket pair. */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

extern char **environ;

static bool is_program(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

bool child_find(struct str folders, const char *name, struct buf *ret_path)
{
    if (strchr(name, '/')) {
        buf_reset(ret_path);
        buf_puts(ret_path, name);
        return buf_cstr(ret_path) && is_program(ret_path->p);
    }
    if (!folders.n)
        folders = str_from(getenv("PATH"));
    while (folders.n) {
        struct str one = str_cut(&folders, ':');

        buf_reset(ret_path);
        buf_printf(ret_path, "%.*s%s%s", STR_FMT(one), one.n ? "/" : "", name);
        if (buf_cstr(ret_path) && is_program(ret_path->p))
            return true;
    }
    return false;
}

static int start(const char *const *argv, int in, int out, pid_t *ret)
{
    posix_spawn_file_actions_t fa;
    int r;

    posix_spawn_file_actions_init(&fa);
    if (in >= 0)
        posix_spawn_file_actions_adddup2(&fa, in, STDIN_FILENO);
    else
        posix_spawn_file_actions_addopen(&fa, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&fa, out, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&fa, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    r = posix_spawnp(ret, argv[0], &fa, NULL, (char *const *) argv, environ);
    posix_spawn_file_actions_destroy(&fa);
    return -r;
}

int child_output(const char *const *argv, size_t limit, struct buf *out, struct err *e)
{
    return child_filter(argv, -1, &(struct child_limits){.output = limit}, out, e);
}

/* Waits until there is something to read, or until the deadline. */
static int wait_readable(int fd, int64_t deadline)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    for (;;) {
        int64_t left = deadline - clock_mono();
        int r = left <= 0 ? 0 : poll(&p, 1, (int) MIN(left / NS_PER_MS + 1, INT32_MAX));

        if (r > 0)
            return 0;
        if (r == 0 && clock_mono() >= deadline)
            return -ETIMEDOUT;
        if (r < 0 && errno != EINTR)
            return -errno;
    }
}

static int read_output(int fd, size_t limit, int64_t deadline, struct buf *out)
{
    enum { PIECE = 65536 };

    if (!deadline)
        return fd_read_all(fd, limit, out);
    for (;;) {
        int r = wait_readable(fd, deadline);
        char *p = r < 0 ? NULL : buf_reserve(out, PIECE);
        ssize_t n;

        if (!p)
            return r < 0 ? r : buf_error(out);
        n = fd_read(fd, p, PIECE);
        if (n <= 0)
            return (int) n;
        out->n += (size_t) n;
        if (out->n > limit)
            return -EFBIG;
    }
}

/* Waits for the end of the child, which is killed at the deadline (0: never). */
static int wait_end(pid_t pid, int64_t deadline, int *ret_status)
{
    int n = 0;

    while (deadline && (n = waitpid(pid, ret_status, WNOHANG)) == 0 && clock_mono() < deadline)
        nanosleep(&(struct timespec){.tv_nsec = NS_PER_MS}, NULL);
    if (n)
        return n;
    if (deadline)
        kill(pid, SIGKILL);
    while ((n = waitpid(pid, ret_status, 0)) < 0 && errno == EINTR)
        ;
    return n;
}

int child_filter(const char *const *argv, int in, const struct child_limits *limits, struct buf *out, struct err *e)
{
    int64_t deadline = limits->ns ? clock_mono() + limits->ns : 0;
    int ends[2], status, r, n;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_set(e, -errno, "cannot create a pipe: %m");
    r = start(argv, in, ends[1], &pid);
    fd_close(ends[1]);
    if (r < 0) {
        fd_close(ends[0]);
        return err_set(e, r, "cannot run %s: %m", argv[0]);
    }
    r = read_output(ends[0], limits->output, deadline, out);
    fd_close(ends[0]); /* a child that has more to write is killed by SIGPIPE */
    n = wait_end(pid, deadline, &status);
    if (r == -ETIMEDOUT)
        return err_set(e, r, "%s took longer than %lld s", argv[0], (long long) (limits->ns / NS_PER_S));
    if (r < 0)
        return err_set(e, r, "cannot read the output of %s: %m", argv[0]);
    if (n < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return err_set(e, -EIO, "%s: exit status %d", argv[0], n >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    return 0;
}

int child_on_socket(char *const *argv, int type, pid_t *ret_pid, int *ret_fd, struct err *e)
{
    posix_spawn_file_actions_t fa;
    int ends[2], r;

    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) < 0)
        return err_set(e, -errno, "cannot make a socket pair: %m");
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_adddup2(&fa, ends[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&fa, ends[1], STDOUT_FILENO);
    r = -posix_spawn(ret_pid, argv[0], &fa, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&fa);
    fd_close(ends[1]);
    if (r < 0) {
        fd_close(ends[0]);
        return err_set(e, r, "cannot start '%s': %m", argv[0]);
    }
    *ret_fd = ends[0];
    return 0;
}

int child_end(pid_t pid, int fd, int64_t *cpu_ns)
{
    struct rusage used = {0};
    int status = 0;

    fd_close(fd);
    kill(pid, SIGKILL);
    while (wait4(pid, &status, 0, &used) < 0 && errno == EINTR)
        ;
    *cpu_ns += clock_rusage(&used);
    return status;
}

int64_t child_cpu_ns(pid_t pid)
{
    struct timespec t = {0};
    clockid_t clock;

    if (pid && clock_getcpuclockid(pid, &clock) == 0)
        clock_gettime(clock, &t);
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}
