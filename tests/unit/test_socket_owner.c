/* SPDX-License-Identifier: Apache-2.0 */
/* Which process holds a socket (proc/socket_owner.h), and fields of /proc/PID/stat. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "proc/proc_children.h"
#include "proc/proc_stat.h"
#include "proc/socket_owner.h"
#include "tap.h"

static int listener(int family, char *ret, size_t size)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6}; /* both families, all addresses */
    socklen_t n = family == AF_INET ? sizeof v4 : sizeof v6;
    struct sockaddr *a = family == AF_INET ? (struct sockaddr *) &v4 : (struct sockaddr *) &v6;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, a, n) < 0 || listen(fd, 1) < 0 || getsockname(fd, a, &n) < 0)
        return -1;
    snprintf(ret, size, "127.0.0.1:%u", ntohs(family == AF_INET ? v4.sin_port : v6.sin6_port));
    return fd;
}

static void test_owner(void)
{
    char address[SOCKET_ADDRESS_MAX], peer[SOCKET_ADDRESS_MAX];
    int fd = listener(AF_INET, address, sizeof address), client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET}, own;
    struct socket_owner o;
    socklen_t n = sizeof own;
    struct proc_stat st;
    pid_t child;

    ok(fd >= 0 && client >= 0 && getsockname(fd, (struct sockaddr *) &to, &n) == 0);
    ok(connect(client, (struct sockaddr *) &to, sizeof to) == 0 &&
       getsockname(client, (struct sockaddr *) &own, &n) == 0);
    snprintf(peer, sizeof peer, "127.0.0.1:%u", ntohs(own.sin_port));
    child = fork(); /* holds both sockets, too */
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pause();
        _exit(0);
    }
    ok(socket_owner_find(address, &o) == 0 && o.pid == getpid());
    memset(&o, 0, sizeof o);
    ok(socket_owner_find(peer, &o) == 0 && o.pid == getpid());
    ok(proc_stat_read(getpid(), &st) == 0 && st.start_ticks == o.start_ticks && st.parent == getppid());
    ok(strstr(o.exe, "test_socket_owner") != NULL);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(client);
    close(fd);
    eq_int(socket_owner_find(address, &o), -ENOENT);
    eq_int(socket_owner_find("127.0.0.1", &o), -EINVAL);
    eq_int(socket_owner_find("localhost:80", &o), -EINVAL);
}

/* A socket on [::] accepts IPv4 connections, and is listed with the IPv6 ones. */
static void test_both_families(void)
{
    char address[SOCKET_ADDRESS_MAX];
    struct socket_owner o;
    int fd = listener(AF_INET6, address, sizeof address);

    if (fd < 0) /* no IPv6 here */
        return;
    ok(socket_owner_find(address, &o) == 0 && o.pid == getpid());
    close(fd);
}

static void test_text(void)
{
    struct socket_owner o = {42, 7, "/usr/bin/my shop", "shop", "./my shop"}, back;
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    socket_owner_put(&o, &b);
    ok(socket_owner_parse(buf_str(&b), &back) == 0 && back.pid == 42 && back.start_ticks == 7);
    ok(strcmp(back.exe, o.exe) == 0 && strcmp(back.service, "shop") == 0 && strcmp(back.command, "./my shop") == 0);
    ok(socket_owner_parse(STR("42 7 /x"), &back) == 0 && !back.service[0] && !back.command[0]);
    eq_int(socket_owner_parse(STR(""), &back), -EBADMSG);
    eq_int(socket_owner_parse(STR("0 1 /x"), &back), -EBADMSG);
    eq_int(socket_owner_parse(STR("12"), &back), -EBADMSG);
}

static void test_descendants(void)
{
    pid_t pids[8] = {getpid()}, child;
    size_t n = 1;
    int ready[2];
    char byte;

    ok(pipe(ready) == 0);
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (fork() == 0)
            prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (write(ready[1], "x", 1) == 1)
            pause();
        _exit(0);
    }
    ok(read(ready[0], &byte, 1) == 1 && read(ready[0], &byte, 1) == 1);
    ok(proc_add_descendants(pids, &n, ARRAY_SIZE(pids)) == 0);
    ok(n == 3 && (pids[1] == child || pids[2] == child));
    n = 2;
    pids[1] = 1; /* room for none */
    ok(proc_add_descendants(pids, &n, 2) == 0 && n == 2);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

int main(void)
{
    tap_run(test_owner);
    tap_run(test_both_families);
    tap_run(test_text);
    tap_run(test_descendants);
    return tap_done();
}
