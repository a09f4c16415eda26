/* SPDX-License-Identifier: Apache-2.0 */
/* HotSpot's attach protocol: see java_attach.h. */
#include "proc/java_attach.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "proc/far_call.h"

enum { TRIES = 100, TRY_MS = 50, ANSWER_MAX = 64 << 20, REQUEST_SECONDS = 30 };

/* The pid inside of the process's innermost namespace, and whether SIGQUIT is handled: without a handler it would end
 * the program. */
static int read_status(int pid, int *ret_pid, bool *ret_catches)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    char path[64], *at;
    int r;

    snprintf(path, sizeof path, "/proc/%d/status", pid);
    r = fd_read_file(path, 65536, &b, NULL);
    if (r < 0 || !buf_cstr(&b))
        return r < 0 ? r : -ENOMEM;
    *ret_pid = pid;
    at = strstr(b.p, "\nNSpid:");
    if (at) {
        char *end = strchr(at + 1, '\n');

        if (end)
            *end = 0;
        at = strrchr(at, '\t');
        *ret_pid = at ? (int) strtol(at, NULL, 10) : pid;
        if (end)
            *end = '\n';
    }
    at = strstr(b.p, "\nSigCgt:");
    *ret_catches = at && strtoull(at + 8, NULL, 16) & 1ull << (SIGQUIT - 1);
    return 0;
}

/* fd: the socket, found and not opened. Another user's is not HotSpot's. */
static int connect_to(int found)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = 10};
    struct stat st;
    int fd;

    if (fstat(found, &st) < 0)
        return -errno;
    if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
        return -EPERM;
    snprintf(to.sun_path, sizeof to.sun_path, "/proc/self/fd/%d", found);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *) &to, sizeof to) < 0) {
        int r = -errno;

        fd_close(fd);
        return r;
    }
    return fd;
}

/* The program may be in a container, and what lies in its directories is its own: links are followed below its root only. */
static int find_below(int pid, const char *path)
{
    char root[32];

    snprintf(root, sizeof root, "/proc/%d/root", pid);
    return fd_find_in_root(root, path);
}

static int make_trigger(int dir, const char *name)
{
    return dir < 0 ? dir : fd_open(dir, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, 0600);
}

/* Makes the virtual machine open its socket; returns it as found. */
static int open_socket(int pid, int inner, const char *socket_path)
{
    char cwd[32], trigger[32];
    int fd, found = -ETIMEDOUT;
    _cleanup_(fd_closep) int dir = -1;

    snprintf(cwd, sizeof cwd, "/proc/%d/cwd", pid);
    snprintf(trigger, sizeof trigger, ".attach_pid%d", inner);
    dir = fd_open(AT_FDCWD, cwd, O_PATH | O_DIRECTORY, 0);
    fd = make_trigger(dir, trigger);
    if (fd < 0) {
        fd_close(dir);
        dir = find_below(pid, "tmp");
        fd = make_trigger(dir, trigger);
    }
    if (fd < 0)
        return fd;
    fd_close(fd);
    if (kill(pid, SIGQUIT) < 0)
        found = -errno;
    for (int i = 0; i < TRIES && found == -ETIMEDOUT; i++) {
        int at = find_below(pid, socket_path);

        if (at >= 0)
            found = at;
        else
            poll(NULL, 0, TRY_MS);
    }
    fd_unlink(dir, trigger);
    return found;
}

/* The socket that takes commands. */
static int open_commands(int pid, struct err *e)
{
    _cleanup_(fd_closep) int found = -1;
    bool catches = false;
    char path[32];
    int inner, r = read_status(pid, &inner, &catches);

    if (r < 0)
        return err_set(e, r, "cannot read the status of process %d: %m", pid);
    snprintf(path, sizeof path, "tmp/.java_pid%d", inner);
    found = find_below(pid, path);
    if (found < 0)
        found = catches ? open_socket(pid, inner, path) : -ENOTSUP;
    if (found < 0)
        return err_set(e, found, "process %d does not open its socket for commands: %m", pid);
    r = connect_to(found);
    return r < 0 ? err_set(e, r, "cannot connect to the Java process %d: %m", pid) : r;
}

/* Sends a request of n bytes and appends the text of the answer. */
static int ask(int pid, const char *request, size_t n, struct buf *out, struct err *e)
{
    _cleanup_(fd_closep) int fd = open_commands(pid, e);
    _cleanup_(buf_done) struct buf answer = BUF_INIT;
    int r;

    if (fd < 0)
        return fd;
    if (send(fd, request, n, MSG_NOSIGNAL) != (ssize_t) n)
        return err_set(e, -EIO, "cannot send a command to the Java process %d", pid);
    r = fd_read_all(fd, ANSWER_MAX, &answer);
    if (r < 0)
        return err_set(e, r, "the Java process %d does not answer: %m", pid);
    if (!str_starts(buf_str(&answer), STR("0\n")))
        return err_set(e, -EPROTO, "the Java process %d refused the command", pid);
    buf_put_str(out, str_slice(buf_str(&answer), 2, (uint32_t) answer.n));
    return buf_error(out);
}

int java_attach_perfmap(int pid, struct err *e)
{
    static const char request[] = "1\0jcmd\0Compiler.perfmap\0\0"; /* and the zero of the string */
    _cleanup_(buf_done) struct buf text = BUF_INIT;

    return ask(pid, request, sizeof request, &text, e);
}

int java_attach_become_owner(int pid)
{
    char path[32];
    struct stat st;

    far_target(0); /* its helper is the parent's; this process has a deadline of its own */
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    snprintf(path, sizeof path, "/proc/%d", pid);
    if (stat(path, &st) < 0)
        return -errno;
    if (st.st_uid != geteuid() && (setgroups(0, NULL) < 0 || setresgid(st.st_gid, st.st_gid, st.st_gid) < 0 ||
                                   setresuid(st.st_uid, st.st_uid, st.st_uid) < 0))
        return -errno;
    return 0;
}

/* The child's part of java_attach_threads(): the first byte says whether it succeeded, text or error message follow. */
static void answer_threads(int pid, int fd)
{
    static const char request[] = "1\0threaddump\0\0\0";
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct err e = {0};
    int r;

    alarm(REQUEST_SECONDS);
    r = java_attach_become_owner(pid);
    r = r < 0 ? err_set(&e, r, "cannot become the user of process %d: %m", pid)
              : ask(pid, request, sizeof request, &text, &e);
    if (fd_write_all(fd, r < 0 ? "1" : "0", 1) == 0 && r < 0)
        fd_write_all(fd, e.message, strlen(e.message));
    else
        fd_write_all(fd, text.p, text.n);
}

int java_attach_threads(int pid, struct buf *out, struct err *e)
{
    _cleanup_(buf_done) struct buf answer = BUF_INIT;
    struct str text;
    int fds[2], r;
    pid_t child;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_set(e, -errno, "cannot create a pipe: %m");
    child = fork();
    if (child == 0) {
        answer_threads(pid, fds[1]);
        _exit(0);
    }
    fd_close(fds[1]);
    r = child < 0 ? -errno : fd_read_all(fds[0], ANSWER_MAX, &answer);
    fd_close(fds[0]);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    text = buf_str(&answer);
    if (r < 0 || !text.n)
        return err_set(e, r < 0 ? r : -EPROTO, "the Java process %d was not asked for its threads", pid);
    if (text.p[0] != '0')
        return err_set(e, -EPROTO, "%.*s", STR_FMT(str_slice(text, 1, text.n)));
    buf_put_str(out, str_slice(text, 1, text.n));
    return buf_error(out);
}
