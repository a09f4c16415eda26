/* SPDX-License-Identifier: Apache-2.0 */
/* A request is a struct opener_request with a socket for the answer: an errno, and the descriptor if that is 0. */
#include "agent/perf_opener.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/perf_open.h"
#include "base/fd.h"
#include "base/fd_pass.h"

enum { ANSWER_TIMEOUT_MS = 5000 };

struct opener_request {
    struct perf_event_attr attr;
    int cpu;
};

static struct {
    int fd; /* + 1 */
    pid_t pid;
} opener;

/* --- in the opener --- */

/* Clocks, counters and records of a whole CPU: no probes and no breakpoints. */
static int open_for(struct opener_request *q)
{
    if (q->cpu < 0 || q->attr.size != sizeof q->attr)
        return -EINVAL;
    if (q->attr.type != PERF_TYPE_SOFTWARE && q->attr.type != PERF_TYPE_HARDWARE && q->attr.type != PERF_TYPE_HW_CACHE)
        return -EINVAL;
    return perf_open_here(&q->attr, -1, q->cpu);
}

static _Noreturn void serve(int from)
{
    struct opener_request q;
    int to, fd, r;
    ssize_t n;

    while ((n = fd_pass_receive(from, &q, sizeof q, &to, 1, 0)) > 0) {
        fd = n == sizeof q ? open_for(&q) : -EINVAL;
        r = MIN(fd, 0);
        if (to >= 0)
            fd_pass_send(to, &(struct iovec){&r, sizeof r}, 1, &fd, fd >= 0);
        fd_close(fd);
        fd_close(to);
    }
    _exit(0);
}

/* --- in the agent --- */

int perf_opener_start(int (*restrict_self)(void))
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    opener.pid = fork();
    if (opener.pid == 0) {
        signal(SIGINT, SIG_IGN); /* it ends with the agent, not before */
        signal(SIGTERM, SIG_IGN);
        if (dup2(pair[1], STDIN_FILENO) < 0)
            _exit(1);
        close_range(STDIN_FILENO + 1, ~0U, 0);
        if (restrict_self() < 0)
            _exit(1);
        serve(STDIN_FILENO);
    }
    fd_close(pair[1]);
    if (opener.pid < 0) {
        fd_close(pair[0]);
        return -errno;
    }
    opener.fd = pair[0] + 1;
    return 0;
}

void perf_opener_settle(void)
{
    struct perf_event_attr attr = {
        .size = sizeof attr, .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_DUMMY, .task = 1};
    int fd = opener.fd ? perf_open_here(&attr, -1, 0) : -EACCES;

    if (fd < 0)
        return;
    fd_close(fd);
    fd_close(perf_opener_fd());
    opener.fd = 0;
    while (waitpid(opener.pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

int perf_opener_fd(void)
{
    return opener.fd - 1;
}

static int receive_answer(int from)
{
    struct pollfd p = {from, POLLIN, 0};
    int r, fd;

    if (poll(&p, 1, ANSWER_TIMEOUT_MS) <= 0 || fd_pass_receive(from, &r, sizeof r, &fd, 1, 0) != sizeof r)
        return -EACCES;
    return r < 0 ? r : fd >= 0 ? fd : -EACCES;
}

int perf_opener_ask(const struct perf_event_attr *attr, int cpu)
{
    struct opener_request q = {*attr, cpu};
    int pair[2], r = -EACCES;

    if (!opener.fd)
        return -EACCES;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    if (fd_pass_send(perf_opener_fd(), &(struct iovec){&q, sizeof q}, 1, &pair[1], 1) == sizeof q) {
        fd_close(pair[1]);
        pair[1] = -1;
        r = receive_answer(pair[0]);
    }
    fd_close(pair[0]);
    fd_close(pair[1]);
    return r;
}
