/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives descriptors as SCM_RIGHTS (fd_pass.h). */
#include "base/fd_pass.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"

union control {
    struct cmsghdr header;
    char room[CMSG_SPACE(FD_PASS_MAX * sizeof(int))];
};

ssize_t fd_pass_send(int to, const struct iovec *io, size_t n_io, const int *fds, size_t n_fds)
{
    union control control = {.room = {0}};
    struct msghdr m = {.msg_iov = (struct iovec *) (uintptr_t) io, .msg_iovlen = n_io};
    ssize_t n;

    if (n_fds > FD_PASS_MAX)
        return -EINVAL;
    if (n_fds) {
        struct cmsghdr *c = &control.header;

        m.msg_control = control.room;
        m.msg_controllen = CMSG_SPACE(n_fds * sizeof *fds);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n_fds * sizeof *fds);
        memcpy(CMSG_DATA(c), fds, n_fds * sizeof *fds);
    }
    do
        n = sendmsg(to, &m, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

ssize_t fd_pass_receive(int from, void *to, size_t n, int *fds, size_t max_fds, int flags)
{
    struct iovec io = {to, n};
    union control control = {.room = {0}};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control};
    size_t count = 0;
    ssize_t got;

    for (size_t i = 0; i < max_fds; i++)
        fds[i] = -1;
    do
        got = recvmsg(from, &m, MSG_CMSG_CLOEXEC | flags);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; (i + 1) * sizeof(int) <= c->cmsg_len - CMSG_LEN(0); i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (count < max_fds)
                fds[count++] = fd;
            else
                fd_close(fd);
        }
    }
    return got;
}
