/* SPDX-License-Identifier: Apache-2.0 */
/* base/confine: what is left after rights were given up, tried out in children; net/peer_uid against known owners. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/confine.h"
#include "net/peer_uid.h"
#include "tap.h"

/* Runs f in a child; its result. */
static int in_child(int (*f)(void))
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit(f());
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool fails_with(long r, int error)
{
    return r < 0 && errno == error;
}

static int try_calls(void)
{
    if (confine_calls(confine_daemon, confine_daemon_n, NULL, 0) < 0)
        return 1;
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        return 2;
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 2)
        return 100; /* a sanitizer's build */
    if (!fails_with(syscall(SYS_unshare, CLONE_NEWUSER), EPERM) ||
        !fails_with(syscall(SYS_mount, 0, 0, 0, 0, 0), EPERM) || !fails_with(syscall(SYS_ptrace, 0, 0, 0, 0), EPERM) ||
        !fails_with(syscall(SYS_bpf, 0, 0, 0), EPERM) || !fails_with(syscall(SYS_setresuid, 0, 0, 0), EPERM))
        return 3;
    if (!fails_with(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0), EPERM))
        return 4;
    if (!fails_with(socket(AF_PACKET, SOCK_RAW, 0), EPERM) || socket(AF_INET, SOCK_STREAM, 0) < 0)
        return 5;
    return fork() == 0 ? 0 : wait(NULL) > 0 ? 0 : 6;
}

static int try_caps(void)
{
    uint64_t have = 1;

    if (confine_become(52001, 52001, CONFINE_CAP(CAP_SYSLOG)) < 0)
        return 1;
    if (confine_caps_get(&have) < 0 || have != CONFINE_CAP(CAP_SYSLOG))
        return 2;
    if (confine_caps(0) < 0 || confine_caps_get(&have) < 0 || have)
        return 3;
    if (getuid() != 52001 || geteuid() != 52001 || getgid() != 52001 || setuid(0) == 0)
        return 4;
    return prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN, 0, 0, 0) ? 5 : 0;
}

/* --- peers --- */

struct pair {
    int listener, client, server;
};

static int connect_as(int family, uid_t uid, struct pair *ret)
{
    struct sockaddr_storage a = {.ss_family = (sa_family_t) family};
    socklen_t n = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);

    if (family == AF_INET)
        ((struct sockaddr_in *) &a)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        ((struct sockaddr_in6 *) &a)->sin6_addr = in6addr_loopback;
    ret->listener = socket(family, SOCK_STREAM, 0);
    if (ret->listener < 0 || bind(ret->listener, (struct sockaddr *) &a, n) < 0 || listen(ret->listener, 4) < 0)
        return -errno;
    getsockname(ret->listener, (struct sockaddr *) &a, &n);
    if (uid && syscall(SYS_setresuid, -1, uid, -1) < 0)
        return -errno;
    ret->client = socket(family, SOCK_STREAM, 0);
    if (uid)
        syscall(SYS_setresuid, -1, 0, -1);
    if (connect(ret->client, (struct sockaddr *) &a, n) < 0)
        return -errno;
    ret->server = accept(ret->listener, NULL, NULL);
    return ret->server < 0 ? -errno : 0;
}

static void close_pair(struct pair *p)
{
    close(p->listener);
    close(p->client);
    close(p->server);
}

static void check_family(int family)
{
    struct pair p;
    uid_t uid = 7;

    if (connect_as(family, 0, &p) < 0)
        return; /* no IPv6 here */
    ok(peer_uid(p.server, &uid) == 0 && uid == geteuid());
    shutdown(p.client, SHUT_WR);
    uid = 7;
    ok(peer_uid(p.server, &uid) == 0 && uid == geteuid());
    close(p.client);
    uid = 7;
    ok(peer_uid(p.server, &uid) == -ENOENT && uid == 7);
    p.client = -1;
    close_pair(&p);
    if (geteuid() == 0 && connect_as(family, 52001, &p) == 0) {
        ok(peer_uid(p.server, &uid) == 0 && uid == 52001);
        close(p.client);
        ok(peer_uid(p.server, &uid) < 0);
        p.client = -1;
        close_pair(&p);
    }
}

static void check_unix(void)
{
    int fds[2];
    uid_t uid = 7;

    socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
    ok(peer_uid(fds[0], &uid) == 0 && uid == geteuid());
    close(fds[0]);
    close(fds[1]);
}

static void test_calls(void)
{
    int r = in_child(try_calls);

    ok(r == 0 || r == 100);
}

static void test_caps(void)
{
    if (geteuid() == 0)
        eq_int(in_child(try_caps), 0);
}

static void test_peer_uid(void)
{
    check_family(AF_INET);
    check_family(AF_INET6);
    check_unix();
}

int main(void)
{
    tap_run(test_calls);
    tap_run(test_caps);
    tap_run(test_peer_uid);
    return tap_done();
}
