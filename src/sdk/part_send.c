/* SPDX-License-Identifier: Apache-2.0 */
/* Sends profiles over a Unix socket to the `wick run` that started the process (part_send.h). */
#include "sdk/part_send.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static socklen_t address_size;
static char token[64];

void part_send_to(const char *parts)
{
    const char *colon = parts ? strchr(parts, ':') : NULL;
    size_t n = colon ? (size_t) (colon - parts) : 0;

    if (!n || n >= sizeof address.sun_path - 1)
        return;
    memcpy(address.sun_path + 1, parts, n); /* an abstract address begins with a zero byte */
    snprintf(token, sizeof token, "%s", colon + 1);
    address_size = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

static int send_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t r = send(fd, p, n, MSG_NOSIGNAL);

        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return r < 0 ? -errno : -EPIPE;
        p += r;
        n -= (size_t) r;
    }
    return 0;
}

int part_send(const char *type, const void *p, size_t n, struct err *e)
{
    struct timeval patience = {.tv_sec = 2};
    char head[160], answer;
    int fd, r;

    if (!address_size)
        return -ENOTCONN;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_set(e, -errno, "cannot create a socket: %m");
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    r = connect(fd, (struct sockaddr *) &address, address_size) < 0 ? -ENOTCONN : 0;
    if (r == 0) {
        int k = snprintf(head, sizeof head, "wick-part %s %s %zu\n", token, type, n);

        r = send_all(fd, head, (size_t) k);
    }
    if (r == 0)
        r = send_all(fd, p, n);
    if (r == 0 && recv(fd, &answer, 1, 0) != 1)
        r = -EIO;
    close(fd);
    return r < 0 ? err_set(e, r, "cannot send the profile to wick run: %m") : 0;
}
