/* SPDX-License-Identifier: Apache-2.0 */
/* Requests for CPU profiles of single processes: the server's side sends them, the agent's side runs `wick record` for
 * each. */
#include "host/agent_profiles.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/identity.h"
#include "agent/perf_opener.h"
#include "base/bytes.h"
#include "base/fd.h"
#include "proc/socket_owner.h"

enum { REQUEST_BYTES = 8 + SOCKET_ADDRESS_MAX };

union profile_control {
    struct cmsghdr header;
    char room[CMSG_SPACE(2 * sizeof(int))];
};

/* --- the server's side --- */

struct profile_request {
    uint32_t pid, seconds;
    char address[SOCKET_ADDRESS_MAX];
};

static int send_request(int feed, const struct profile_request *q, const int fds[2])
{
    char text[REQUEST_BYTES];
    struct iovec io = {text, sizeof text};
    union profile_control control = {.room = {0}};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    store_u32(text, q->pid);
    store_u32(text + 4, q->seconds);
    memcpy(text + 8, q->address, sizeof q->address);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(2 * sizeof(int));
    memcpy(CMSG_DATA(c), fds, 2 * sizeof(int));
    return sendmsg(feed, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof text ? 0 : -errno;
}

static int send_with_pipes(int feed, const struct profile_request *q, int ret[2], struct err *e)
{
    int out[2], words[2], r;

    if (pipe2(out, O_CLOEXEC) < 0)
        return err_set(e, -errno, "cannot create a pipe: %m");
    if (pipe2(words, O_CLOEXEC) < 0) {
        r = err_set(e, -errno, "cannot create a pipe: %m");
        fd_close(out[0]);
        fd_close(out[1]);
        return r;
    }
    r = send_request(feed, q, (int[]){out[1], words[1]});
    fd_close(out[1]);
    fd_close(words[1]);
    if (r < 0) {
        fd_close(out[0]);
        fd_close(words[0]);
        return err_set(e, -ESHUTDOWN, "cannot send a request to the agent: %s", strerror(-r));
    }
    ret[0] = out[0];
    ret[1] = words[0];
    return 0;
}

int agent_profiles_ask(int feed, pid_t pid, unsigned seconds, int ret[2], struct err *e)
{
    return send_with_pipes(feed, &(struct profile_request){.pid = (uint32_t) pid, .seconds = seconds}, ret, e);
}

int agent_profiles_ask_owner(int feed, const char *address, bool named, int ret[2], struct err *e)
{
    struct profile_request q = {.seconds = named};

    if (strlen(address) >= sizeof q.address)
        return err_set(e, -EINVAL, "'%s' is not an address", address);
    snprintf(q.address, sizeof q.address, "%s", address);
    return send_with_pipes(feed, &q, ret, e);
}

/* --- the agent's side --- */

/* False when there is no complete request. */
static bool read_request(int feed, struct profile_request *ret, int fds[2])
{
    unsigned char text[REQUEST_BYTES];
    struct iovec io = {text, sizeof text};
    union profile_control control;
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(feed, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    struct cmsghdr *c = n == sizeof text ? CMSG_FIRSTHDR(&m) : NULL;

    if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(2 * sizeof(int)))
        return false;
    memcpy(fds, CMSG_DATA(c), 2 * sizeof(int));
    ret->pid = load_u32(text);
    ret->seconds = load_u32(text + 4);
    memcpy(ret->address, text + 8, sizeof ret->address);
    ret->address[sizeof ret->address - 1] = 0;
    return true;
}

static int print_owner(const char *address, bool named)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct socket_owner owner;

    if (socket_owner_find(address, &owner) < 0)
        return EXIT_FAILURE;
    if (named)
        identity_name(owner.pid, owner.service, sizeof owner.service, owner.command, sizeof owner.command);
    socket_owner_put(&owner, &b);
    return buf_error(&b) || fd_write_all(STDOUT_FILENO, b.p, b.n) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Closes all descriptors except the first three and this one. */
static void close_all_but(int fd)
{
    if (fd > STDERR_FILENO + 1)
        close_range(STDERR_FILENO + 1, (unsigned) fd - 1, 0);
    close_range((unsigned) MAX(fd, STDERR_FILENO) + 1, ~0U, 0);
}

/* Runs in the child, which keeps only the rights of the agent. */
static _Noreturn void answer(const struct agent_profiles *p, const struct profile_request *q, const int fds[2])
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dup2(fds[0], STDOUT_FILENO) < 0 || dup2(fds[1], STDERR_FILENO) < 0)
        _exit(EXIT_FAILURE);
    close_all_but(perf_opener_fd());
    _exit(q->pid ? p->record(q->pid, q->seconds) : print_owner(q->address, q->seconds));
}

void agent_profiles_begin(struct agent_profiles *p, int feed)
{
    struct agent_profile new = {.child = -1};
    struct profile_request q;
    int fds[2];

    if (!read_request(feed, &q, fds))
        return;
    new.out = fds[0];
    new.words = fds[1];
    if (p->n < AGENT_PROFILES_MAX)
        new.child = fork();
    if (new.child == 0)
        answer(p, &q, fds);
    if (new.child > 0) {
        p->v[p->n++] = new;
        return;
    }
    dprintf(new.words, p->n == AGENT_PROFILES_MAX ? "too many profiles are already being recorded"
                                                  : "cannot start the sampling process");
    fd_close(new.out);
    fd_close(new.words);
}

unsigned agent_profiles_poll(struct agent_profiles *p, struct pollfd *fds)
{
    for (unsigned i = 0; i < p->n; i++)
        fds[i] = (struct pollfd){p->v[i].out, 0, 0}; /* POLLERR: the reader is gone */
    return p->n;
}

void agent_profiles_tend(struct agent_profiles *p)
{
    for (unsigned i = 0; i < p->n;) {
        struct agent_profile *v = &p->v[i];
        struct pollfd reader = {v->out, 0, 0};
        int status = 0;

        if (poll(&reader, 1, 0) > 0)
            kill(v->child, SIGKILL);
        if (waitpid(v->child, &status, WNOHANG) != v->child) {
            i++;
            continue;
        }
        if (WIFSIGNALED(status))
            dprintf(v->words, "the sampler was killed by signal %d", WTERMSIG(status));
        fd_close(v->out);
        fd_close(v->words);
        *v = p->v[--p->n];
    }
}
