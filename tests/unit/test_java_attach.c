/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to Java programs (proc/java_attach.h): a program in a container, which owns its root, cannot lead them out of it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "proc/java_attach.h"
#include "tap.h"

static char root[32], host[32]; /* of the container; beside it */

/* A program whose root is `root`, of this user (0: ours). It has no handler of SIGQUIT: its socket is there, or it has none. */
static pid_t start(uid_t uid)
{
    int ready[2];
    char byte;
    pid_t pid;

    ok(pipe(ready) == 0);
    pid = fork();
    if (pid == 0) {
        bool inside = chroot(root) == 0 || (unshare(CLONE_NEWUSER) == 0 && chroot(root) == 0);

        inside = inside && chdir("/") == 0 && (!uid || setresuid(uid, uid, uid) == 0);
        if (write(ready[1], inside ? "y" : "n", 1) == 1)
            pause();
        _exit(0);
    }
    ok(read(ready[0], &byte, 1) == 1 && byte == 'y');
    fd_close(ready[0]);
    fd_close(ready[1]);
    return pid;
}

static void stop(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static int listen_at(const char *folder, const char *name)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    snprintf(at.sun_path, sizeof at.sun_path, "%s/%s", folder, name);
    ok(bind(fd, (struct sockaddr *) &at, sizeof at) == 0);
    ok(listen(fd, 4) == 0);
    return fd;
}

static void put_link(const char *to, const char *folder, const char *name)
{
    char path[96];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    ok(symlink(to, path) == 0);
}

static void make(void)
{
    strcpy(root, "/tmp/wick-root-XXXXXX");
    strcpy(host, "/tmp/wick-host-XXXXXX");
    ok(mkdtemp(root) && mkdtemp(host));
    ok(chmod(root, 0755) == 0 && chmod(host, 0777) == 0);
}

static void make_tmp(void)
{
    char path[64];

    snprintf(path, sizeof path, "%s/tmp", root);
    ok(mkdir(path, 0777) == 0 && chmod(path, 0777) == 0);
}

static void clear(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf %s %s", root, host);
    ok(system(command) == 0);
}

static void refused(pid_t pid, int listener)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct err e = {0};

    ok(java_attach_threads(pid, &out, &e) < 0);
    ok(!out.n && e.message[0]);
    eq_int(accept(listener, NULL, NULL), -1);
    eq_int(errno, EAGAIN);
    fd_close(listener);
}

/* /tmp is a link to a directory of the host. */
static void test_directory_is_a_link(void)
{
    char name[32];
    pid_t pid;
    int fd;

    make();
    put_link(host, root, "tmp");
    pid = start(0);
    snprintf(name, sizeof name, ".java_pid%d", pid);
    fd = listen_at(host, name);
    refused(pid, fd);
    stop(pid);
    clear();
}

/* The socket itself is one. */
static void test_socket_is_a_link(void)
{
    char name[32], tmp[64], target[64];
    pid_t pid;
    int fd;

    make();
    make_tmp();
    fd = listen_at(host, "socket");
    snprintf(target, sizeof target, "%s/socket", host);
    snprintf(tmp, sizeof tmp, "%s/tmp", root);
    pid = start(0);
    snprintf(name, sizeof name, ".java_pid%d", pid);
    put_link(target, tmp, name);
    refused(pid, fd);
    stop(pid);
    clear();
}

/* A socket that another user has made in a directory that all may write to. */
static void test_socket_of_another(void)
{
    char name[32], tmp[64];
    pid_t pid;
    int fd;

    if (geteuid())
        return;
    make();
    make_tmp();
    snprintf(tmp, sizeof tmp, "%s/tmp", root);
    pid = start(65534);
    snprintf(name, sizeof name, ".java_pid%d", pid);
    fd = listen_at(tmp, name);
    chmod(strcat(strcat(tmp, "/"), name), 0777);
    refused(pid, fd);
    stop(pid);
    clear();
}

/* One that answers: below the program's root, over a link that stays there. */
static void test_answer(void)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    char name[32], real[64], buf[64];
    struct err e = {0};
    pid_t pid, peer;
    int fd;

    make();
    snprintf(real, sizeof real, "%s/real", root);
    ok(mkdir(real, 0777) == 0);
    put_link("/real", root, "tmp");
    pid = start(0);
    snprintf(name, sizeof name, ".java_pid%d", pid);
    fd = listen_at(real, name);
    peer = fork();
    if (peer == 0) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int to = poll(&p, 1, 10000) == 1 ? accept(fd, NULL, NULL) : -1;

        _exit(!(read(to, buf, sizeof buf) > 0 && write(to, "0\nthreads", 9) == 9));
    }
    fd_close(fd);
    eq_int(java_attach_threads(pid, &out, &e), 0);
    eq_str(buf_str(&out), STR("threads"));
    waitpid(peer, NULL, 0);
    stop(pid);
    clear();
}

int main(void)
{
    tap_run(test_directory_is_a_link);
    tap_run(test_socket_is_a_link);
    tap_run(test_socket_of_another);
    tap_run(test_answer);
    return tap_done();
}
