/* SPDX-License-Identifier: Apache-2.0 */
/* HotSpot's attach protocol: see java_attach.h. */
#include "proc/java_attach.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"

enum { TRIES = 100, TRY_MS = 50, ANSWER_MAX = 4096 };

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

static int connect_to(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = 10};
    int fd;

    if (strlen(path) >= sizeof to.sun_path)
        return -ENAMETOOLONG;
    memcpy(to.sun_path, path, strlen(path));
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

/* Makes the virtual machine open its socket. */
static int open_socket(int pid, int inner, const char *socket_path)
{
    char trigger[96];
    int fd, r = -ETIMEDOUT;

    snprintf(trigger, sizeof trigger, "/proc/%d/cwd/.attach_pid%d", pid, inner);
    fd = open(trigger, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        snprintf(trigger, sizeof trigger, "/proc/%d/root/tmp/.attach_pid%d", pid, inner);
        fd = open(trigger, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
    }
    if (fd < 0)
        return -errno;
    fd_close(fd);
    if (kill(pid, SIGQUIT) < 0)
        r = -errno;
    for (int i = 0; i < TRIES && r == -ETIMEDOUT; i++) {
        if (access(socket_path, F_OK) == 0)
            r = 0;
        else
            poll(NULL, 0, TRY_MS);
    }
    unlink(trigger);
    return r;
}

int java_attach_perfmap(int pid, struct err *e)
{
    static const char request[] = "1\0jcmd\0Compiler.perfmap\0\0"; /* and the zero of the string */
    _cleanup_(fd_closep) int fd = -1;
    char path[96], answer[ANSWER_MAX];
    bool catches = false;
    int inner, r = read_status(pid, &inner, &catches);
    ssize_t n;

    if (r < 0)
        return err_set(e, r, "cannot read the status of process %d: %m", pid);
    snprintf(path, sizeof path, "/proc/%d/root/tmp/.java_pid%d", pid, inner);
    if (access(path, F_OK) < 0) {
        r = catches ? open_socket(pid, inner, path) : -ENOTSUP;
        if (r < 0)
            return err_set(e, r, "process %d does not open its socket for commands: %m", pid);
    }
    fd = connect_to(path);
    if (fd < 0)
        return err_set(e, fd, "cannot connect to the Java process %d: %m", pid);
    if (send(fd, request, sizeof request, MSG_NOSIGNAL) != (ssize_t) sizeof request)
        return err_set(e, -EIO, "cannot send a command to the Java process %d", pid);
    n = recv(fd, answer, sizeof answer - 1, MSG_WAITALL);
    if (n < 2 || answer[0] != '0' || answer[1] != '\n')
        return err_set(e, -EPROTO, "the Java process %d refused the command Compiler.perfmap", pid);
    return 0;
}
