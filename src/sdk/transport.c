/* SPDX-License-Identifier: Apache-2.0 */
/* TCP connections with deadlines (transport.h): resolving, connecting, reading and writing. */
#include "sdk/transport.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "sdk/ending.h"
#include "sdk/tls_dl.h"

enum { SLICE_MS = 100 };

int transport_wait(struct transport *t, short events)
{
    for (;;) {
        int64_t left = (ending_deadline(t->deadline) - clock_mono()) / NS_PER_MS;
        struct pollfd p = {.fd = t->fd, .events = events};
        int r;

        if (left <= 0)
            return -ETIMEDOUT;
        r = poll(&p, 1, (int) MIN(left, (int64_t) SLICE_MS));
        if (r > 0)
            return 0;
        if (r < 0 && errno != EINTR)
            return -errno;
        if (t->pump)
            t->pump();
    }
}

static int connect_to(struct transport *t, const struct sockaddr *a, socklen_t n)
{
    int r, one = 1, error = 0;
    socklen_t size = sizeof error;

    t->fd = socket(a->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (t->fd < 0)
        return -errno;
    setsockopt(t->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    r = connect(t->fd, a, n) < 0 ? -errno : 0;
    if (r == -EINPROGRESS) {
        r = transport_wait(t, POLLOUT);
        if (r == 0 && getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0)
            r = -error;
    }
    if (r < 0) {
        close(t->fd);
        t->fd = -1;
    }
    return r;
}

static int connect_ip(struct transport *t, const char *host, uint16_t port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    int r;

    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1)
        return connect_to(t, (struct sockaddr *) &v4, sizeof v4);
    if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1)
        return connect_to(t, (struct sockaddr *) &v6, sizeof v6);
    if (strcmp(host, "localhost") != 0)
        return -EADDRNOTAVAIL;
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    r = connect_to(t, (struct sockaddr *) &v4, sizeof v4);
    if (r < 0 && r != -ETIMEDOUT) {
        v6.sin6_addr = in6addr_loopback;
        if (connect_to(t, (struct sockaddr *) &v6, sizeof v6) == 0)
            r = 0;
    }
    return r;
}

/* Uses the host's resolver, which may allocate and be slow; numeric addresses and localhost are therefore handled
 * without it. */
static int connect_name(struct transport *t, const char *host, uint16_t port, struct err *e)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
    char service[8];
    int r;

    snprintf(service, sizeof service, "%u", port);
    r = getaddrinfo(host, service, &hints, &list);
    if (r)
        return err_set(e, -EHOSTUNREACH, "cannot resolve host '%s': %s", host, gai_strerror(r));
    r = -EHOSTUNREACH;
    for (struct addrinfo *a = list; a && r < 0 && r != -ETIMEDOUT; a = a->ai_next)
        r = connect_to(t, a->ai_addr, a->ai_addrlen);
    freeaddrinfo(list);
    return r < 0 ? err_set(e, r, "cannot reach %s:%u: %m", host, port) : 0;
}

int transport_open(struct transport *t, const struct transport_target *to, struct err *e)
{
    char host[256];
    int r;

    t->fd = -1;
    t->ssl = NULL;
    if (to->host.n >= sizeof host)
        return err_set(e, -EINVAL, "the endpoint's host is too long");
    memcpy(host, to->host.p, to->host.n);
    host[to->host.n] = 0;
    r = connect_ip(t, host, to->port);
    if (r == -EADDRNOTAVAIL)
        r = connect_name(t, host, to->port, e);
    else if (r < 0)
        err_set(e, r, "cannot reach %s:%u: %m", host, to->port);
    if (r == 0 && to->tls)
        r = tls_open(t, host, to->h2, to->ca_file, e);
    if (r < 0)
        transport_close(t);
    return r;
}

void transport_close(struct transport *t)
{
    if (t->ssl)
        tls_close(t);
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
    t->ssl = NULL;
}

int transport_write(struct transport *t, const void *p, size_t n, struct err *e)
{
    for (size_t done = 0; done < n;) {
        ssize_t r;

        if (t->ssl) {
            r = tls_write(t, (const char *) p + done, n - done);
        } else {
            r = send(t->fd, (const char *) p + done, n - done, MSG_NOSIGNAL);
            if (r < 0)
                r = errno == EAGAIN || errno == EINTR ? transport_wait(t, POLLOUT) : -errno;
        }
        if (r < 0)
            return err_set(e, (int) r, "cannot send to the collector: %m");
        done += (size_t) r;
    }
    return 0;
}

ptrdiff_t transport_read(struct transport *t, void *p, size_t n, struct err *e)
{
    for (;;) {
        ssize_t r;

        if (t->ssl) {
            r = tls_read(t, p, n);
            return r < 0 ? err_set(e, (int) r, "cannot read from the collector: %m") : r;
        }
        r = recv(t->fd, p, n, 0);
        if (r >= 0)
            return r;
        r = errno == EAGAIN || errno == EINTR ? transport_wait(t, POLLIN) : -errno;
        if (r < 0)
            return err_set(e, (int) r, "the collector does not respond: %m");
    }
}
